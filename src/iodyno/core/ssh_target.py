"""Whom ssh is to reach, as people write it: `root@server:2222`, `fd19::2`, a Host of ssh_config."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

from iodyno.core.invalid import invalid

FORM = "[USER@]HOST[:PORT]"
HIGHEST_PORT = 65_535

_PARTS = re.compile(
    r"(?P<user>[^\s@:/-][^\s:/]*@)?"
    r"(?:\[(?P<bracketed>[^\s\[\]]+)\](?::(?P<after>\d{1,5}))?"
    r"|(?P<name>[^\s@:\[\]{}/-][^\s@:\[\]{}/]*)(?::(?P<port>\d{1,5}))?"
    r"|(?P<address>[0-9A-Fa-f:]*:[^\s@\[\]{}/]*))"
)


@dataclass(frozen=True)
class SshTarget:
    """`to` is what ssh takes, without brackets; `port` None: what ssh_config says, else 22."""

    to: str
    port: int | None = None

    def __str__(self) -> str:
        """As people write it, with the port."""
        if self.port is None:
            return self.to
        user, at, host = self.to.rpartition("@")
        return f"{user}{at}{f'[{host}]' if ':' in host else host}:{self.port}"


def parse(written: str) -> SshTarget:
    """Whom and which port a text means. Raises ValueError with what was found and what is allowed.

    >>> parse("me@[fd19::2]:2222")
    SshTarget(to='me@fd19::2', port=2222)
    """
    parts = _PARTS.fullmatch(written) if written.isprintable() else None
    if parts is None:
        raise _no_target(written)
    address = parts["bracketed"] or parts["address"]
    if address is not None and not _is_ipv6(address):
        raise _no_target(written)
    number = parts["after"] or parts["port"]
    if number is not None and not 1 <= int(number) <= HIGHEST_PORT:
        raise ValueError(invalid(written, f"a port of 1 to {HIGHEST_PORT}"))
    return SshTarget((parts["user"] or "") + (address or parts["name"]), int(number) if number else None)


def _no_target(written: str) -> ValueError:
    brackets = "; before a port an IPv6 address stands in brackets" if written.count(":") > 1 else ""
    return ValueError(invalid(written, f"{FORM}{brackets}"))


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True
