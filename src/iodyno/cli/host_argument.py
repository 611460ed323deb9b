"""Hosts on a command line: `--host local`, `--host user@example.org:2222`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iodyno.hosts.access import Access


def access_of(written: str, option: str = "--host") -> Access:
    """The host that the word of an option names. Raises ExperimentError."""
    from iodyno.formats import ssh_hosts
    from iodyno.hosts.access import LAB_CPUS
    from iodyno.hosts.local import LocalAccess
    from iodyno.hosts.ssh import SshAccess

    if written == "local":
        return LocalAccess("local", sorted(LAB_CPUS))
    keys = ssh_hosts.named_by(written, option, f"local, {ssh_hosts.WORD}")
    return SshAccess(keys["to"], keys)
