"""The accesses by name, and the options that a host of each may be given in an experiment file.

How an access reaches a host is in `iodyno.hosts`; here is only what it can be told. To add an access:
describe it here (one entry of `ACCESSES`), give `iodyno/hosts` one file, and `OPENERS` in `iodyno.session.accesses` a line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity
from iodyno.core.invalid import invalid

OptionValue = int | str | Mapping[str, object]
"""Value of an option once read: a count, nanoseconds, a text, or a mapping of names to values."""


@dataclass(frozen=True)
class AccessOption:
    """One thing that an access can be told about a host."""

    name: str
    kind: Literal["text", "count", "duration", "mapping"]
    help: str
    low: int = 1
    high: int = 2**31
    required: bool = False

    def parse(self, written: object) -> OptionValue:
        """The option in its base unit. Raises ValueError with what was found and what is allowed."""
        if self.kind == "mapping":
            if not isinstance(written, Mapping):
                raise ValueError(invalid(written, "keys with their values"))
            return written
        if self.kind == "text":
            if not isinstance(written, str) or not written.strip() or not written.isprintable():
                raise ValueError(invalid(written, "a text that is not empty"))
            return written
        if not isinstance(written, (str, int, float)):
            raise ValueError(invalid(written, f"one {self.kind}"))
        value = quantity.parse(self.kind, written)
        if not self.low <= value <= self.high:
            low, high = quantity.show(self.kind, self.low), quantity.show(self.kind, self.high)
            raise ValueError(invalid(written, f"{low} to {high}"))
        return value


@dataclass(frozen=True)
class AccessKind:
    """A way to reach a host, with its options."""

    name: str
    help: str
    options: tuple[AccessOption, ...] = ()


ACCESSES: Mapping[str, AccessKind] = {
    access.name: access
    for access in (
        AccessKind("local", "This machine as it is; two such hosts talk over loopback."),
        AccessKind(
            "netns",
            "A network namespace on this machine, made and removed by the lab; needs root.",
            (
                AccessOption(
                    "link_mtu", "count", "MTU of the link between the namespaces.", low=1280, high=65_535
                ),
                AccessOption(
                    "addresses",
                    "count",
                    "IPv4 addresses of the host on that link; each allows some 64 000 connections more.",
                    high=4096,
                ),
            ),
        ),
        AccessKind(
            "ssh",
            "Another machine, through the OpenSSH client and its configuration.",
            (
                AccessOption("to", "text", "user@host[:port], or a Host of ssh_config.", required=True),
                AccessOption("port", "count", "Port of the ssh server.", high=65_535),
                AccessOption("identity_file", "text", "Private key to log in with."),
                AccessOption("known_hosts_file", "text", "File of the host keys that are trusted."),
                AccessOption(
                    "config_file",
                    "text",
                    "ssh_config to use instead of the user's; one that has ssh run a program here is refused.",
                ),
                AccessOption(
                    "command_timeout",
                    "duration",
                    "How long a command may take there; in nanoseconds once read.",
                    low=10**8,
                    high=3600 * 10**9,
                ),
            ),
        ),
        AccessKind(
            "simulated",
            "No machine: an agent that answers from a known truth, to check the analysis with.",
            (AccessOption("truth", "mapping", "What the simulated host costs and carries."),),
        ),
    )
}
"""Every access, by name."""
