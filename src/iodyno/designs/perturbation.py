"""The trials of a proof: small changes of the resource that is suspected to limit, near unchanged trials in time.

Every block visits each suspected point without a change and with every change, in a random order, so that whatever
drifts falls on all of them alike (as `designs.order` has it). To make another limiter testable: a line in `_CHANGES`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from iodyno.core.design import Design, PlannedTrial, Point, ProofPlan
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.limiter import Perturbation
from iodyno.core.volume import MAY_BE_SLOWER
from iodyno.core.workload import REQUEST_RESPONSE, Level
from iodyno.loads.disk.core.parameters import MILLISECOND_NS

BLOCKS = 6
"""Chosen: the interval over six pairs is 1.05 standard deviations each way, over four it is 1.6."""
SUSPECTS = 2
"""Of each point, the first suspect and the runner-up are tested. One whose test would be the same setting is passed
over: what waits for a CPU and what fills one are told apart by evidence only.
"""
WINDOWS = Windows(warm_up_ns=500_000_000, measured_ns=1_500_000_000, interval_ns=250_000_000)
"""Longest windows of a trial of a proof (chosen: pairs near in time tell more than long trials)."""

_CPU_SHARE = 0.7
"""Chosen: trials that differ by 5 % then leave the elasticity known to 0.2 after six pairs."""
_DEVICE_SHARE = 0.7
"""As for CPU time."""
_LONGER = 0.5
"""Chosen: half as long again makes two thirds of the rate."""
_BUFFER_LEAST = 2048
_AUTOMATIC = (
    "the kernel sizes that buffer by itself: set {setting} to have it tested, or ask for `prove: foreign`"
)
FOREIGN = ("shaper_rate", "cpu_limit", "disk_limit", "tcp_rmem_max", "tcp_wmem_max")
"""Tunables of what others have set, which `prove: foreign` lets a trial change."""
_KBIT = 1000
"""Resolution at which tc(8) tells a rate, in bit/s."""


@dataclass(frozen=True)
class Suspicion:
    """Suspected limiters at a point, the likeliest first.

    `cpus`: the CPU time that the agent of each host could have there, in CPUs: what it took and what idled. `devices`: the
    operations per second that the device under each host's target could do there: what it did over the share of time in
    which it was busy. `service_ns`: for how long an operation keeps its place in the loop there.
    """

    point: Point
    limiters: tuple[str, ...]
    cpus: Mapping[str, float]
    devices: Mapping[str, float] = field(default_factory=dict)
    service_ns: float | None = None


@dataclass(frozen=True)
class _Case:
    """A limiter at a point, and everything that a change of its resource is made from."""

    limiter: str
    settings: Mapping[str, Level]
    sends: bool
    cpus: float | None
    alone: bool = False
    device_per_s: float | None = None
    service_ns: float | None = None
    there: Mapping[str, Level] = field(default_factory=dict)

    @property
    def quota(self) -> str:
        """The setting that gives the agent of this end less CPU time."""
        return "quota" if self.alone else "sender_quota" if self.sends else "receiver_quota"

    def number(self, *names: str) -> tuple[str, int] | None:
        """The first of the settings that is set to a number above 0, as the name to set and the number."""
        for name in names:
            level = self.settings.get(name)
            if isinstance(level, int) and not isinstance(level, bool) and level > 0:
                return names[0], level
        return None

    def foreign(self, tunable: str) -> tuple[str, int] | None:
        """A tunable that may be changed, as its name with the host and what it is at; of several hosts the least."""
        found = [(level, name) for name, level in self.there.items() if name.endswith(f".{tunable}")]
        level, name = min(found, default=(0, ""), key=lambda one: int(one[0]))
        return (name, int(level)) if name else None

    def scaled(self, found: tuple[str, int], ratio: float, *, inverse: bool = False) -> Perturbation:
        """The setting times `ratio`; with `inverse`, the resource is one over it."""
        setting, level = found
        unit = _KBIT if setting.endswith(".shaper_rate") else 1
        after = max(1, round(level * ratio / unit)) * unit
        resource = level / after if inverse else after / level
        before = self.settings.get(setting, level if setting in self.there else None)
        direction: Literal["relax", "tighten"] = "relax" if resource > 1 else "tighten"
        return Perturbation(self.limiter, direction, setting, before, after, resource)


_Changes = Callable[[_Case], tuple[Perturbation, ...] | str]


def _buffer(setting: str, tunable: str, ratio: float) -> _Changes:
    def changes(case: _Case) -> tuple[Perturbation, ...] | str:
        found = case.number(setting, "window") or case.foreign(tunable)
        if found is None:
            return _AUTOMATIC.format(setting=setting)
        smaller = (case.scaled(found, 1 / ratio),) if found[1] / ratio >= _BUFFER_LEAST else ()
        return (case.scaled(found, ratio), *smaller)

    return changes


def _pace(case: _Case, name: str) -> tuple[Perturbation, ...] | str:
    found = case.number(name)
    if found is None:
        return "its pauses are its own: no setting changes them"
    return case.scaled(found, 0.5, inverse=True), case.scaled(found, 2.0, inverse=True)


def _application(case: _Case) -> tuple[Perturbation, ...] | str:
    return _pace(case, "think" if case.sends else "reader_think")


def _cpu(case: _Case) -> tuple[Perturbation, ...] | str:
    if case.cpus is None:
        return "it is not known how much CPU time the agent could have"
    setting = case.quota
    if case.number(setting) is not None:
        return "the agent has a CPU quota already: its CPU time cannot be told from that"
    percent = max(1, round(100 * _CPU_SHARE * case.cpus))
    return (Perturbation(case.limiter, "tighten", setting, None, percent, percent / 100 / case.cpus),)


def _quota(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number(case.quota) or case.foreign("cpu_limit")
    if found is None:
        return "the quota is not iodyno's: `prove: foreign` lets it be changed where it can be restored"
    return case.scaled(found, 1.25), case.scaled(found, 0.8)


def _generator(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("compute")
    return (
        (case.scaled(found, 0.5, inverse=True), case.scaled(found, 2.0, inverse=True))
        if found
        else _cpu(case)
    )


def _lock(case: _Case) -> tuple[Perturbation, ...] | str:
    connections = int(case.settings.get("connections", 1))
    if case.settings.get("serialised") is not True or connections < 2:
        return "the lock is not iodyno's: no setting takes it away"
    return (Perturbation(case.limiter, "relax", "serialised", True, False, float(connections)),)


def _link(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("link_rate") or case.foreign("shaper_rate")
    if found is None:
        return (
            "iodyno does not shape this link: set link_rate on a path of its own, or ask for `prove: foreign`"
        )
    return case.scaled(found, 1.25), case.scaled(found, 0.8)


def _pacing(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("pacing_rate")
    if found is None:
        return "no pacing rate is asked for"
    return case.scaled(found, 1.25), case.scaled(found, 0.8)


def _queue(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("link_queue")
    if found is None:
        return "no queue of iodyno's is on the path: set link_queue on a path of its own to have it tested"
    return (case.scaled(found, 4.0),)


def _loss(case: _Case) -> tuple[Perturbation, ...] | str:
    """A longer queue on the path; of datagrams, where none is the lab's, a longer one at the socket that takes them."""
    found = case.number("receive_buffer", "window")
    if case.settings.get("transport") != "udp" or case.number("link_queue") is not None:
        return _queue(case)
    if found is None:
        return "no queue of iodyno's is on the way: set receive_buffer, or link_queue on a path of its own, to have it tested"
    return (case.scaled(found, 4.0),)


def _rate(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("rate")
    if found is None:
        return "the loop is closed: no rate is offered"
    return case.scaled(found, 1.25), case.scaled(found, 0.8)


def _block_timeout(case: _Case) -> tuple[Perturbation, ...] | str:
    known = REQUEST_RESPONSE.parameter("block_timeout")
    assert known is not None and isinstance(known.default, int)
    found = case.number("block_timeout") or ("block_timeout", known.default)
    if found[1] < 2 * known.low:
        return "the timeout of a ring cannot be shorter"
    longer = (case.scaled(found, 2.0, inverse=True),) if 2 * found[1] <= known.high else ()
    return (case.scaled(found, 0.5, inverse=True), *longer)


def _connections(case: _Case) -> tuple[Perturbation, ...] | str:
    found = case.number("connections")
    assert found is not None, "every workload has connections"
    fewer = (case.scaled(found, 0.5),) if found[1] % 2 == 0 else ()
    return (case.scaled(found, 2.0), *fewer)


def _disk(case: _Case) -> tuple[Perturbation, ...] | str:
    """The device as the lab or somebody else has throttled it, faster and slower; else throttled to less than it could do."""
    if not case.alone:
        return "no setting of iodyno changes that resource"
    found = case.number("device_limit") or case.foreign("disk_limit")
    if found is not None:
        return case.scaled(found, 1.25), case.scaled(found, 0.8)
    if case.device_per_s is None:
        return "it is not known how many operations per second the device could do"
    limit = max(1, round(_DEVICE_SHARE * case.device_per_s))
    return (Perturbation(case.limiter, "tighten", "device_limit", None, limit, limit / case.device_per_s),)


def _block(case: _Case) -> tuple[Perturbation, ...] | str:
    """Blocks half as large and twice as large: of a disk that moves so many bytes and no more, twice and half as many
    operations.
    """
    found = case.number("block")
    if found is None or not case.alone:
        return "blocks of many sizes: no setting changes them"
    working_set = case.settings.get("working_set")
    larger = (
        (case.scaled(found, 2.0, inverse=True),)
        if isinstance(working_set, int) and working_set % (2 * found[1]) == 0
        else ()
    )
    smaller = (case.scaled(found, 0.5, inverse=True),) if found[1] % 8192 == 0 else ()
    return (*smaller, *larger) or "no other size of blocks divides the working set"


def _operations_at_a_time(case: _Case) -> tuple[Perturbation, ...] | str:
    """Of a load on storage: its depth, where the system calls leave one, else its threads."""
    if not case.alone:
        return _connections(case)
    setting = "queue_depth" if case.settings.get("syscalls") in ("io_uring", "aio") else "workers"
    if setting not in case.settings:
        return "threads of a file program are its own: no setting changes how many there are"
    found = case.number(setting)
    assert found is not None, "it is a count"
    fewer = (case.scaled(found, 0.5),) if found[1] % 2 == 0 else ()
    return (case.scaled(found, 2.0), *fewer, *_slower(case))


def _slower(case: _Case) -> tuple[Perturbation, ...]:
    """A server that takes longer, or, where it was told to take long, less long: so many operations at a time are then fewer or
    more a second (X = N / R, Denning and Buzen 1978), as if there were fewer or more of them. Where something else is the
    limiter, it has waited for them anyway.
    """
    setting, service = "device_delay", case.service_ns
    before = case.settings.get(setting)
    if case.settings.get("volume") not in MAY_BE_SLOWER or not service:
        return ()
    if isinstance(before, int) and before > 0:
        after = before // 2 // MILLISECOND_NS * MILLISECOND_NS
        if before >= service:
            return ()
        faster = service / (service - (before - after))
        return (Perturbation(case.limiter, "relax", setting, before, after, faster),)
    longer = max(1, round(_LONGER * service / MILLISECOND_NS)) * MILLISECOND_NS
    return (Perturbation(case.limiter, "tighten", setting, before, longer, service / (service + longer)),)


_CHANGES: Mapping[str, _Changes] = {
    "block_timeout": _block_timeout,
    "receive_window": _buffer("receive_buffer", "tcp_rmem_max", 2.0),
    # The kernel takes a whole segment of up to 64 KiB into a buffer that has any room (sk_stream_memory_free), so that
    # a small buffer twice as large makes no difference (measured: 4 and 16 KiB alike, 64 KiB twice as fast).
    "pacing": _pacing,
    "send_buffer": _buffer("send_buffer", "tcp_wmem_max", 4.0),
    "application": _application,
    "generator": _generator,
    "cpu": _cpu,
    "thread": _cpu,
    "softirq": _cpu,
    "run_queue": _cpu,
    "steal": _cpu,
    "cpu_quota": _quota,
    "lock": _lock,
    "link_rate": _link,
    "queue": _queue,
    "loss": _loss,
    "concurrency": _operations_at_a_time,
    "congestion_window": _connections,
    "offered_load": _rate,
    "disk": _disk,
    "disk_bandwidth": _block,
}


def changes(
    limiter: str,
    settings: Mapping[str, Level],
    *,
    sends: bool,
    cpus: float | None,
    alone: bool = False,
    device_per_s: float | None = None,
    service_ns: float | None = None,
    there: Mapping[str, Level] | None = None,
) -> tuple[Perturbation, ...] | str:
    """Return the changes that test the limiter at these settings; a text: why nothing does.

    `sends`: whether it is one of the sending host; `alone`: whether the load needs no other end; `device_per_s`: operations
    per second that the device under its target could do; `service_ns`: the mean time of an operation; `there`: tunables of others
    that may be changed, with what they are at.
    """
    make = _CHANGES.get(limiter.rpartition(".")[2])
    if make is None:
        return "no setting of iodyno changes that resource"
    return make(_Case(limiter, settings, sends, cpus, alone, device_per_s, service_ns, there or {}))


def windows(of: Windows) -> Windows:
    """The windows of a trial of a proof, of an experiment with those windows."""
    return replace(
        of,
        warm_up_ns=min(of.warm_up_ns, WINDOWS.warm_up_ns),
        measured_ns=min(of.measured_ns, WINDOWS.measured_ns),
        interval_ns=min(of.interval_ns, WINDOWS.interval_ns, of.measured_ns),
    )


def most_trials(experiment: Experiment, design: Design) -> int:
    """Most trials that a proof of this design can take: two changes of two suspects, beside an unchanged trial; of one suspect
    three where a server can be made slower.
    """
    slower = any(experiment.settings(point.levels).get("volume") in MAY_BE_SLOWER for point in design.points)
    return len(design.points) * BLOCKS * (1 + 2 * SUSPECTS + int(slower))


def plan(
    experiment: Experiment,
    design: Design,
    suspicions: Sequence[Suspicion],
    there: Mapping[str, Level] | None = None,
) -> ProofPlan:
    """The trials that test the suspicions, after those of the design. The same suspicions give the same plan.

    `there`: tunables of others that may be changed, by names such as `server.shaper_rate`, with what they are at.
    """
    untestable: dict[str, dict[str, str]] = {}
    visits: list[tuple[Point, Perturbation]] = []
    for suspicion in suspicions:
        point, tested = suspicion.point, list[Perturbation]()
        for limiter in suspicion.limiters:
            if len({change.limiter for change in tested}) == SUSPECTS:
                break
            host = limiter.rpartition(".")[0]
            sends = host not in _receive(experiment)
            settings = experiment.settings(point.levels)
            found = changes(
                limiter,
                settings,
                sends=sends,
                cpus=suspicion.cpus.get(host),
                alone=experiment.workload.workload.alone,
                device_per_s=suspicion.devices.get(host),
                service_ns=suspicion.service_ns,
                there=_of_limiter(experiment, host, there or {}),
            )
            several = len(experiment.workload.groups.get(host, ()))
            if several and not isinstance(found, str) and str(found[0].setting).endswith("_quota"):
                # That all of them together are given less does not mean that each is.
                found = f"a quota is that of one agent, and {host} is {several} hosts"
            if isinstance(found, str):
                untestable.setdefault(point.id, {})[limiter] = found
            elif found[0].setting not in {change.setting for change in tested}:
                tested += found
        if tested:
            visits += [(point, Perturbation("", "none")), *((point, change) for change in tested)]
    return ProofPlan(_in_order(visits, design), untestable)


def _of_limiter(experiment: Experiment, host: str, there: Mapping[str, Level]) -> dict[str, Level]:
    """The tunables that a limiter of the host (or of none) may be tested by: buffers of their ends, its CPU time and disks."""
    ends = {
        "tcp_rmem_max": experiment.workload.receivers,
        "tcp_wmem_max": experiment.workload.senders,
        "cpu_limit": (host,),
        "disk_limit": (host,),
    }
    return {
        name: level
        for name, level in there.items()
        if name.rpartition(".")[0] in ends.get(name.rpartition(".")[2], (name.rpartition(".")[0],))
    }


def _receive(experiment: Experiment) -> set[str]:
    """The receivers, and their name where they are several."""
    receivers = experiment.workload.receivers
    return {*receivers, *(name for name, hosts in experiment.workload.groups.items() if hosts == receivers)}


def _in_order(visits: Sequence[tuple[Point, Perturbation]], design: Design) -> tuple[PlannedTrial, ...]:
    """Every visit once a block. A point's visits stay together, in a random order: near in time is what pairs need."""
    source = random.Random(f"{design.seed}/proof")
    order = max((trial.order for trial in design.trials), default=-1) + 1
    block = max((trial.block for trial in design.trials), default=-1) + 1
    points = list(dict.fromkeys(point.id for point, _ in visits))
    planned = []
    for number in range(BLOCKS if visits else 0):
        for at in sorted(points, key=lambda _: source.random()):
            mine = [visit for visit in visits if visit[0].id == at]
            for point, change in sorted(mine, key=lambda _: source.random()):
                planned.append(PlannedTrial(order, block + number, number, point, change))
                order += 1
    return tuple(planned)
