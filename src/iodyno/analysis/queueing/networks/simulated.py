"""Percentiles of the response time in a network of queues: product form gives means, a simulation the rest.

Jobs pass the stations in the model's order. A mean of V visits is floor(V), and one more with the probability of the rest;
each visit is served for an exponential time, as the exact solutions take it. That order is an assumption: means do not depend
on it (Baskett, Chandy, Muntz and Palacios, JACM 22:2, 1975), percentiles do a little. Every number has a 95 % interval by
batch means.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

import numpy as np

from iodyno.analysis.queueing.simulation import (
    BATCHES,
    WARM_UP_RATIO,
    Interval,
    batch_means,
    percentile_of,
    values_for,
)
from iodyno.core.errors import ExperimentError
from iodyno.core.network import ClosedClass, Demand, Network, OpenClass, Station, checked

JOBS_LEAST = 100_000
"""Jobs of the class that completes least (chosen: at a utilisation of 80 % the median is within some percent)."""
STEPS_MOST = 3_000_000
"""Visits simulated at most (chosen: some ten seconds)."""


@dataclass(frozen=True)
class Percentiles:
    """Response times of the jobs of a class. `quantiles_s`: in s, by percentile; `jobs` were counted."""

    name: str
    jobs: int
    response_time_s: Interval
    quantiles_s: Mapping[float, Interval]


@dataclass
class _Job:
    """A job on its way: since when, and the visits still to come (station, service time), the next one last."""

    of_class: int
    began_s: float
    ahead: list[tuple[int, float]]


class _Place(Protocol):
    """A station with the jobs there. `next_end` is when the next of them is done, if nobody comes. Times in s."""

    def come(self, now: float, job: _Job, service: float) -> None:
        """A job comes, to be served for `service` s."""

    def next_end(self, now: float) -> float | None:
        """Return the time when the next job is done, in s; None: there is none."""

    def go(self, now: float) -> _Job:
        """Takes away the job that is done now."""


def percentiles(
    network: Network, wanted: Sequence[float], *, jobs: int = JOBS_LEAST, seed: int = 1
) -> tuple[Percentiles, ...]:
    """Simulates until every class has `jobs` counted jobs, or the run is as long as allowed; a result a class.

    Percentiles are in per cent, between 0 and 100. The same seed gives the same numbers. Raises ExperimentError.
    """
    checked(network)
    for percent in wanted:
        if not 0 < percent < 100:
            raise ExperimentError(
                f"invalid value: the percentile {percent:g}; expected between 0 and 100", where="percentiles"
            )
    for entry in network.classes:
        if isinstance(entry, OpenClass) and entry.rate_per_s == 0:
            raise ExperimentError(
                "no job of it comes, so that it has no percentiles",
                where=f"classes.{entry.name}",
                advice="give it a rate, or leave it out",
            )
    run = _Run(network, seed)
    jobs = max([jobs, *(values_for(percent) for percent in wanted)])
    every = run.until(math.ceil(jobs / (1 - WARM_UP_RATIO)) + 1)
    return tuple(
        _summary(entry.name, times, wanted) for entry, times in zip(network.classes, every, strict=True)
    )


def _summary(name: str, times: Sequence[float], wanted: Sequence[float]) -> Percentiles:
    counted = np.array(times[int(len(times) * WARM_UP_RATIO) :])
    length = counted.size // BATCHES
    if length < 2:
        raise ExperimentError(
            f"the class {name!r} completes too seldom beside the others to have percentiles: {counted.size} jobs",
            where=f"classes.{name}",
            advice="simulate a model without the class that is so much more frequent",
        )
    batches = counted[: length * BATCHES].reshape(BATCHES, length)
    try:
        quantiles = {percent: percentile_of(counted, percent) for percent in wanted}
    except ExperimentError as error:
        error.where = f"classes.{name}, percentiles"
        raise
    return Percentiles(name, int(counted.size), batch_means(batches.mean(axis=1)), quantiles)


class _Run:
    """All jobs from event to event. What a station forecasts is void as soon as a job comes or goes there."""

    def __init__(self, network: Network, seed: int) -> None:
        self._random = random.Random(seed)
        self._network = network
        self._places = [_place(station) for station in network.stations]
        names = [station.name for station in network.stations]
        self._routes = [
            [(names.index(name), demand) for name, demand in _in_order(names, network.demands[entry.name])]
            for entry in network.classes
        ]
        self._versions = [0] * len(names)
        self._order = count()
        self._events: list[tuple[float, int, int, int, _Job | None]] = []
        """Time, a number that no other has, the station or what is outside (-1), its version, and who begins there."""
        self._times: list[list[float]] = [[] for _ in network.classes]

    def until(self, jobs: int) -> list[list[float]]:
        """Response times in the order of completion, by class."""
        for number, entry in enumerate(self._network.classes):
            if isinstance(entry, OpenClass) and entry.rate_per_s > 0:
                self._outside(0.0, number, self._random.expovariate(entry.rate_per_s))
            elif isinstance(entry, ClosedClass):
                for _ in range(entry.population):
                    self._outside(0.0, number, self._thought(entry))
        for _ in range(STEPS_MOST):
            if not self._events or all(len(times) >= jobs for times in self._times):
                break
            self._step()
        return self._times

    def _step(self) -> None:
        now, _, at, version, begins = heappop(self._events)
        if begins is not None:
            entry = self._network.classes[begins.of_class]
            if isinstance(entry, OpenClass):
                self._outside(now, begins.of_class, self._random.expovariate(entry.rate_per_s))
            self._forward(now, begins)
        elif version == self._versions[at]:
            job = self._places[at].go(now)
            self._forecast(now, at)
            self._forward(now, job)

    def _forward(self, now: float, job: _Job) -> None:
        if job.ahead:
            at, service = job.ahead.pop()
            self._places[at].come(now, job, service)
            self._forecast(now, at)
            return
        self._times[job.of_class].append(now - job.began_s)
        entry = self._network.classes[job.of_class]
        if isinstance(entry, ClosedClass):
            self._outside(now, job.of_class, self._thought(entry))

    def _forecast(self, now: float, at: int) -> None:
        self._versions[at] += 1
        if (end := self._places[at].next_end(now)) is not None:
            heappush(self._events, (end, next(self._order), at, self._versions[at], None))

    def _outside(self, now: float, of_class: int, after: float) -> None:
        """A job that begins after a time outside."""
        ahead: list[tuple[int, float]] = []
        for at, demand in self._routes[of_class]:
            visits = int(demand.visits) + (self._random.random() < demand.visits % 1)
            ahead += [(at, self._random.expovariate(1 / demand.service_time_s)) for _ in range(visits)]
        ahead.reverse()
        heappush(self._events, (now + after, next(self._order), -1, 0, _Job(of_class, now + after, ahead)))

    def _thought(self, entry: ClosedClass) -> float:
        return self._random.expovariate(1 / entry.think_time_s) if entry.think_time_s else 0.0


def _in_order(names: Sequence[str], demands: Mapping[str, Demand]) -> list[tuple[str, Demand]]:
    return [(name, demands[name]) for name in names if name in demands and demands[name].demand_s > 0]


def _place(station: Station) -> _Place:
    if station.kind == "delay":
        return _Delay()
    made: Mapping[str, type[_FirstCome] | type[_Shared] | type[_LastCome]] = {
        "fcfs": _FirstCome,
        "ps": _Shared,
        "lcfs-pr": _LastCome,
    }
    return made[station.discipline](station.servers)


class _Delay:
    """Nobody waits."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, _Job]] = []
        self._order = count()

    def come(self, now: float, job: _Job, service: float) -> None:
        heappush(self._ends, (now + service, next(self._order), job))

    def next_end(self, now: float) -> float | None:
        return self._ends[0][0] if self._ends else None

    def go(self, now: float) -> _Job:
        return heappop(self._ends)[2]


class _FirstCome(_Delay):
    """First come, first served."""

    def __init__(self, servers: int) -> None:
        super().__init__()
        self._servers = servers
        self._waiting: deque[tuple[_Job, float]] = deque()

    def come(self, now: float, job: _Job, service: float) -> None:
        if len(self._ends) < self._servers:
            super().come(now, job, service)
        else:
            self._waiting.append((job, service))

    def go(self, now: float) -> _Job:
        done = super().go(now)
        if self._waiting:
            super().come(now, *self._waiting.popleft())
        return done


class _Shared:
    """Processor sharing: n jobs have min(1, servers / n) of a server each, so that all have had the same since they came."""

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._had, self._since = 0.0, 0.0
        self._ends: list[tuple[float, int, _Job]] = []
        self._order = count()

    def _share(self) -> float:
        return min(1.0, self._servers / len(self._ends)) if self._ends else 0.0

    def _catch_up(self, now: float) -> None:
        self._had += (now - self._since) * self._share()
        self._since = now

    def come(self, now: float, job: _Job, service: float) -> None:
        self._catch_up(now)
        heappush(self._ends, (self._had + service, next(self._order), job))

    def next_end(self, now: float) -> float | None:
        if not self._ends:
            return None
        self._catch_up(now)
        return now + max(0.0, self._ends[0][0] - self._had) / self._share()

    def go(self, now: float) -> _Job:
        self._catch_up(now)
        return heappop(self._ends)[2]


class _LastCome:
    """Last come, first served, who was interrupted goes on where he was."""

    def __init__(self, servers: int) -> None:
        self._servers = servers
        self._stack: list[list[float | _Job]] = []
        self._since = 0.0

    def _catch_up(self, now: float) -> None:
        for entry in self._stack[-self._servers :]:
            entry[0] -= now - self._since  # type: ignore[operator]
        self._since = now

    def come(self, now: float, job: _Job, service: float) -> None:
        self._catch_up(now)
        self._stack.append([service, job])

    def next_end(self, now: float) -> float | None:
        if not self._stack:
            return None
        self._catch_up(now)
        return now + max(0.0, min(float(entry[0]) for entry in self._stack[-self._servers :]))  # type: ignore[arg-type]

    def go(self, now: float) -> _Job:
        self._catch_up(now)
        served = range(max(0, len(self._stack) - self._servers), len(self._stack))
        done = min(served, key=lambda at: float(self._stack[at][0]))  # type: ignore[arg-type]
        job = self._stack.pop(done)[1]
        assert isinstance(job, _Job)
        return job
