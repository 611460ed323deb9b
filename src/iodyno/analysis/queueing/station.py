"""Results of a model for a station: rates, means, probabilities and quantiles, and how they were had.

Time runs from arrival (the beginning of the wait) to departure: response = waiting + service. `queue_length` counts those
that wait, `number_in_system` also those in service. `utilisation` is the busy share of one server, so with losses it is
what is carried and not what is offered.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from iodyno.analysis.queueing.times import Times
from iodyno.core.errors import ExperimentError
from iodyno.core.quantity import counted

LEAST_BUSY = 1e-290
"""Mean of busy servers below which doubles have too few digits for a quotient (the least with all digits is 2e-308)."""

MOST_COUNT = 1_000_000
"""Servers, places or clients of a station (chosen: what is calculated in some ten seconds)."""

MOST_SQUARED_CV = 1e12
"""Chosen: a service time of which one in a million million is not 0 has that."""


@dataclass(frozen=True)
class Method:
    """Method by which numbers were had: exact for the model as stated, or an approximation; where the formula is from."""

    exact: bool
    source: str

    def __str__(self) -> str:
        return f"{'exact' if self.exact else 'approximation'} ({self.source})"


@dataclass(frozen=True)
class StationResult:
    """A station under one load, in steady state.

    `arrival_rate_per_s`: what is offered. `throughput_per_s`: what departs. `utilisation`: None where there are as many
    servers as customers. `blocking_ratio`: share of the arrivals that is turned away; None where none can be.
    `waiting`, `response`: distributions of those that are not turned away; `states`: P(n in the system) over time.
    `missing` says why one of the three is None. `time_method`: of the quantiles, where it differs from `method`.
    """

    model: str
    servers: int | None
    service_time_s: float
    arrival_rate_per_s: float
    throughput_per_s: float
    utilisation: float | None
    response_time_s: float
    waiting_time_s: float
    queue_length: float
    number_in_system: float
    method: Method
    blocking_ratio: float | None = None
    waiting: Times | None = None
    response: Times | None = None
    states: Callable[[int], float] | None = None
    missing: str = ""
    time_method: Method | None = None

    @property
    def offered_utilisation(self) -> float | None:
        """Busy share if nobody were turned away, a ratio: above 1 where more comes than can be done."""
        if self.servers is None or self.blocking_ratio is None:
            return self.utilisation
        return self.arrival_rate_per_s * self.service_time_s / self.servers

    def probability(self, customers: int) -> float | None:
        """P(so many in the system) at an instant picked at random; None where `missing` says why."""
        if self.states is None:
            return None
        return self.states(customers) if customers >= 0 else 0.0

    def response_time_quantile_s(self, p: float) -> float | None:
        """The p-quantile (0 < p < 1) of the response time in seconds; None where `missing` says why."""
        return None if self.response is None else self.response.quantile_s(p)

    def waiting_time_quantile_s(self, p: float) -> float | None:
        """The p-quantile (0 < p < 1) of the waiting time in seconds; None where `missing` says why."""
        return None if self.waiting is None else self.waiting.quantile_s(p)


def check_service(service_time_s: float, model: str) -> None:
    """Raises ExperimentError unless the service time is a finite number of seconds above 0."""
    if not (math.isfinite(service_time_s) and service_time_s > 0):
        raise ExperimentError(
            f"invalid value: a service time of {service_time_s:g} s; expected above 0",
            where=model,
            advice="127us",
        )


def check_rate(arrival_rate_per_s: float, model: str) -> None:
    """Raises ExperimentError unless the rate is a finite number per second, 0 or more."""
    if not (math.isfinite(arrival_rate_per_s) and arrival_rate_per_s >= 0):
        raise ExperimentError(
            f"invalid value: a load of {arrival_rate_per_s:g} arrivals/s; expected 0 or more",
            where=model,
            advice="a rate or a utilisation of 0 or more",
        )


def check_count(count: int, noun: str, model: str, least: int = 1) -> None:
    """Raises ExperimentError unless `count` of `noun` is a whole number of `least` or more, and no more than MOST_COUNT."""
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise ExperimentError(
            f"invalid value: {count!r} {noun}; expected a whole number from {least} on", where=model
        )
    if count > MOST_COUNT:
        raise ExperimentError(f"invalid value: {count} {noun}; expected {MOST_COUNT} at most", where=model)


def check_squared_cv(squared_cv: float, noun: str, model: str) -> None:
    """Raises ExperimentError unless the squared coefficient of variation is a number from 0 to MOST_SQUARED_CV."""
    if squared_cv > MOST_SQUARED_CV:
        raise ExperimentError(
            f"invalid value: {squared_cv:g} as the squared coefficient of variation of {noun}; "
            f"expected {MOST_SQUARED_CV:g} at most",
            where=model,
            advice="variance / mean^2 as measured",
        )
    if not squared_cv >= 0:
        raise ExperimentError(
            f"invalid value: {squared_cv:g} as the squared coefficient of variation of {noun}; expected 0 or more",
            where=model,
            advice="0 for constant, 1 for exponential times, or variance / mean^2 as measured",
        )


def with_places(model: str, servers: int) -> str:
    """Write a queue with a number of places as `iodyno model queue` takes it, such as M/M/1/20."""
    letters = "/".join(model.split("/")[:2])
    calculated = letters == "M/M" or (letters == "M/D" and servers == 1)
    return f"{letters}/{servers}/{servers + 19}{'' if calculated else ' --simulate'}"


def check_open(arrival_rate_per_s: float, service_time_s: float, servers: int, model: str) -> float:
    """The offered load in servers (erlangs) of an infinite queue.

    Raises ExperimentError for a bad argument, and when no steady state exists: as much arrives as all servers can do.
    """
    check_count(servers, "servers", model)
    check_service(service_time_s, model)
    check_rate(arrival_rate_per_s, model)
    offered = arrival_rate_per_s * service_time_s
    # A load of exactly 1 may come out one unit in the last place below it.
    if offered >= servers * (1 - 1e-15):
        raise ExperimentError(
            f"unstable at a utilisation of {offered / servers:.6g}: {counted(servers, 'server')} of"
            f" {1 / service_time_s:.6g}/s {'carries' if servers == 1 else 'carry'} less than {servers / service_time_s:.6g}/s,"
            f" and {arrival_rate_per_s:.6g}/s are offered, so the queue grows without end",
            where=model,
            advice=f"a utilisation below 1, more servers, or places, which may be full: {with_places(model, servers)}",
        )
    return offered
