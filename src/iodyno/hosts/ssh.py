"""A host reached by the OpenSSH client, with everything that its configuration can do.

The login shell of the account may be any that knows `exec` and single quotes: what it is told is `exec /bin/sh -c '...'`, where
the home directory is only `$HOME`, so that it may have any name.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.core import ssh_target
from iodyno.core.errors import AccessError
from iodyno.core.ssh_target import SshTarget
from iodyno.hosts.client import TIMEOUT_NS, ClientAccess, last_lines

_CONNECT_TIMEOUT_S = 10
_OF_CLIENT = 255
"""Exit status of a client that did not get there, or lost the connection (ssh(1)); no command of ours ends with it."""


class SshAccess(ClientAccess):
    """Starts agents on the host that `ssh <to>` reaches.

    Options: `to` ([user@]host[:port], by default the host's name), `port`, `identity_file`, `known_hosts_file`,
    `config_file`, `command_timeout` in ns.
    """

    by = "ssh"

    def __init__(
        self, name: str, options: Mapping[str, Any], address: str | None = None, cpus: Sequence[int] = ()
    ) -> None:
        written = str(options.get("to", name))
        target = ssh_target.parse(written)
        self.to = target.to
        if target.port is not None:
            options = {"port": target.port, **options}
        port = options.get("port")
        shown = SshTarget(target.to, None if port is None else int(port))
        super().__init__(
            name,
            ["ssh", "-T", *_client_options(options), "--", self.to],
            # On a command line the host has no other name than this.
            f"host {name}" if name == written else f"host {name} (ssh {shown})",
            timeout_ns=options.get("command_timeout", TIMEOUT_NS),
            address=address,
            cpus=cpus,
            server=str(SshTarget(target.to.rpartition("@")[2], shown.port)),
        )
        self._way = " ".join(["ssh", *map(shlex.quote, _way_options(options))])

    def words(self, script: str) -> list[str]:
        """A script for a login shell. It has no single quote, line end or exclamation mark, which csh takes first."""
        return [f"exec /bin/sh -c '{script}'"]

    def lost(self, status: int) -> bool:
        """Tell whether the client did not get there, or lost the connection."""
        return status == _OF_CLIENT or status < 0

    def by_hand(self) -> str:
        """Return the command with which a person reaches the same server in the same way."""
        return f"{self._way} -o BatchMode=yes {self.to} true"

    def look(self) -> str:
        """The same with a terminal."""
        return f"{self._way} {self.to}"

    def install_advice(self) -> str:
        """Return the client's package."""
        return "install the OpenSSH client (Debian: apt-get install openssh-client)"

    def no_shell(self, status: int, said: str, complaint: str) -> AccessError:
        """The error for an account that runs no scripts."""
        last = last_lines(said) or last_lines(complaint)
        ended = f" (exit status {status}{last and f': {last}'})"
        return self.error(
            f"the account gives no shell that runs commands{ended}", "use an account with an ordinary shell"
        )


def _client_options(options: Mapping[str, Any]) -> list[str]:
    given = [
        # Never ask: there may be nobody to answer.
        *("-o", "BatchMode=yes"),
        *("-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}"),
        # A configuration may keep it quiet, or have it tell of everything.
        *("-o", "LogLevel=INFO"),
        # A connection that is shared already is used; but one of ours would end when the agent that opened it does.
        *("-o", "ControlMaster=no", "-o", "RemoteCommand=none"),
        # A cut connection is noticed after three unanswered questions, two seconds apart.
        *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
        *("-o", "ForwardX11=no", "-o", "ForwardAgent=no", "-o", "ClearAllForwardings=yes"),
    ]
    return given + _way_options(options)


def _way_options(options: Mapping[str, Any]) -> list[str]:
    """Return those of the client's options that say which server is reached, and as whom."""
    given = []
    if "config_file" in options:
        given += ["-F", str(options["config_file"])]
    if "port" in options:
        given += ["-p", str(options["port"])]
    if "identity_file" in options:
        given += ["-i", str(options["identity_file"]), "-o", "IdentitiesOnly=yes"]
    if "known_hosts_file" in options:
        known = f"UserKnownHostsFile={options['known_hosts_file']}"
        given += ["-o", known, "-o", "GlobalKnownHostsFile=/dev/null"]
    return given
