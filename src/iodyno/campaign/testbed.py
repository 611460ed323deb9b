"""The hosts of a campaign with an agent on each, from opening to closing."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from iodyno.campaign import left_out, sensors
from iodyno.campaign.metric_sources import Adapters, check_permission
from iodyno.campaign.numa import Node, node_of
from iodyno.campaign.tunables import TestbedTunables
from iodyno.core.errors import AccessError, IodynoError, PreflightError, TrialError
from iodyno.core.experiment import Experiment, HostSpec
from iodyno.core.volume import VolumeKind
from iodyno.core.warnings import Warning, WarningCode, shared_cpus
from iodyno.core.workload import Level
from iodyno.hosts.access import Access, AgentProgram, Reached, cpus_here
from iodyno.hosts.local import LocalAccess
from iodyno.session import accesses, path_levels
from iodyno.session.accesses import OpenHosts
from iodyno.session.clock import ClockFit
from iodyno.session.session import PROBED_AT_A_TIME, Session

if TYPE_CHECKING:
    from iodyno.paths.volumes.volume import Volume

_T = TypeVar("_T")

_LACKS = {"realtime": WarningCode.NOT_REALTIME, "sensor": WarningCode.SENSOR_MISSING}
"""Warnings where an agent lacks a capability; the name before the point counts."""

_GRACE_S = 0.5
_GRACE_AFTER_A_CUT_S = 3.0
"""Time after a first failure in which others may come that explain it (chosen: an agent's end is seen in moments, on a machine
that is busy in seconds; only a cut connection is explained by it)."""

REACH_AGAIN_S = 120.0
"""Time for which a host of another machine that was reached before is tried again (chosen: an ssh server's restart takes
seconds, that of most machines less than this)."""
_TRY_EVERY_S = 1.0
_ON_THIS_MACHINE = ("local", "netns")
"""Accesses whose failure does not pass by waiting."""

_BY_CHANCE = ("agent_lost", "late", "nothing_done", "stalled", "timeout")
"""Failures of a test of 0.1 s on a busy machine, and not of a longer one; and the end of an agent, which is started anew."""
_LONGER = 8
_MOST_PATIENCE = 64


class Testbed:
    """Hosts and sessions. Agents stay from trial to trial; one that is gone is started anew when it is needed.

    `path`: the level of `path` that lies between the hosts, or what is made of `volume` for a load on storage; None: what
    their access says. `pair`: the pair of machines that the hosts are, of a placement. `nodes`: of hosts whose load is placed by
    a device. `targets`: what is known of the files and devices of a load on disks, by place. `patience`: how many times the usual
    time ahead a start is armed; it grows when one came too late. `left_out`: hosts of many that could not be had. `tell`: who
    hears that a host is waited for.
    """

    def __init__(
        self,
        experiment: Experiment,
        program: AgentProgram,
        path: str | VolumeKind | None = None,
        pair: str = "",
    ) -> None:
        self.experiment = experiment
        self.pair = pair
        self.program = program
        self.path = path
        self.hosts = OpenHosts()
        self.sessions: dict[str, Session] = {}
        self.observers: dict[str, Session] = {}
        self.bystanders: dict[str, dict[str, Session]] = {}
        self.volume: Volume | None = None
        self.cpus: dict[str, tuple[int, ...]] = {}
        self.nodes: dict[str, Node] = {}
        self.targets: dict[str, dict[str, Any]] = {}
        self.patience = 1
        self.left_out: dict[str, Warning] = {}
        self._whole = experiment
        self._refused: dict[str, AccessError] = {}
        self._alike: dict[str, list[str]] | None = None
        self.tell: Callable[[str], None] = lambda text: None
        self.tunables = TestbedTunables({}, program, {}, {}, lambda host: (), "")
        self.adapters = Adapters({}, program, {})

    async def __aenter__(self) -> Self:
        """Opens every host and starts an agent on it. Raises AccessError, and PreflightError where CPUs are asked for that it has
        not got.
        """
        check_permission(self.experiment.metrics)
        await self._place_here()
        for spec in self.experiment.hosts.values():
            if spec.cpus and spec.access in _ON_THIS_MACHINE:
                _check_cpus(spec, cpus_here())
        self.hosts = await self._open()
        try:
            try:
                await self.start_agents()
            except AccessError:
                if not await self._leave_out():
                    raise
            for name, spec in self.experiment.hosts.items():
                if spec.access not in _ON_THIS_MACHINE and name in self.sessions:
                    facts = self.sessions[name].hello["host"]
                    _check_cpus(spec, facts["cpus_allowed"])
                    if spec.placed:
                        self.nodes[name] = node_of(spec, facts)
                        self.hosts.accesses[name].reached.cpus = self.nodes[name].cpus
        except BaseException:
            await self.__aexit__()
            raise
        for name in self.nodes.keys() & self.hosts.accesses.keys():
            self.hosts.accesses[name].reached.notes.append(self.nodes[name].note)
        self._share_cpus()
        self.tunables = self._tunables()
        self.adapters = Adapters(self.hosts.accesses, self.program, self._peers)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends the agents, removes what was made for the hosts; that also when the first is interrupted."""
        try:
            await self.adapters.close()
            await self._end_agents()
        finally:
            try:
                await self.tunables.close()
            finally:
                await self._close_hosts()

    async def _place_here(self) -> None:
        """Gives hosts on this machine the CPUs of the node that their load is to be on, before they divide what is left. Raises
        AccessError, PreflightError.
        """
        hosts = dict(self.experiment.hosts)
        placed = [s for s in hosts.values() if s.placed and s.access in _ON_THIS_MACHINE]
        if not placed:
            return
        session = await Session.start(LocalAccess(placed[0].name), self.program)
        await session.close()
        for spec in placed:
            self.nodes[spec.name] = node_of(spec, session.hello["host"])
            hosts[spec.name] = replace(spec, cpus=self.nodes[spec.name].cpus)
        self.experiment = replace(self.experiment, hosts=hosts)

    async def _close_hosts(self) -> None:
        """The volume goes before the hosts that it is reached through."""
        try:
            if self.volume is not None:
                await self.volume.close()
                self.volume = None
        finally:
            await self.hosts.close()

    async def _open(self) -> OpenHosts:
        from iodyno.loads.disk.campaign.volume import open_volume

        if not isinstance(self.path, str):
            loads = (self.experiment.workload, *self.experiment.bystanders.values())
            links = dict.fromkeys(frozenset(link) for load in loads for link in load.links)
            hosts = await accesses.open_hosts(
                self.experiment.hosts, [(min(link), max(link)) for link in links], self._groups
            )
            if self.path is not None:
                try:
                    self.volume = await open_volume(self.path, self.experiment, hosts)
                except BaseException:
                    await hosts.close()
                    raise
            return hosts
        ends = self.experiment.workload
        return await path_levels.open_path(
            self.path, self.experiment.hosts, ends.sender, ends.receiver, self.program.path
        )

    @property
    def _groups(self) -> list[tuple[str, ...]]:
        """Ends of several hosts, which share CPUs where there are too few for each."""
        return list(self.experiment.workload.groups.values())

    async def mend(self) -> None:
        """Brings the testbed back to where a trial can run: the path between the hosts, and their agents. Raises
        AccessError.
        """
        lost = self.volume is not None and self.volume.gone()
        if lost or any(path.gone() for path in self.hosts.paths):
            await self.adapters.close()
            await self._end_agents()
            await self.tunables.close()
            await self._close_hosts()
            self.hosts = OpenHosts()
            self.hosts = await self._open()
            self.tunables = self._tunables()
            self.adapters = Adapters(self.hosts.accesses, self.program, self._peers)
        await self._start_again()

    async def mend_agents(self) -> None:
        """Starts anew the agents that a trial went on without. Raises AccessError."""
        if not all(session.alive for session in self.sessions.values()):
            await self._start_again()

    async def recover(self, failure: TrialError) -> None:
        """Brings the testbed back to where another trial can run, one that is given more time where this one's start came
        too late. Raises AccessError.
        """
        if failure.code == "late":
            self.patience = min(_LONGER * self.patience, _MOST_PATIENCE)
        await asyncio.shield(self.abort(f"the trial failed: {failure.what}"))
        await self.mend()

    @property
    def can_wait_longer(self) -> bool:
        """True where a start that came too late can be given more time."""
        return self.patience < _MOST_PATIENCE

    async def in_time(self, test: Callable[[int], Awaitable[_T]]) -> _T:
        """The outcome of a short test, which gets how many times its usual length to take: more after it has failed by
        chance, but not where its start came too late, as it has not begun then. Raises TrialError and AccessError.
        """
        longer = 1
        while True:
            try:
                return await test(longer)
            except TrialError as error:
                waits = error.code == "late" and self.can_wait_longer
                if error.code not in _BY_CHANCE or (longer > 1 and not waits):
                    raise
                await self.recover(error)
            longer = longer if waits else _LONGER

    async def _start_again(self) -> None:
        """Starts agents on hosts that had one. One on another machine may be away for a while: it is tried for `REACH_AGAIN_S`.
        Raises AccessError.
        """
        now = asyncio.get_running_loop().time
        end, reported = now() + REACH_AGAIN_S, False
        while True:
            try:
                return await self.start_agents()
            except AccessError as error:
                gone = [
                    n for n in self.hosts.accesses if n not in self.sessions or not self.sessions[n].alive
                ]
                if now() > end and await self._leave_out():
                    return None
                if any(
                    self.experiment.hosts[name].access in _ON_THIS_MACHINE
                    for name in gone or self.hosts.accesses
                ):
                    raise
                if now() > end:
                    error.what += f", also when it was tried again for {REACH_AGAIN_S:g} s"
                    raise
                if not reported:
                    self.tell(
                        f"{error.where}: {error.what}; trying to reach it for up to {REACH_AGAIN_S:g} s"
                    )
                    reported = True
            await asyncio.sleep(_TRY_EVERY_S)

    async def start_agents(self) -> None:
        """Starts an agent where there is none, inside and outside. Raises AccessError."""
        await self._start(self.hosts.accesses, self.sessions)
        await self._start(self.hosts.observers, self.observers)
        for name in self.experiment.bystanders:
            await self._start(self.hosts.accesses, self.bystanders.setdefault(name, {}))

    async def _start(self, at: Mapping[str, Access], sessions: dict[str, Session]) -> None:
        self._alike = None
        gone = [name for name in at if not (name in sessions and sessions[name].alive)]
        for name in gone:
            if lost := sessions.pop(name, None):
                await lost.close()
        # One failure must not leave the other agents unknown, hence the wait for all of them.
        started = await asyncio.gather(
            *(Session.start(at[name], self.program) for name in gone), return_exceptions=True
        )
        for name, session in zip(gone, started, strict=True):
            if isinstance(session, Session):
                sessions[name] = session
            elif isinstance(session, AccessError):
                self._refused[name] = session
        for session in started:
            if isinstance(session, BaseException):
                raise session

    async def _leave_out(self) -> bool:
        """Goes on without the hosts that have no agent, where they are few of many that do the same; False: they are not. Raises
        AccessError.
        """
        gone = [n for n in self.hosts.accesses if n not in self.sessions or not self.sessions[n].alive]
        if not gone or not left_out.may_go(self._whole, {*self.left_out, *gone}):
            return False
        for name in gone:
            error = self._refused[name]
            text = f"it takes no part from here on, as it cannot be had: {error.what}"
            self.left_out[name] = Warning(WarningCode.HOST_LEFT_OUT, text, error.where or f"host {name}")
            self.tell(self.left_out[name].line)
            await self.hosts.accesses.pop(name).close()
        self.experiment = left_out.without(self._whole, self.left_out)
        await self.start_agents()
        return True

    async def _end_agents(self) -> None:
        await asyncio.gather(*(session.close() for session in self._every()))
        self.sessions.clear()
        self.observers.clear()
        self.bystanders.clear()

    def _every(self) -> list[Session]:
        beside = (session for sessions in self.bystanders.values() for session in sessions.values())
        return [*self.sessions.values(), *self.observers.values(), *beside]

    def beside(self, name: str) -> Self:
        """The same hosts with the agents and the workload of a bystander, whose agents read no sensors of the host."""
        view = copy.copy(self)
        view.experiment = replace(
            self.experiment,
            workload=self.experiment.bystanders[name],
            bystanders={},
            tunables={},
            sensors="off",
            profile_hz=0,
        )
        view.sessions, view.observers, view._alike = self.bystanders[name], {}, None
        return view

    def sensors_of(self, host: str, settings: Mapping[str, Level], *, storage: bool) -> list[str] | None:
        """The sensors that the agent of a host reads with these settings; None: all that there are. `storage`: the load is on
        files or devices alone.

        Of several hosts on the same CPUs of a machine that do the same, the first reads the machine: the others would see the
        same, and each observer costs those CPUs something.
        """
        asked = sensors.of_level(self.experiment.sensors, storage=storage, settings=settings)
        if asked is not None:
            capabilities = self.outside(host).hello["capabilities"]
            lacking = {each["name"] for each in capabilities if not each["available"]}
            asked = tuple(name for name in asked if f"sensor.{name}" not in lacking)
        if not self.leads(host):
            namespace = self.hosts.accesses[host].reached.namespace
            own_network = namespace not in (None, self._of_leader(host).namespace)
            own = sensors.of_follower(alone=self.experiment.workload.workload.alone, own_network=own_network)
            asked = tuple(name for name in own if asked is None or name in asked)
        return None if asked is None else list(asked)

    def on_this_machine(self, host: str) -> bool:
        """Tell whether the host sees the files of the lab's own machine."""
        return self.hosts.accesses[host].reached.namespace is not None

    def place_of(self, host: str, path: str) -> str:
        """Return the place of a file of a host among those of all: on another machine the host's name stands before it."""
        return path if self.on_this_machine(host) else f"{host}:{path}"

    def leads(self, host: str) -> bool:
        """Tell whether the host is the first on its CPUs of those that do the same."""
        return host == self.on_its_cpus(host)[0]

    def on_its_cpus(self, host: str) -> list[str]:
        """The hosts on the same CPUs that do the same as this one, in order."""
        if self._alike is None:
            workload = self.experiment.workload
            group_of = {name: group for group, hosts in workload.groups.items() for name in hosts}
            self._alike = {}
            places: dict[tuple[object, ...], list[str]] = {}
            for name in self.sessions:
                same = "" if workload.workload.alone else group_of.get(name, name)
                self._alike[name] = places.setdefault((*self._machine(name), same), [])
                self._alike[name].append(name)
        return self._alike[host]

    def _of_leader(self, host: str) -> Reached:
        return self.hosts.accesses[self.on_its_cpus(host)[0]].reached

    def _machine(self, host: str) -> tuple[str, tuple[int, ...]]:
        return self.outside(host).hello["host"]["boot_id"] or host, self.cpus[host]

    def outside(self, host: str) -> Session:
        """The agent that sees the CPUs of the host: its observer, else its own."""
        return self.observers.get(host, self.sessions[host])

    async def abort(self, reason: str) -> None:
        """Makes every agent drop its job; ends those that do not."""
        sessions = self._every()
        idle = await asyncio.gather(*(session.abort(reason) for session in sessions))
        await asyncio.gather(
            *(session.kill() for session, done in zip(sessions, idle, strict=True) if not done)
        )

    @property
    def warnings(self) -> list[Warning]:
        """Warnings about the hosts, their agents, and what those cannot do."""
        warnings = [*self.left_out.values(), *self.hosts.warnings, *self.tunables.warnings]
        for name, session in self.sessions.items():
            warnings += session.warnings
            for capability in self.outside(name).hello["capabilities"]:
                code = _LACKS.get(capability["name"].partition(".")[0])
                optional = capability["name"].removeprefix("sensor.") in sensors.OPTIONAL
                if code and not capability["available"] and not optional:
                    text = f"no {capability['name']}: {capability['reason'] or 'no reason known'}"
                    warnings.append(Warning(code, text, f"host {name}"))
        return warnings

    def _tunables(self) -> TestbedTunables:
        """The tunables of all hosts, each on the device by which it reaches the other end."""
        # What is set of a host with a kernel of its own is set outside, on the device that carries its data.
        machines = {**self.hosts.accesses, **self.hosts.observers}
        return TestbedTunables(
            machines, self.program, self.cpus, self._peers, self._disks_of, self.experiment.name
        )

    @property
    def _peers(self) -> dict[str, str | None]:
        """By host, the address of the other end."""
        workload = self.experiment.workload
        other = {receiver: sender for sender, receiver in reversed(workload.links)}
        other |= dict(reversed(workload.links))
        return {
            name: self.hosts.data_address(other[name], name) if name in other else None
            for name in self.hosts.accesses
        }

    def _disks_of(self, host: str) -> list[str]:
        """The disks under the targets of a host, as far as these are made ready."""
        own = "" if self.on_this_machine(host) else f"{host}:"
        return [
            str(known["device"])
            for place, known in self.targets.items()
            if place.startswith(own) and known.get("device")
        ]

    def _share_cpus(self) -> None:
        """Gives each host its CPUs. Hosts with one boot id are one machine, however they are reached."""
        self._alike = None
        machines: dict[str, list[str]] = {}
        for name in self.sessions:
            machines.setdefault(self.outside(name).hello["host"]["boot_id"] or name, []).append(name)
        for names in machines.values():
            allowed = sorted(
                {cpu for name in names for cpu in self.outside(name).hello["host"]["cpus_allowed"]}
            )
            asked = {
                name: self.hosts.observers.get(name, self.hosts.accesses[name]).reached.cpus for name in names
            }
            if self.volume is not None and not any(asked.values()):
                # Server and daemons run on all of them, for all clients: a part of the CPUs would have a part of each.
                asked = dict.fromkeys(names, tuple(allowed))
            divided, shared = accesses.divide_cpus(allowed, asked, self._groups)
            self.cpus |= divided
            if shared and not any(warning.code == "shared_cpus" for warning in self.hosts.warnings):
                self.hosts.warnings.append(shared_cpus(shared, divided))


def _check_cpus(spec: HostSpec, have: Iterable[int]) -> None:
    """Refuses CPUs that the host has not got: a part of them would do the work of all, or none would."""
    there = sorted(have)
    if absent := [cpu for cpu in spec.cpus if cpu not in there]:
        raise PreflightError(
            f"it has CPU{'s' * (len(there) != 1)} {', '.join(map(str, there))}; `cpus` asks for {', '.join(map(str, absent))}",
            where=f"host {spec.name}",
            advice="name CPUs that it has: `cpus` of an experiment file, `cpus_allowed` of a job file of fio",
        )


async def together(waits: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Waits for all at a time. The first failure stops the others, and the one nearest to the cause is raised.

    An agent that is killed ends the connections of the other one too; whose complaint comes first is chance.
    """
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    if not tasks:
        return []
    try:
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        if pending:
            await _explained(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    failures = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    for error in sorted(failures, key=_distance):
        raise error
    return [task.result() for task in tasks]


async def probe_clocks(sessions: Iterable[Session]) -> list[ClockFit]:
    """Fit the clock of each host, of a few at a time."""
    turns = asyncio.Semaphore(PROBED_AT_A_TIME)

    async def probed(session: Session) -> ClockFit:
        async with turns:
            return await session.probe_clock()

    return await together(map(probed, sessions))


async def _explained(tasks: Sequence[asyncio.Future[_T]]) -> None:
    """Wait for a failure that explains the first one, or for as long as it may take to come."""
    now = asyncio.get_running_loop().time
    begun = now()
    while pending := [task for task in tasks if not task.done()]:
        ended = [task for task in tasks if task.done() and not task.cancelled()]
        nearest = min((_distance(error) for task in ended if (error := task.exception())), default=0)
        left = begun + (_GRACE_AFTER_A_CUT_S if nearest == _CUT else _GRACE_S) - now()
        if nearest <= _LOST or left <= 0:
            return
        await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)


_LOST, _CUT = 1, 3
"""Distances from the cause of an agent that is gone, and of a connection that was cut."""


def _distance(error: BaseException) -> int:
    """Return how far from the cause a failure usually is."""
    if isinstance(error, TrialError):
        return {"agent_lost": _LOST, "transport": _CUT, "stalled": 4}.get(error.code, 2)
    return 2 if isinstance(error, IodynoError) else 0


def path_of(settings: Mapping[str, Level]) -> str | VolumeKind | None:
    """The level of `path`, or what is made of `volume`, in the settings of a trial; None: what the hosts' access says."""
    level = settings.get("path")
    return VolumeKind.of(settings) if level is None else str(level)
