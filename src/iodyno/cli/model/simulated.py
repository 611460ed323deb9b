"""A queue by simulation, for what has no formula: any laws, few places, credits, a tandem; every number with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iodyno.analysis.queueing import random_times, simulation
from iodyno.analysis.queueing.simulation import Interval, Simulated
from iodyno.cli.form import show
from iodyno.cli.model import options
from iodyno.cli.model.calculated import round_trip_s
from iodyno.cli.model.notation import Queue
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.report.form import Block, Form, Row, Shown
from iodyno.report.table import Cell, Column, Table

_SHOWN = (
    ("throughput_per_s", "throughput", "/s"),
    ("blocking_ratio", "turned away", "%"),
    ("utilisation", "utilisation", "%"),
    ("waiting_time_s", "mean waiting time", "s"),
    ("response_time_s", "mean response time", "s"),
    ("number_in_system", "mean number in system", ""),
)
_LAWS = {"M": "exponential", "D": "constant"}


def show_simulated(
    queue: Queue,
    services: tuple[float, ...],
    quantiles: Mapping[str, float],
    form: Form,
    asked: Mapping[str, Any],
) -> None:
    """Prints what is simulated, at one load. Raises ExperimentError for what cannot be.

    How long to simulate is planned by Whitt's formula (1989) for the precision asked for; intervals are by batch means.
    """
    servers = 1 if queue.servers is None else queue.servers
    loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], max(services), servers)
    if len(loads) != 1 or not loads[0] > 0:
        option = "--rate" if asked["utilisations"] is None else "--utilisation"
        raise ExperimentError(
            "expected one load above 0 with --simulate", where=option, advice=f"{option} .8"
        )
    arrivals = random_times.law(
        _law("--arrival-law", queue.arrivals, asked["arrival_law"], queue), 1 / loads[0]
    )
    law = _law("--service-law", queue.service, asked["service_law"], queue)
    of_service = [random_times.law(law, mean_s) for mean_s in services]
    wanted: dict[str, Any] = {
        "precision_ratio": _ratio(asked["precision"]),
        "percentiles": [100 * p for p in quantiles.values()],
        "seed": asked["seed"],
    }
    if queue.name == "credits":
        number = queue.numbers[0] or 0
        found = simulation.credits_station(arrivals, of_service[0], number, round_trip_s(asked), **wanted)
    elif queue.name == "tandem":
        if len(services) != len(queue.numbers):
            what = (
                f"invalid value: {len(services)} times for {len(queue.numbers)} stations; expected one each"
            )
            raise ExperimentError(what, where="--service")
        found = simulation.tandem(arrivals, of_service, queue.numbers, **wanted)
    else:
        found = simulation.station(arrivals, of_service[0], servers, queue.places, **wanted)
    values = _values(found, asked["seed"])
    show(Shown(lambda: _blocks(found), lambda: values, lambda: [_row(values)]), form)


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


def _values(found: Simulated, seed: int) -> dict[str, Any]:
    def bounds(interval: Interval) -> dict[str, float]:
        return {"value": interval.value, "low": interval.low, "high": interval.high}

    shown: dict[str, Any] = {name: bounds(getattr(found, name)) for name, _, _ in _SHOWN}
    shown |= {f"p{p:g}_s": bounds(interval) for p, interval in found.quantiles_s.items()}
    return shown | {
        "arrivals": found.arrivals,
        "seed": seed,
        "precise": found.precise,
        "method": found.method,
    }


def _row(values: Mapping[str, Any]) -> Row:
    """Return the values as a line of CSV, the bounds of each beside it."""
    row: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            row |= {name: value["value"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            row[name] = value
    return row


def _blocks(found: Simulated) -> Iterator[Block]:
    rows = [(what, getattr(found, name), unit) for name, what, unit in _SHOWN]
    rows += [(f"response time, p{p:g}", interval, "s") for p, interval in found.quantiles_s.items()]
    cells = [(what, *_shown(interval, unit)) for what, interval, unit in rows]
    columns = (Column(""), Column("", right=True), Column("95 % interval"))
    yield Table("", columns, tuple(tuple(map(Cell, each)) for each in cells))
    yield f"95 % intervals; {found.method}"
    if not found.precise:
        yield "warning: the intervals are wider than asked for: this load needs longer runs than are made"


def _shown(interval: Interval, unit: str) -> tuple[str, str]:
    factor, name = 1.0, unit
    if unit == "%":
        factor, name = 100.0, " %"
    elif unit == "s":
        factor, name = next(
            (scale, f" {short}")
            for scale, short, least in (
                (1.0, "s", 1.0),
                (1e3, "ms", 1e-3),
                (1e6, "us", 1e-6),
                (1e9, "ns", 0.0),
            )
            if interval.value >= least
        )
    low, value, high = (f"{bound * factor:.5g}" for bound in (interval.low, interval.value, interval.high))
    return f"{value}{name}", f"[{low}, {high}]"
