"""The machine of the lab itself, without any path of its own: data goes over the loopback device."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.core.errors import INSTALL_AGAIN, AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached, spawn

PROBE_GAP_S = 0.0005
"""Chosen: pipes of one machine take some 0.1 ms."""


class LocalAccess:
    """Starts agents as children of the lab. `prefix` goes before the agent's command line."""

    def __init__(self, name: str, cpus: Sequence[int] = (), prefix: Sequence[str] = ()) -> None:
        self.name = name
        self.reached = Reached(address="127.0.0.1", cpus=tuple(cpus), namespace="", probe_gap_s=PROBE_GAP_S)
        self._prefix = tuple(prefix)

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent. Raises AccessError."""
        try:
            return await spawn([*self._prefix, program.path, command], self.reached.cpus)
        except OSError as error:
            raise AccessError(
                f"the agent does not start: {error.strerror}",
                where=f"host {self.name}: {error.filename or program.path}",
                advice=INSTALL_AGAIN,
            ) from error

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for an agent that ended before its first word."""
        last = f": {said.splitlines()[-1]}" if said else ""
        return AccessError(
            f"the agent ended with exit status {status}{last}",
            where=f"host {self.name}",
            advice="run `iodyno-agent facts` to see whether the agent works here",
        )

    async def close(self) -> None:
        """Nothing was left on the host."""
