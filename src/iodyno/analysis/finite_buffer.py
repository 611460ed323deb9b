"""A port with few buffers: what it lost and how long frames waited, beside what theory says of it.

A token bucket of one frame with a queue of q frames is M/D/1/K under Poisson arrivals: the time D in which the bucket fills
again is the service, and K = q + 1 counts the frame for which it fills. A frame leaves when it begins that time, so that
what it is delayed by is the waiting time, without D. A buffer is held by a frame in service too: K buffers.

D is frame bits over rate, and in a real port a bit more: the kernel looks at a bucket late, and one of a single frame
forgets by how much. Where a point offers far more than the port takes, it never idles, and what it carries is 1 / D'.
Theory is calculated with both. By how much runs of this length differ by chance is simulated.

The claims of the source are set beside: with a mean queue of K, by rho^2 / (1 - rho) = K, a port is full; and 1 % of the
frames are lost at less than that, by M/M/1/K and by M/D/1/K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from iodyno.analysis import chance
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import labels_of
from iodyno.analysis.interval import LEVEL
from iodyno.analysis.measured import Measured
from iodyno.analysis.queueing.md1 import md1k
from iodyno.analysis.queueing.mmck import mm1k
from iodyno.analysis.queueing.simulation import spread_of_runs
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level
from iodyno.loads.base.analysis import load_of

_MEAN = "latency_mean_ns"
OF_PARTS = frozenset({_MEAN})
"""Outcomes whose intervals are looked at, also where a point has several trials."""
HEADERS_BYTES = 8 + 20 + 14
"""Bytes that UDP (RFC 768), IPv4 (RFC 791) and Ethernet put in front of the payload, as a queueing discipline counts a frame."""
SATURATED = 1.4
"""Offered utilisation from which on the port is taken never to idle (chosen: an M/D/1/8 is then empty for 3e-5 of the time)."""
IDLE = 0.2
"""Offered utilisation up to which the port counts as idle (chosen: a frame waits an eighth of its own time there)."""
MEDIAN_LEAST = 6
"""The fewest values with which a median has a 95 % interval (Conover, 3.2)."""
LINE_STEPS = 120
"""Of a line of theory (chosen: it looks smooth)."""
LOST = 0.01
"""The loss at which the source's claim and theory are compared, as the issue of buffers is put there."""


@dataclass(frozen=True)
class Theory:
    """M/D/1/K at one service time: loss, mean waiting time in ns, and the middle 95 % of runs as long as the measured ones."""

    loss_ratio: float
    wait_ns: float
    loss_spread: tuple[float, float]
    wait_spread_ns: tuple[float, float]


@dataclass(frozen=True)
class PortLoad:
    """One offered load at one number of buffers: measured, and by theory.

    `offered_ratio`: arrivals per second, as they came, times D. `nominal`: theory with D; `fitted`: with D', None where
    no point is saturated. `exponential_loss_ratio`: M/M/1/K, whose frames differ in length. `mean_queue`: that of M/M/1
    without limit, by which the source judges; None where it grows without end.
    """

    levels: Mapping[str, Level]
    labels: Mapping[str, str]
    buffers: int
    rate_per_s: float
    offered_ratio: float
    loss: Estimate
    wait: Estimate
    nominal: Theory
    fitted: Theory | None
    exponential_loss_ratio: float
    mean_queue: float | None

    @property
    def theory(self) -> Theory:
        """With the service time that was measured, else with the nominal one."""
        return self.fitted or self.nominal


@dataclass(frozen=True)
class Limit:
    """Offered utilisations at which a port with so many buffers comes to its end, by four accounts."""

    buffers: int
    full_by_mean: float
    lost_if_exponential: float
    lost_if_constant: float


@dataclass(frozen=True)
class TheoryLine:
    """M/D/1/K from load to load, with the service time that was measured, else the nominal one: offered utilisation, loss,
    and mean waiting time in ns.
    """

    buffers: int
    line: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class FiniteBuffer:
    """Every load of a port with few buffers. `service`: D' in ns, or why it is not known. `idle`: the time of a request
    and its answer at an idle port, ns, which is not part of a wait.
    """

    loads: tuple[PortLoad, ...]
    limits: tuple[Limit, ...]
    lines: tuple[TheoryLine, ...]
    service_ns: float
    service: Estimate
    idle: Estimate


def finite_buffer_of(
    dataset: Dataset,
    finished: Sequence[Trial],
    measured: Mapping[str, Mapping[str, Measured]],
    outcomes: Mapping[str, Mapping[str, Estimate]],
) -> FiniteBuffer | None:
    """Return the findings on the port; None where the experiment has none that theory can tell of: Poisson requests by datagrams
    of one size, to a bucket of one of their frames. `outcomes`: those of each point, which all of the report shows.
    """
    points: dict[str, list[Trial]] = {}
    for trial in finished:
        if not _is_port(dataset, trial):
            return None
        points.setdefault(trial.point, []).append(trial)
    if not points:
        return None
    first = finished[0].settings
    service_ns = 1e9 * 8 * int(first["link_burst"]) / int(first["link_rate"])
    if any(
        t.settings["link_burst"] != first["link_burst"] or t.settings["link_rate"] != first["link_rate"]
        for t in finished
    ):
        return None
    offered = {
        point: fmean(measured[t.name]["offered_operations_per_s"].value or 0.0 for t in trials)
        for point, trials in points.items()
    }
    if min(offered.values()) <= 0:
        return None
    service = _service(points, measured, offered, service_ns)
    idle = _idle(points, measured, offered, service_ns)
    loads = tuple(
        _load(dataset, trials, outcomes[point], offered[point], service_ns, service, idle)
        for point, trials in points.items()
    )
    ordered = tuple(sorted(loads, key=lambda load: (load.buffers, load.rate_per_s)))
    rooms = sorted({load.buffers for load in loads})
    lines = tuple(_line(buffers, ordered, service_ns, service.estimate or service_ns) for buffers in rooms)
    return FiniteBuffer(ordered, tuple(map(limit, rooms)), lines, service_ns, service, idle)


def limit(buffers: int) -> Limit:
    """Compute the utilisations where the mean queue of M/M/1 is as long as there are buffers, and where 1 % is lost."""
    # rho^2 / (1 - rho) = K
    full = (-buffers + math.sqrt(buffers**2 + 4 * buffers)) / 2
    return Limit(
        buffers,
        full,
        _solved(lambda rho: exponential_loss(rho, buffers) - LOST),
        _solved(lambda rho: constant_station(rho, buffers)[0] - LOST),
    )


def exponential_loss(rho: float, places: int) -> float:
    """Loss of M/M/1/K at the offered utilisation `rho` (`analysis/queueing/mmck.py`)."""
    return mm1k(rho, 1.0, places).blocking_ratio or 0.0


def constant_station(rho: float, places: int) -> tuple[float, float]:
    """Loss and mean wait, in service times, of M/D/1/K at the offered utilisation `rho` (`analysis/queueing/md1.py`)."""
    found = md1k(rho, 1.0, places)
    return found.blocking_ratio or 0.0, found.waiting_time_s


def _is_port(dataset: Dataset, trial: Trial) -> bool:
    settings = trial.settings
    if not load_of(dataset.experiment.get("workload")).answered:
        return False
    if any(settings.get(name) is None for name in ("link_rate", "link_burst", "link_frames", "size", "rate")):
        return False
    alike = settings.get("sizes") is None and int(settings.get("burst", 1)) == 1
    datagrams = settings.get("transport") == "udp" and settings.get("arrivals") == "poisson"
    return alike and datagrams and int(settings["size"]) + HEADERS_BYTES == settings["link_burst"]


def _load(
    dataset: Dataset,
    trials: Sequence[Trial],
    outcomes: Mapping[str, Estimate],
    rate_per_s: float,
    service_ns: float,
    service: Estimate,
    idle: Estimate,
) -> PortLoad:
    levels = trials[0].levels
    buffers = int(trials[0].settings["link_frames"]) + 1
    window_s = (dataset.experiment.get("windows") or {}).get("measured_ns", 0) / 1e9
    arrivals = max(1, round(rate_per_s * window_s * len(trials)))
    rho = rate_per_s * service_ns / 1e9
    return PortLoad(
        levels,
        labels_of(dataset, levels),
        buffers,
        rate_per_s,
        rho,
        outcomes["loss_ratio"],
        _less(outcomes[_MEAN], idle),
        _theory(rate_per_s, service_ns, buffers, arrivals),
        None if service.estimate is None else _theory(rate_per_s, service.estimate, buffers, arrivals),
        exponential_loss(rho, buffers),
        rho**2 / (1 - rho) if rho < 1 else None,
    )


def _theory(rate_per_s: float, service_ns: float, buffers: int, arrivals: int) -> Theory:
    loss, wait = constant_station(rate_per_s * service_ns / 1e9, buffers)
    spread = spread_of_runs(rate_per_s, service_ns / 1e9, buffers, arrivals)
    low, high = spread.waiting_time_s
    return Theory(loss, wait * service_ns, spread.blocking_ratio, (1e9 * low, 1e9 * high))


def _line(buffers: int, loads: Sequence[PortLoad], service_ns: float, longer_ns: float) -> TheoryLine:
    least, most = (end(load.offered_ratio for load in loads) for end in (min, max))
    found = []
    for step in range(LINE_STEPS + 1):
        rho = least + (most - least) * step / LINE_STEPS
        loss, wait = constant_station(rho * longer_ns / service_ns, buffers)
        found.append((rho, loss, wait * longer_ns))
    return TheoryLine(buffers, tuple(found))


def _service(
    points: Mapping[str, Sequence[Trial]],
    measured: Mapping[str, Mapping[str, Measured]],
    offered: Mapping[str, float],
    service_ns: float,
) -> Estimate:
    """D': what the port takes for a frame when it never idles."""
    busy = [p for p in points if offered[p] * service_ns / 1e9 >= SATURATED]
    # Of a trial the median over its intervals: a port that lost its CPU for a while is no slower for it the rest of the time.
    ends = [trial.end("send") for point in busy for trial in points[point]]
    rates = [median(r.operations / r.span_ns for r in end.measured) for end in ends if end and end.measured]
    values = [1 / rate for rate in rates if rate > 0]
    if not values:
        why = f"no point offers {SATURATED:g} times what the port takes, which would show how long a frame takes it"
        return Estimate(None, None, None, 0, "ns", "none", missing=why)
    return _interval(
        values,
        "ns",
        f"1 / rate carried where the port never idles (medians of trials), t interval over {len(values)} trials",
    )


def _idle(
    points: Mapping[str, Sequence[Trial]],
    measured: Mapping[str, Mapping[str, Measured]],
    offered: Mapping[str, float],
    service_ns: float,
) -> Estimate:
    """Time of a request and its answer where nearly all find the port idle, less the little that they wait by theory.

    The median over all intervals of all such trials: what the machine always takes is in it, and a stall is not.
    """
    values = []
    for point, trials in points.items():
        rho = offered[point] * service_ns / 1e9
        if rho > IDLE:
            continue
        # With any number of places, as few are taken: rho / (2 (1 - rho)) service times (Kleinrock 1, 5.6).
        wait_ns = service_ns * rho / (2 * (1 - rho))
        parts = [measured[t.name][_MEAN].intervals for t in trials]
        values += [part - wait_ns for each in parts for part in each]
    if len(values) < MEDIAN_LEAST:
        why = f"no point offers {IDLE:g} of what the port takes or less for long enough, which would show the time without a wait"
        return Estimate(None, None, None, 0, "ns", "none", missing=why)
    ordered = sorted(values)
    # Ranks between which the median lies with 95 %, whatever the law (Conover, Practical Nonparametric Statistics, 1999, 3.2).
    # As many lie below as above: P(X <= rank) is P(X >= n - rank).
    n, tail = len(ordered), (1 - LEVEL) / 2
    rank = next(rank for rank in range(n) if chance.binomial_tail(n - rank, n, 0.5) >= tail)
    low, high = ordered[max(rank - 1, 0)], ordered[min(len(ordered) - rank, len(ordered) - 1)]
    method = f"median over {len(ordered)} intervals of requests at an idle port, less their wait by theory; order statistics"
    return Estimate(median(ordered), low, high, len(ordered), "ns", method)


def _interval(values: Sequence[float], unit: str, method: str) -> Estimate:
    if len(values) < 2:
        value = values[0] if values else None
        return Estimate(value, None, None, len(values), unit, "one trial: no interval")
    half = float(chance.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    middle = fmean(values)
    return Estimate(middle, middle - half, middle + half, len(values), unit, method)


def _less(whole: Estimate, idle: Estimate) -> Estimate:
    """The wait: the whole time less that at an idle port; their errors add up as squares (JCGM 100:2008, 5.1.2)."""
    if whole.estimate is None:
        return whole
    if idle.estimate is None:
        return Estimate(None, None, None, 0, "ns", "none", missing=idle.missing)
    middle = whole.estimate - idle.estimate
    if whole.low is None or whole.high is None:
        return Estimate(middle, None, None, whole.n, "ns", whole.method)
    other = (idle.high - idle.low) / 2 if idle.low is not None and idle.high is not None else 0.0
    half = math.hypot((whole.high - whole.low) / 2, other)
    # Nobody waits for less than no time.
    low = middle - half if middle < 0 else max(0.0, middle - half)
    return Estimate(middle, low, middle + half, whole.n, "ns", f"{whole.method}; less an idle port's time")


def _solved(excess: Callable[[float], float]) -> float:
    from scipy import optimize  # slow to import, and few need it

    return float(optimize.brentq(excess, 0.01, 1.5, xtol=1e-9))
