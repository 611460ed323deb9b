"""The hosts of a campaign with an agent on each, from opening to closing."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, Self, TypeVar

from iodyno.core.errors import IodynoError, TrialError
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import Doubt, WarningCode
from iodyno.hosts.access import AgentProgram
from iodyno.session import accesses
from iodyno.session.accesses import OpenHosts
from iodyno.session.session import Session

_T = TypeVar("_T")

_LACKS = {"realtime": WarningCode.NOT_REALTIME, "sensor": WarningCode.SENSOR_MISSING}
"""What it means when an agent lacks a capability; the name before the point counts."""

_GRACE_S = 0.5
"""How long after a first failure others may come that explain it (chosen: an agent's end is seen in moments)."""


class Rig:
    """Hosts and sessions. Agents stay from trial to trial; one that is gone is started anew when it is needed."""

    def __init__(self, experiment: Experiment, program: AgentProgram) -> None:
        self.experiment = experiment
        self.program = program
        self.hosts = OpenHosts()
        self.sessions: dict[str, Session] = {}
        self.cpus: dict[str, tuple[int, ...]] = {}

    async def __aenter__(self) -> Self:
        """Opens every host and starts an agent on it. Raises AccessError."""
        self.hosts = await accesses.open_hosts(self.experiment.hosts)
        try:
            await self.start_agents()
        except BaseException:
            await self.__aexit__()
            raise
        self._share_cpus()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the agents, removes what was made for the hosts; that also when the first is interrupted."""
        try:
            await asyncio.gather(*(session.close() for session in self.sessions.values()))
        finally:
            await self.hosts.close()

    async def start_agents(self) -> None:
        """Starts an agent where there is none. Raises AccessError."""
        gone = [
            name for name in self.hosts.accesses if not (name in self.sessions and self.sessions[name].alive)
        ]
        for name in gone:
            if lost := self.sessions.pop(name, None):
                await lost.close()
        # One failure must not leave the other agents unknown, hence the wait for all of them.
        started = await asyncio.gather(
            *(Session.start(self.hosts.accesses[name], self.program) for name in gone), return_exceptions=True
        )
        for name, session in zip(gone, started, strict=True):
            if isinstance(session, Session):
                self.sessions[name] = session
        for session in started:
            if isinstance(session, BaseException):
                raise session

    async def abort(self, reason: str) -> None:
        """Makes every agent drop its job; ends those that do not."""
        sessions = list(self.sessions.values())
        idle = await asyncio.gather(*(session.abort(reason) for session in sessions))
        await asyncio.gather(
            *(session.kill() for session, done in zip(sessions, idle, strict=True) if not done)
        )

    @property
    def doubts(self) -> list[Doubt]:
        """Doubts about the hosts, their agents, and what those cannot do."""
        doubts = list(self.hosts.doubts)
        for name, session in self.sessions.items():
            doubts += session.doubts
            for capability in session.hello["capabilities"]:
                code = _LACKS.get(capability["name"].partition(".")[0])
                # Without a hardware counter cycles are reckoned from busy time; every number names that tier.
                if code and not capability["available"] and capability["name"] != "sensor.cycles":
                    text = f"no {capability['name']}: {capability['reason'] or 'no reason known'}"
                    doubts.append(Doubt(code, text, f"host {name}"))
        return doubts

    def _share_cpus(self) -> None:
        """Gives each host its CPUs. Hosts with one boot id are one machine, however they are reached."""
        machines: dict[str, list[str]] = {}
        for name, session in self.sessions.items():
            machines.setdefault(session.hello["host"]["boot_id"] or name, []).append(name)
        for names in machines.values():
            allowed = sorted(
                {cpu for name in names for cpu in self.sessions[name].hello["host"]["cpus_allowed"]}
            )
            asked = {name: self.hosts.accesses[name].reached.cpus for name in names}
            divided, shared = accesses.divide_cpus(allowed, asked)
            self.cpus |= divided
            if shared and not any(doubt.code == "shared_cpus" for doubt in self.hosts.doubts):
                self.hosts.doubts.append(accesses.shared_cpus(shared, divided))


async def together(waits: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Waits for all at a time. The first failure stops the others, and the one nearest to the cause is raised.

    An agent that is killed ends the connections of the other one too; whose complaint comes first is chance.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if pending:
            await asyncio.wait(pending, timeout=_GRACE_S)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    failures = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    for error in sorted(failures, key=_distance):
        raise error
    return [task.result() for task in tasks]


def _distance(error: BaseException) -> int:
    """How far from the cause a failure usually is."""
    if isinstance(error, TrialError):
        return {"agent_lost": 1, "transport": 3, "stalled": 4}.get(error.code, 2)
    return 2 if isinstance(error, IodynoError) else 0
