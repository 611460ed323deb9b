"""Hosts on a command line: `--host local`, `--host ssh:user@example.org:2222`."""

from __future__ import annotations

import re

from iodyno.core.errors import ExperimentError
from iodyno.hosts.access import LAB_CPUS, Access
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.ssh import SshAccess

_TARGET = re.compile(
    r"[^\s:-][^\s:]*(:\d{1,5})?|([^\s@-][^\s@]*@)?(\[[0-9A-Fa-f:.%\w]+\](:\d{1,5})?|[0-9A-Fa-f]*:[0-9A-Fa-f:.%\w]+)"
)
"""A name or an address with a port, an IPv6 address, which is in brackets where a port follows."""


def access_of(written: str) -> Access:
    """The host that a word names. Raises ExperimentError."""
    kind, _, target = written.partition(":")
    if written == "local":
        return LocalAccess("local", sorted(LAB_CPUS))
    if kind == "ssh" and _TARGET.fullmatch(target):
        return SshAccess(target, {"to": target})
    raise ExperimentError(
        f"found {written!r}, allowed: local, ssh:[USER@]HOST[:PORT]",
        where="--host",
        advice="iodyno knobs --host ssh:root@server",
    )
