"""A queue by simulation, for what has no formula: any laws, few places, credits, a tandem; every number with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from iodyno.analysis.queueing import random_times, simulation
from iodyno.analysis.queueing.simulation import Interval, Simulated
from iodyno.cli.form import show
from iodyno.cli.model import options
from iodyno.cli.model.calculated import round_trip_s
from iodyno.cli.model.notation import Queue
from iodyno.cli.workers import workers
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
    """Prints what is simulated, each load by itself. Raises ExperimentError for what cannot be.

    How long to simulate is planned by Whitt's formula (1989) for the precision asked for; intervals are by batch means.
    """
    servers = 1 if queue.servers is None else queue.servers
    loads = options.arrivals_per_s(asked["utilisations"], asked["rates"], max(services), servers)
    if not min(loads) > 0:
        option = "--rate" if asked["utilisations"] is None else "--utilisation"
        raise ExperimentError("expected loads above 0 with --simulate", where=option, advice=f"{option} .8")
    if queue.name == "tandem" and len(services) != len(queue.numbers):
        what = f"invalid value: {len(services)} times for {len(queue.numbers)} stations; expected one each"
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
    values = [_values(one, asked["seed"]) for one in found]
    if len(found) == 1:
        show(Shown(lambda: _blocks(found[0]), lambda: values[0], lambda: [_row(values[0])]), form)
        return
    values = [{"arrivals_per_s": load, **one} for load, one in zip(loads, values, strict=True)]
    show(
        Shown(lambda: _range_blocks(loads, found), lambda: {"rows": values}, lambda: map(_row, values)), form
    )


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


def _named(found: Simulated) -> list[tuple[str, Interval, str]]:
    rows = [(what, getattr(found, name), unit) for name, what, unit in _SHOWN]
    return rows + [(f"response time, p{p:g}", interval, "s") for p, interval in found.quantiles_s.items()]


def _blocks(found: Simulated) -> Iterator[Block]:
    cells = [(what, *_shown(interval, unit)) for what, interval, unit in _named(found)]
    columns = (Column(""), Column("", right=True), Column("95 % interval"))
    yield Table("", columns, tuple(tuple(map(Cell, each)) for each in cells))
    yield f"95 % intervals; {found.method}"
    if not found.precise:
        yield "warning: the intervals are wider than asked for: this load needs longer runs than are made"


def _range_blocks(loads: Sequence[float], found: Sequence[Simulated]) -> Iterator[Block]:
    """Yield a row for each load."""
    heads = ("arrivals", *(what for what, _, _ in _named(found[0])))
    rows = (
        (f"{load:.5g}/s", *(" ".join(_shown(interval, unit)) for _, interval, unit in _named(one)))
        for load, one in zip(loads, found, strict=True)
    )
    yield Table("", tuple(map(Column, heads)), tuple(tuple(map(Cell, row)) for row in rows))
    yield f"95 % intervals; {found[0].method.partition(';')[0]}"
    if wide := [f"{load:.5g}/s" for load, one in zip(loads, found, strict=True) if not one.precise]:
        yield f"warning: the intervals at {', '.join(wide)} are wider than asked for: longer runs are not made"


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
