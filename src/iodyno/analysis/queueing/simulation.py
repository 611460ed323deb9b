"""A simulator of queues for what has no closed form: any times between arrivals, any service times, few places, credits.

Nothing is scheduled: all queues here are first come, first served, so that the times of one customer follow from those
of the ones before it (Lindley, Proc. Cambridge Phil. Soc. 48:2, 1952; for many servers Kiefer and Wolfowitz, Trans. AMS 78,
1955; for stations that block each other Buzacott and Shanthikumar, Stochastic Models of Manufacturing Systems, 1993, ch. 5).

How long to simulate is planned by Whitt's formula, and every number has an interval by batch means (Law and Kelton,
Simulation Modeling and Analysis, ch. 9). Where the interval is wider than was asked for, the run goes on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

import numpy as np
from numpy.typing import NDArray

from iodyno.analysis.queueing.random_times import Law
from iodyno.analysis.queueing.station import MOST_COUNT
from iodyno.core.errors import ExperimentError

Times = NDArray[np.float64]

LEVEL = 0.95
NORMAL_POINT, STUDENT_POINT = 1.959963985, 2.0395134
"""97.5 % points of the normal law, and of Student's t with 31 degrees of freedom (BATCHES - 1)."""
BATCHES = 32
"""Chosen: between the 10 and 30 that Schmeiser (Operations Research 30:3, 1982) found enough, and a power of two above."""
QUANTILE_BATCHES, QUANTILE_POINT = 16, 2.1314495
"""Longer batches for percentiles, and the 97.5 % point of Student's t with 15 degrees of freedom."""
BEYOND_LEAST = 10 * QUANTILE_BATCHES
"""Values beyond a percentile that it needs (chosen: ten in a batch; with fewer, the greatest few decide)."""
WARM_UP_RATIO = 0.1
"""Share of the customers that begin at an empty station and do not count (chosen: the run is some hundred times longer
than the station remembers, by the formula for its length, so that a tenth is ample).
"""
ARRIVALS_LEAST, ARRIVALS_MOST = 20_000, 20_000_000
"""Chosen: batches of some hundred at least; a minute of one CPU at the most."""
ROUNDS_MOST = 3
PRECISION_LEAST = 1e-4
"""Chosen: what the most arrivals cannot reach at any load but hardly any."""


@dataclass(frozen=True)
class Interval:
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Simulated:
    """Results of a simulation. Times in s; waiting is all that is not service. `blocking_ratio`: share of the arrivals
    that found no place. `number_in_system`: by Little's law. `utilisation`: of a server, of a tandem the mean over its
    stations. `quantiles_s`: of the response time, by percentile.
    `precise`: whether the interval of the mean response is as narrow as was asked for.
    """

    arrivals: int
    throughput_per_s: Interval
    blocking_ratio: Interval
    waiting_time_s: Interval
    response_time_s: Interval
    number_in_system: Interval
    utilisation: Interval
    quantiles_s: Mapping[float, Interval] = field(default_factory=dict)
    precise: bool = True
    method: str = ""


@dataclass(frozen=True)
class Passage:
    """Each arrival of a run, in order: when it came, whether it got in, its waiting and its service time, in s."""

    arrived_s: Times
    admitted: NDArray[np.bool_]
    waited_s: Times
    served_s: Times


_BEYOND_ALL = 1e18
"""Arrivals that nobody simulates, where a formula gives yet more."""


def run_length(
    utilisation: float, precision_ratio: float, scv_sum: float = 2.0, places: int | None = None
) -> int:
    """Arrivals after which the 95 % interval of the mean number in system is +- `precision_ratio` of it.

    Whitt, Planning Queueing Simulations, Management Science 35:11, 1989: the relative asymptotic variance of M/M/1 is
    2 (1 + rho) / (rho (1 - rho)^2) service times; in heavy traffic it goes with the sum of the two SCVs (2 for M/M/1). A
    queue with K places forgets what was within K^2 service times, as a diffusion does, so that |1 - rho| counts as
    1 / K at least (chosen). Raises ExperimentError.
    """
    allowed = f"from {PRECISION_LEAST:g} to below 1"
    _check(PRECISION_LEAST <= precision_ratio < 1, "the precision", precision_ratio, allowed, "2%")
    _check(utilisation > 0, "the offered utilisation", utilisation, "above 0", "0.8")
    if places is None:
        _stable(utilisation)
    away = max(abs(1 - utilisation), 1 / places if places else 0.0)
    service_times = 2 * (1 + utilisation) / (utilisation * away**2) * max(scv_sum, 0.1) / 2
    times = NORMAL_POINT / precision_ratio
    return max(1, math.ceil(min(times * times * service_times * utilisation, _BEYOND_ALL)))


def station(
    arrivals: Law,
    service: Law,
    servers: int = 1,
    places: int | None = None,
    *,
    precision_ratio: float = 0.02,
    percentiles: Sequence[float] = (),
    seed: int = 1,
) -> Simulated:
    """G/G/c/K, first come, first served. `places`: customers that there is room for, in service or not; None: any number.

    Raises ExperimentError.
    """
    _whole(servers, "servers")
    if places is not None and places < servers:
        raise ExperimentError(
            f"invalid value: {places} places for {servers} servers; expected as many places as servers, or more",
            where="places",
            advice="places count who is in service, too",
        )
    offered = service.mean_s / (arrivals.mean_s * servers)
    length = run_length(offered, precision_ratio, arrivals.scv + service.scv, places)

    def passage(random: np.random.Generator, count: int) -> Passage:
        arrived = np.cumsum(arrivals.draw(random, count))
        served = service.draw(random, count)
        if servers == 1 and places is None:
            return _one_server(arrived, served)
        return _many_servers(arrived, served, servers, places)

    name = f"simulated {_kendall(arrivals)}/{_kendall(service)}/{servers}" + (f"/{places}" if places else "")
    return _run(passage, length, servers, precision_ratio, percentiles, seed, name)


def credits_station(
    arrivals: Law,
    service: Law,
    credits: int,
    round_trip_s: float,
    *,
    precision_ratio: float = 0.02,
    percentiles: Sequence[float] = (),
    seed: int = 1,
) -> Simulated:
    """A port that sends a frame only while it holds a credit, which comes back `round_trip_s` after the frame was sent.

    Nothing is lost: what has no credit waits. Frame n begins at max(arrival, end of frame n - 1, end of frame
    n - credits + round trip), as R_RDY gives buffer credits back (ANSI FC-FS, class 3). So no more than
    credits / (service + round trip) frames pass per second. Raises ExperimentError.
    """
    _whole(credits, "credits")
    _check(
        math.isfinite(round_trip_s) and round_trip_s >= 0,
        "the round trip",
        round_trip_s,
        "0 s or more",
        "10us",
    )
    most_per_s = min(1 / service.mean_s, credits / (service.mean_s + round_trip_s))
    offered = 1 / (arrivals.mean_s * most_per_s)
    if offered >= 1:
        raise ExperimentError(
            f"{1 / arrivals.mean_s:.6g} frames per second are offered, and {credits} credits let {most_per_s:.6g} pass",
            where="credits",
            advice=f"offer less, or take {math.ceil(1 + round_trip_s / service.mean_s)} credits or more",
        )
    length = run_length(offered, precision_ratio, arrivals.scv + service.scv)

    def passage(random: np.random.Generator, count: int) -> Passage:
        arrived = np.cumsum(arrivals.draw(random, count))
        served = service.draw(random, count)
        back: deque[float] = deque([-math.inf] * credits)
        waited, free = [], 0.0
        for at, time in zip(arrived.tolist(), served.tolist(), strict=True):
            begin = max(at, free, back.popleft())
            free = begin + time
            back.append(free + round_trip_s)
            waited.append(begin - at)
        return Passage(arrived, np.ones(count, bool), np.array(waited), served)

    name = f"simulated {_kendall(arrivals)}/{_kendall(service)}/1 with {credits} credits"
    return _run(passage, length, 1, precision_ratio, percentiles, seed, name)


def tandem(
    arrivals: Law,
    services: Sequence[Law],
    places: Sequence[int | None],
    *,
    precision_ratio: float = 0.02,
    percentiles: Sequence[float] = (),
    seed: int = 1,
) -> Simulated:
    """Stations of one server, one after the other; who is done at one and finds the next one full stays and blocks it.

    `places`: of each station, in service or not; None: any number. The first one loses whom it has no place for. Blocking
    after service: D_j(n) = max(max(D_(j-1)(n), D_j(n - 1)) + s_j(n), D_(j+1)(n - K_(j+1))). Raises ExperimentError.
    """
    if not services or len(services) != len(places):
        raise ExperimentError(
            f"invalid value: {len(places)} numbers of places; expected one for each of {len(services)} stations",
            where="places",
            advice="give one for each station, in their order",
        )
    for room in places:
        if room is not None:
            _whole(room, "places")
    busiest = max(services, key=lambda each: each.mean_s)
    # Where stations block each other, less than the rate of the slowest one passes: the run shows it by not settling.
    offered = busiest.mean_s / arrivals.mean_s
    length = run_length(offered, precision_ratio, arrivals.scv + busiest.scv, places[0])

    def passage(random: np.random.Generator, count: int) -> Passage:
        arrived = np.cumsum(arrivals.draw(random, count))
        served = np.array([each.draw(random, count) for each in services])
        return _blocking(arrived, served, places)

    names = "/".join(_kendall(each) for each in services)
    found = _run(
        passage,
        length,
        len(services),
        precision_ratio,
        percentiles,
        seed,
        f"simulated tandem of {len(services)}: {names}",
    )
    if not found.precise and places[0] is None:
        raise ExperimentError(
            "the stations block each other so much that what waits before the first one grows without end, or nearly so",
            where="tandem",
            advice="offer less, give later stations more places, or give the first one a number of places",
        )
    return found


@dataclass(frozen=True)
class Spread:
    """Spread of runs of a length by chance: the middle 95 % of their loss ratios, and of their mean waits in s."""

    blocking_ratio: tuple[float, float]
    waiting_time_s: tuple[float, float]


def spread_of_runs(
    rate_per_s: float, service_s: float, places: int, arrivals: int, *, runs: int = 400, seed: int = 1
) -> Spread:
    """Between which bounds 95 % of the runs of M/D/1/K with so many arrivals lie, which begin in steady state.

    All runs go in step: with a constant service time the work V that a server has ahead says who is there, so that an
    arrival is let in where V <= (K - 1) D. Where the runs are long, shorter ones are simulated, and their spread scaled
    by the root of the length (central limit theorem). Raises ExperimentError.
    """
    _check(
        rate_per_s > 0 and service_s > 0,
        "rate and service time",
        min(rate_per_s, service_s),
        "above 0",
        "1ms",
    )
    _whole(places, "places")
    _whole(arrivals, "arrivals", ARRIVALS_MOST)
    rho = rate_per_s * service_s
    random = np.random.default_rng(seed)
    length = min(arrivals, 4000)
    warm_up = min(10 * places**2, 4000)
    ahead = np.zeros(runs)
    lost, waited = np.zeros(runs), np.zeros(runs)
    for step in range(warm_up + length):
        ahead = np.maximum(ahead - random.exponential(1 / rho, runs), 0.0)
        let_in = ahead <= places - 1
        if step >= warm_up:
            lost += ~let_in
            waited += np.where(let_in, ahead, 0.0)
        ahead += let_in
    loss = lost / length
    wait = service_s * waited / np.maximum(length - lost, 1)
    shrink = math.sqrt(length / arrivals)

    def bounds(values: Times) -> tuple[float, float]:
        middle = float(values.mean())
        low, high = (float(bound) for bound in np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]))
        return max(0.0, middle + (low - middle) * shrink), middle + (high - middle) * shrink

    return Spread(bounds(loss), bounds(wait))


def _one_server(arrived: Times, served: Times) -> Passage:
    """Lindley's recursion as a sum less its least value so far: no loop."""
    steps = served[:-1] - np.diff(arrived)
    sums = np.concatenate(([0.0], np.cumsum(steps)))
    waited = sums - np.minimum(np.minimum.accumulate(sums), 0.0)
    return Passage(arrived, np.ones(arrived.size, bool), waited, served)


def _many_servers(arrived: Times, served: Times, servers: int, places: int | None) -> Passage:
    free = [0.0] * servers
    heapify(free)
    leaving: list[float] = []
    admitted, waited = [], []
    for at, time in zip(arrived.tolist(), served.tolist(), strict=True):
        if places is not None:
            while leaving and leaving[0] <= at:
                heappop(leaving)
            if len(leaving) >= places:
                admitted.append(False)
                waited.append(0.0)
                continue
        begin = max(at, free[0])
        heapreplace(free, begin + time)
        if places is not None:
            heappush(leaving, begin + time)
        admitted.append(True)
        waited.append(begin - at)
    return Passage(arrived, np.array(admitted), np.array(waited), served)


def _blocking(arrived: Times, served: Times, places: Sequence[int | None]) -> Passage:
    stations = len(places)
    # When each of the last customers left: as many as the station has places, or the last one.
    left = [deque([0.0] * (room or 1)) for room in places]
    admitted, waited = [], []
    total = served.sum(axis=0)
    times = served.T.tolist()
    for at, own, whole in zip(arrived.tolist(), times, total.tolist(), strict=True):
        if places[0] is not None and left[0][0] > at:
            admitted.append(False)
            waited.append(0.0)
            continue
        came = at
        for j in range(stations):
            done = max(came, left[j][-1]) + own[j]
            following = left[j + 1] if j + 1 < stations and places[j + 1] is not None else None
            came = max(done, following[0]) if following else done
            left[j].append(came)
            left[j].popleft()
        admitted.append(True)
        waited.append(came - at - whole)
    return Passage(arrived, np.array(admitted), np.array(waited), total)


def _run(
    passage: Callable[[np.random.Generator, int], Passage],
    length: int,
    servers: int,
    precision_ratio: float,
    percentiles: Sequence[float],
    seed: int,
    name: str,
) -> Simulated:
    """Simulates, looks at the interval, and simulates again for longer where it is too wide."""
    for percentile in percentiles:
        _check(0 < percentile < 100, "a percentile", percentile, "above 0 and below 100", "50,99")
    length = max([length, *(values_for(percentile) for percentile in percentiles)])
    count = min(max(ARRIVALS_LEAST, math.ceil(length / (1 - WARM_UP_RATIO))), ARRIVALS_MOST)
    for _ in range(ROUNDS_MOST):
        found = _summed(passage(np.random.default_rng(seed), count), servers, percentiles, name)
        mean = found.response_time_s
        wide = (mean.high - mean.low) / (2 * mean.value)
        if wide <= precision_ratio:
            return found
        if count == ARRIVALS_MOST:
            break
        count = min(ARRIVALS_MOST, math.ceil(count * min(1.3 * (wide / precision_ratio) ** 2, 10)))
    return Simulated(**{**found.__dict__, "precise": False})


def _summed(run: Passage, servers: int, percentiles: Sequence[float], name: str) -> Simulated:
    first = int(run.arrived_s.size * WARM_UP_RATIO)
    size = (run.arrived_s.size - first) // BATCHES
    batches = [slice(first + at * size, first + (at + 1) * size) for at in range(BATCHES)]
    rows: list[tuple[float, ...]] = []
    for part in batches:
        inside = run.admitted[part]
        entered = int(inside.sum())
        if not entered:
            raise ExperimentError(
                "nobody finds a place", where="simulation", advice="offer less, or more places"
            )
        span_s = float(run.arrived_s[part.stop - 1] - run.arrived_s[part.start - 1])
        waited, served = run.waited_s[part][inside], run.served_s[part][inside]
        rate, response = entered / span_s, float(waited.mean() + served.mean())
        rows.append((
            rate, 1 - entered / size, float(waited.mean()), response, rate * response,
            float(served.sum()) / span_s / servers,
        ))  # fmt: skip
    columns = np.array(rows).T
    throughput, blocking, waiting, response_time, number, utilisation = map(batch_means, columns)
    times = (run.waited_s + run.served_s)[first:][run.admitted[first:]] if percentiles else np.empty(0)
    return Simulated(
        run.arrived_s.size, throughput, blocking, waiting, response_time, number, utilisation,
        {percent: percentile_of(times, percent) for percent in percentiles},
        method=f"{name}; {run.arrived_s.size} arrivals, {BATCHES} batch means",
    )  # fmt: skip


def batch_means(values: Times) -> Interval:
    """Mean of the batches, with a t interval (Law and Kelton, section 9.5.3)."""
    mean = float(values.mean())
    half = STUDENT_POINT * float(values.std(ddof=1)) / math.sqrt(BATCHES)
    return Interval(mean, mean - half, mean + half)


def values_for(percent: float) -> int:
    """Return the number of values that a percentile needs at the least."""
    return math.ceil(round(BEYOND_LEAST / (1 - percent / 100), 6))


def percentile_of(times: Times, percent: float) -> Interval:
    """The percentile of all `times` of a run in their order. Its interval is where the share of values above it, taken batch by
    batch, is not told from what it should be: a t interval of the shares, turned into times by the run's own quantiles
    (Woodruff 1952, as Heidelberger and Lewis 1984 use it). The mean of the batches' own percentiles would be too small: a batch
    has none that lies far out.

    Raises ExperimentError where fewer values lie beyond it than that takes.
    """
    share = percent / 100
    # A bound of the division's rounding: who asked for just so many values has them.
    if times.size * (1 - share) < 0.999 * BEYOND_LEAST:
        raise ExperimentError(
            f"{times.size} simulated values are too few for the percentile {percent:g}: {values_for(percent)} are needed",
            where="percentiles",
            advice="one that lies less far out",
        )
    value = float(np.quantile(times, share))
    length = times.size // QUANTILE_BATCHES
    above = (times[: length * QUANTILE_BATCHES].reshape(QUANTILE_BATCHES, length) > value).mean(axis=1)
    half = QUANTILE_POINT * float(above.std(ddof=1)) / math.sqrt(QUANTILE_BATCHES)
    low, high = np.quantile(times, [max(0.0, share - half), min(1.0, share + half)])
    return Interval(value, float(low), float(high))


def _kendall(law: Law) -> str:
    return {"exponential": "M", "constant": "D"}.get(law.name, law.name)


def _stable(utilisation: float) -> None:
    if utilisation >= 1:
        raise ExperimentError(
            f"the offered utilisation is {utilisation:.6g}: with 1 or more, an infinite queue grows without end",
            where="utilisation",
            advice="offer less, add servers, or give the station a number of places, such as the 20 of M/M/1/20",
        )


def _check(holds: bool, what: str, found: float, allowed: str, advice: str) -> None:
    if not holds:
        raise ExperimentError(
            f"invalid value {found:g} for {what}: expected {allowed}", where=what, advice=advice
        )


def _whole(count: int, what: str, most: int = MOST_COUNT) -> None:
    if count < 1:
        raise ExperimentError(
            f"invalid value: {count} {what}; expected 1 or more", where=what, advice=f"{what} 8"
        )
    if count > most:
        raise ExperimentError(f"invalid value: {count} {what}; expected {most} at most", where=what)
