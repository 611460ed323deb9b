"""A queue by simulation, for what has no formula: any laws, few places, credits, a tandem; every number with its interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from iodyno.analysis.queueing import random_times, simulation
from iodyno.analysis.queueing.simulation import Simulated
from iodyno.cli.form import show
from iodyno.cli.model import options
from iodyno.cli.model.calculated import round_trip_s
from iodyno.cli.model.notation import Queue
from iodyno.cli.workers import workers
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.report.form import Form
from iodyno.report.simulated_queue import simulated_queue

_LAWS = {"M": "exponential", "D": "constant"}


def show_simulated(
    queue: Queue,
    services: tuple[float, ...],
    quantiles: Mapping[str, float],
    form: Form,
    asked: Mapping[str, Any],
) -> None:
    """Prints what is simulated, each load by itself. Raises ExperimentError for what cannot be.

    How long to simulate is planned by Whitt's formula (1989) for the precision asked for; intervals are by batch means.
    """
    servers = 1 if queue.servers is None else queue.servers
    loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], max(services), servers)
    if not min(loads) > 0:
        option = "--rate" if asked["utilisations"] is None else "--utilisation"
        raise ExperimentError("expected loads above 0 with --simulate", where=option, advice=f"{option} .8")
    if queue.name == "tandem" and len(services) != len(queue.numbers):
        what = f"invalid value: {counted(len(services), 'time')} for {counted(len(queue.numbers), 'station')}; expected one each"
        raise ExperimentError(what, where="--service")
    laws = (
        _law("--arrival-law", queue.arrivals, asked["arrival_law"], queue),
        _law("--service-law", queue.service, asked["service_law"], queue),
    )
    wanted: dict[str, Any] = {
        "precision_ratio": _ratio(asked["precision"]),
        "percentiles": [100 * p for p in quantiles.values()],
        "seed": asked["seed"],
    }
    part = partial(
        _simulated, queue, services, laws, round_trip_s(asked) if queue.name == "credits" else 0.0, wanted
    )
    with workers(asked["cluster"]) as each:
        found = list(each(part, loads))
    show(simulated_queue(loads, found, asked["seed"]), form)


def _simulated(
    queue: Queue,
    services: Sequence[float],
    laws: tuple[str, str],
    round_trip: float,
    wanted: Mapping[str, Any],
    arrivals_per_s: float,
) -> Simulated:
    """Simulate one load."""
    arrivals = random_times.law(laws[0], 1 / arrivals_per_s)
    of_service = [random_times.law(laws[1], mean_s) for mean_s in services]
    if queue.name == "credits":
        return simulation.credits_station(
            arrivals, of_service[0], queue.numbers[0] or 0, round_trip, **wanted
        )
    if queue.name == "tandem":
        return simulation.tandem(arrivals, of_service, queue.numbers, **wanted)
    servers = 1 if queue.servers is None else queue.servers
    return simulation.station(arrivals, of_service[0], servers, queue.places, **wanted)


def _law(option: str, letter: str, written: str | None, queue: Queue) -> str:
    """The law of a letter; that of G is given, and systems with a name may have any."""
    if written is not None and (letter == "G" or queue.name):
        return written
    if written is not None:
        raise ExperimentError(
            f"can only be used with G, not with {letter}", where=option, advice="G in the notation"
        )
    if letter == "G":
        raise ExperimentError(
            "missing value: expected the law of G", where=option, advice=f"{option} 'lognormal(2)'"
        )
    return _LAWS[letter]


def _ratio(written: str) -> float:
    number = written.strip().removesuffix("%").strip()
    try:
        return float(number) / (100 if "%" in written else 1)
    except ValueError:
        raise ExperimentError(invalid(written, "a number"), where="--precision", advice="2%") from None
