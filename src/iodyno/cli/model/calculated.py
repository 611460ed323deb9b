"""Queues by their formulas: what a notation means, and the columns and notes that belong to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.analysis.queueing.credits import (
    LIGHT_IN_FIBRE_M_PER_S,
    covered_distance_m,
    credit_flow,
    credit_rate_per_s,
    credits_for,
)
from iodyno.analysis.queueing.erlang import erlang_c
from iodyno.analysis.queueing.fork_join import fork_join, quorum_of
from iodyno.analysis.queueing.ggc import ggc, waiting_bounds_s
from iodyno.analysis.queueing.laws import saturation_population
from iodyno.analysis.queueing.md1 import md1, md1k
from iodyno.analysis.queueing.mdc import mdc
from iodyno.analysis.queueing.mg1 import mg1
from iodyno.analysis.queueing.mm1 import mm1
from iodyno.analysis.queueing.mmc import mmc, separate_queues
from iodyno.analysis.queueing.mmck import mm1k, mmck
from iodyno.analysis.queueing.mmcn import engset, mmcn
from iodyno.analysis.queueing.mminf import mminf
from iodyno.analysis.queueing.station import StationResult
from iodyno.cli.form import show
from iodyno.cli.model import options
from iodyno.cli.model.notation import Kind, Queue
from iodyno.core.errors import ExperimentError
from iodyno.report.form import Form
from iodyno.report.numbers import three_digits
from iodyno.report.stations import Row, scaled, stations

_COUNTED = "Places count all in the system: one in service keeps its place until it is done. Times are of those not lost."


def show_calculated(
    queue: Queue,
    kind: Kind,
    service_s: float,
    quantiles: Mapping[str, float],
    form: Form,
    asked: Mapping[str, Any],
) -> None:
    """Prints a row for each load. Raises ExperimentError for numbers that make no sense."""
    c, first, more, notes = _servers(queue), list[Row](), list[Row](), list[str]()
    if kind.written == "M/M/c/K/N":
        results, first, more, notes = _closed(queue, service_s, asked)
    elif kind.written == "fork-join/c":
        results = _fork_join(queue.numbers[0] or 0, service_s, asked)
    elif kind.written == "credits/C":
        results, more, notes = _credits(queue.numbers[0] or 0, service_s, asked)
    else:
        loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], service_s, c)
        results, more, notes = _open(queue, kind, loads, service_s, quantiles, asked)
    show(stations(results, quantiles, first=first, more=more, notes=notes), form)


def _open(
    queue: Queue,
    kind: Kind,
    loads: list[float],
    service_s: float,
    quantiles: Mapping[str, float],
    asked: Mapping[str, Any],
) -> tuple[list[StationResult], list[Row], list[str]]:
    """Queues whose arrivals do not wait for answers."""
    c, k = _servers(queue), queue.places or 0
    match kind.written:
        case "M/M/inf":
            return [mminf(load, service_s) for load in loads], [], []
        case "M/M/c/K":
            return (
                [mm1k(load, service_s, k) if c == 1 else mmck(load, service_s, c, k) for load in loads],
                [],
                [_COUNTED],
            )
        case "M/D/1/K":
            return [md1k(load, service_s, k) for load in loads], [], [_COUNTED]
        case "M/D/c":
            return [md1(load, service_s) if c == 1 else mdc(load, service_s, c) for load in loads], [], []
        case "M/M/c":
            if c == 1:
                return [mm1(load, service_s) for load in loads], [], []
            return [mmc(load, service_s, c) for load in loads], _apart(loads, service_s, c, quantiles), []
    spread = asked["service_scv"]
    if spread is None:
        raise ExperimentError(
            "missing value: expected the variation of G", where="--service-scv", advice="--service-scv 4"
        )
    if kind.written == "M/G/1":
        return [mg1(load, service_s, spread) for load in loads], [], []
    of_arrivals = asked["arrival_scv"]
    if queue.arrivals == "M" and of_arrivals != 1:
        raise ExperimentError(
            f"invalid value: {of_arrivals:g} with M; expected 1", where="--arrival-scv", advice="G/G/c"
        )
    bounds = [waiting_bounds_s(load, service_s, c, of_arrivals, spread) for load in loads]
    more: list[Row] = [{"waiting_least_s": low, "waiting_greatest_s": high} for low, high in bounds]
    return [ggc(load, service_s, c, of_arrivals, spread) for load in loads], more, []


def _apart(loads: list[float], service_s: float, servers: int, quantiles: Mapping[str, float]) -> list[Row]:
    """The same servers with a queue each: a model of CPUs that share one says nothing of CPUs with queues of their own."""
    results = [separate_queues(load, service_s, servers) for load in loads]
    return [
        {
            "waits_ratio": erlang_c(servers, load * service_s),
            "separate_response_time_s": one.response_time_s,
            **{f"separate_{name}_s": one.response_time_quantile_s(p) for name, p in quantiles.items()},
        }
        for load, one in zip(loads, results, strict=True)
    ]


def _closed(
    queue: Queue, service_s: float, asked: Mapping[str, Any]
) -> tuple[list[StationResult], list[Row], list[Row], list[str]]:
    """Clients that think and ask; with fewer places than clients some are turned away, and think again."""
    if (queue.clients is None) == (asked["population"] is None):
        raise ExperimentError("duplicate number of clients: the notation has one", where="--population")
    clients = (
        [queue.clients]
        if queue.clients is not None
        else options.whole(asked["population"] or (), "--population")
    )
    c, think_s = _servers(queue), asked["think_s"]
    first: list[Row] = [{"population": number} for number in clients]
    if queue.places is not None and queue.places < max(clients):
        return [engset(number, think_s, service_s, c, queue.places) for number in clients], first, [], []
    results = [mmcn(number, think_s, service_s, c) for number in clients]
    meet = saturation_population(service_s + think_s, service_s / c)
    more: list[Row] = [{"saturation_population": meet}] * len(clients)
    return (
        results,
        first,
        more,
        [f"N* = {three_digits(meet)} clients: (service + think time) / (service time / servers)."],
    )


def _fork_join(servers: int, service_s: float, asked: Mapping[str, Any]) -> list[StationResult]:
    if asked["utilisations"] is None and asked["rates"] is None:
        return [quorum_of(servers, service_s, asked["quorum"])]
    if asked["quorum"] is not None:
        raise ExperimentError(
            "found --quorum with a load: no formula is known for queues behind a quorum",
            where="--quorum",
            advice="leave out --utilisation and --rate",
        )
    # Every request asks all servers: each sees the whole rate.
    loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], service_s)
    return [fork_join(load, service_s, servers) for load in loads]


def _credits(
    number: int, frame_s: float, asked: Mapping[str, Any]
) -> tuple[list[StationResult], list[Row], list[str]]:
    """A line with credits: frames of one length wait for the line and for credits, and none is lost."""
    trip_s = round_trip_s(asked)
    most_per_s = credit_rate_per_s(number, frame_s, trip_s)
    loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], frame_s)
    results = [credit_flow(load, frame_s, trip_s, number) for load in loads]
    reach_km = covered_distance_m(number, frame_s) / 1000
    rule_km = covered_distance_m(number, frame_s, own_time=False) / 1000
    notes = [
        f"Round trip {scaled(trip_s, 's')}: {number} credits allow {scaled(most_per_s, 'per_s')},"
        f" {most_per_s * frame_s:.1%} of the line; {credits_for(frame_s, trip_s)} keep it busy.",
        f"{number} credits reach {three_digits(reach_km)} km ({three_digits(rule_km)} km by the rule that forgets the frame's own"
        " time).",
    ]
    return results, [{"most_per_s": most_per_s, "covered_distance_km": reach_km} for _ in results], notes


def _servers(queue: Queue) -> int:
    """Servers that a load is shared by; of any number, one."""
    return 1 if queue.servers is None else queue.servers


def round_trip_s(asked: Mapping[str, Any]) -> float:
    """--round-trip, or what --distance makes of it. Raises ExperimentError unless just one of them is there."""
    trip_s, distance_km = asked["round_trip_s"], asked["distance_km"]
    if (trip_s is None) == (distance_km is None):
        both = distance_km is not None
        what = (
            "--round-trip cannot be used with --distance"
            if both
            else "missing option --round-trip or --distance"
        )
        raise ExperimentError(what, advice="--distance 2")
    if distance_km is not None and not distance_km >= 0:
        raise ExperimentError(f"invalid value: {distance_km:g} km; expected 0 or more", where="--distance")
    return float(trip_s) if trip_s is not None else 2000 * distance_km / LIGHT_IN_FIBRE_M_PER_S
