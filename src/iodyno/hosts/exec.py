"""A host reached by any command that starts a program there and holds its stdin and stdout: `podman exec -i NAME`, `srun`.

Which commands there are is in `iodyno.core.access`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.hosts.client import TIMEOUT_NS, ClientAccess


class ExecAccess(ClientAccess):
    """Starts agents by `command`. Options: `agent` and `command_timeout` in ns."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        options: Mapping[str, Any],
        address: str | None = None,
        cpus: Sequence[int] = (),
    ) -> None:
        self.by = f"`{shlex.join(command)}`"
        super().__init__(
            name,
            command,
            f"host {name}",
            timeout_ns=options.get("command_timeout", TIMEOUT_NS),
            agent=options.get("agent"),
            address=address,
            cpus=cpus,
        )

    def words(self, script: str) -> list[str]:
        """A shell as words of their own."""
        return ["/bin/sh", "-c", script]

    def by_hand(self) -> str:
        """Return the command with which a person sees whether a program starts there."""
        return shlex.join([*self._command, *([self._agent, "facts"] if self._agent else ["/bin/true"])])

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for a client, or the agent at its other end: which of the two ended cannot be told by the status."""
        if self._agent is None:
            return super().trouble(status, said)
        return self._not_reached(status, said)

    def no_shell(self, status: int, said: str, complaint: str) -> AccessError:
        """The error for a client that ended before a script of ours began."""
        error = self._not_reached(status, complaint if complaint.strip() else said)
        error.advice += (
            "; where there is no shell, put the agent into the image, and name its place there by `agent`"
        )
        return error
