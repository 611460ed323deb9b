"""A solved network as text: inputs, classes, stations, bounds; and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from iodyno.analysis.queueing.networks.bounds import Bounds
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.core.network import ClosedClass, Network, OpenClass
from iodyno.report.form import Block, Row, Shown, block_text
from iodyno.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from iodyno.analysis.queueing.networks.simulated import Percentiles
    from iodyno.analysis.queueing.simulation import Interval

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
NONE = "–"


def time_text(value_s: float | None) -> str:
    """A time with three digits in the unit that suits it."""
    if value_s is None:
        return NONE
    if value_s == 0:
        return "0 s"
    # Rounded first: 999.6 us is 1.00 ms.
    size = float(f"{abs(value_s):.3g}")
    factor, unit = next(((f, u) for f, u in _TIMES if size >= f * (1 - 1e-12)), _TIMES[-1])
    return f"{_digits(value_s / factor)} {unit}"


def number_text(value: float | None) -> str:
    """A number with three digits."""
    return NONE if value is None else _digits(value)


def rate_text(value_per_s: float | None, unit: str = "") -> str:
    """A rate with three digits, `12.3/s`; with a unit of work `12.3 IOS/s`."""
    return NONE if value_per_s is None else f"{_digits(value_per_s)}{f' {unit}' if unit else ''}/s"


def percent_text(ratio: float | None) -> str:
    """A ratio in per cent."""
    return NONE if ratio is None else f"{_digits(100 * ratio)} %"


def _digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    return f"{value:.2e}" if places < -7 or places > 8 else f"{round(value, places):.{max(places, 0)}f}"


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return columns of text: the first to the left, the others to the right."""
    columns = (Column(head, right=at > 0) for at, head in enumerate(heads))
    return Table(title, tuple(columns), tuple(tuple(map(Cell, row)) for row in rows))


def report(solution: Solution, limits: Sequence[Bounds], work: str = "") -> str:
    """The whole of it, for people."""
    return "".join(map(block_text, report_blocks(solution, limits, work))).rstrip("\n") + "\n"


def report_blocks(solution: Solution, limits: Sequence[Bounds], work: str = "") -> Iterator[Block]:
    """Yield what the network does, then what it is made of, and its bounds."""
    network = solution.network
    yield f"{network.name}: {answer(solution, work)}\nMethod: {method_text(solution)}.\n"
    yield _inputs(network, work)
    yield _classes(solution, work)
    yield _stations(solution)
    if len(network.classes) > 1:
        yield _shares(solution)
    yield _bounds(limits, work)
    for note in solution.notes:
        yield f"note: {note}\n"


def answer(solution: Solution, work: str = "") -> str:
    """State what each class gets, and which station is the busiest."""
    classes = "; ".join(
        f"{c.name} {rate_text(c.throughput_per_s, work)}, {time_text(c.response_time_s)} each"
        for c in solution.classes
    )
    busiest = _busiest(solution)
    return f"{classes}; {busiest}." if busiest else f"{classes}."


def _busiest(solution: Solution) -> str:
    busy = {s.name: s.utilisation_ratio for s in solution.stations if s.utilisation_ratio is not None}
    if not busy:
        return ""
    name = max(busy, key=lambda each: busy[each])
    return f"the busiest station is {name}, at {percent_text(busy[name])}"


def method_text(solution: Solution) -> str:
    """State whether the numbers are exact, and whose method it was."""
    method = solution.method
    return f"{'exact' if method.exact else 'approximate'}, by {method.name} ({method.source})"


def _inputs(network: Network, work: str) -> Table:
    heads = ["class", "load", "think", *(s.name for s in network.stations)]
    rows = []
    for c in network.classes:
        load = rate_text(c.rate_per_s, work) if isinstance(c, OpenClass) else f"{c.population} jobs"
        think = time_text(c.think_time_s) if isinstance(c, ClosedClass) else NONE
        demands = []
        for s in network.stations:
            demand = network.demands.get(c.name, {}).get(s.name)
            once = demand is not None and demand.visits == 1
            demands.append(
                NONE
                if demand is None
                else time_text(demand.service_time_s)
                if once
                else f"{demand.visits:g} x {time_text(demand.service_time_s)}"
            )
        rows.append([c.name, load, think, *demands])
    kinds = ["", "", "", *(_kind(s.kind, s.servers, s.discipline) for s in network.stations)]
    return table("Inputs", heads, [kinds, *rows])


def _kind(kind: str, servers: int, discipline: str) -> str:
    if kind == "delay":
        return "delay"
    return f"{servers} x {discipline}" if servers > 1 else discipline


def _classes(solution: Solution, work: str) -> Table:
    return table(
        "Classes",
        ["class", "throughput", "response time", "jobs in the network"],
        [
            [c.name, rate_text(c.throughput_per_s, work), time_text(c.response_time_s), number_text(c.number_in_system)]
            for c in solution.classes
        ],
    )  # fmt: skip


def _stations(solution: Solution) -> Table:
    """With one class, its residence times too; with several they have a table of their own."""
    only = solution.classes[0].at if len(solution.classes) == 1 else None
    heads = ["station", "utilisation", "jobs there", *(["residence"] if only is not None else [])]
    rows = []
    for s in solution.stations:
        row = [s.name, percent_text(s.utilisation_ratio), number_text(s.queue_length)]
        if only is not None:
            row.append(time_text(only[s.name].residence_time_s) if s.name in only else NONE)
        rows.append(row)
    return table("Stations", heads, rows)


def _shares(solution: Solution) -> Table:
    rows = [
        [
            f"{c.name} at {name}",
            time_text(share.residence_time_s),
            percent_text(share.utilisation_ratio),
            number_text(share.queue_length),
        ]
        for c in solution.classes
        for name, share in c.at.items()
    ]
    return table("Residence by class and station", ["", "residence", "utilisation", "jobs there"], rows)


def _bounds(limits: Sequence[Bounds], work: str) -> Table:
    rows = [
        [
            b.name,
            b.bottleneck or NONE,
            rate_text(b.throughput_least_per_s, work),
            rate_text(b.throughput_most_per_s, work),
            _range(b, work),
            time_text(b.response_least_s),
            NONE if b.saturation_population is None else f"{number_text(b.saturation_population)} jobs",
        ]
        for b in limits
    ]
    heads = ["class", "bottleneck", "rate at least", "at most", "balanced jobs", "response at least", "N*"]
    return table("Bounds", heads, rows)


def _range(b: Bounds, work: str) -> str:
    if b.balanced_throughput_least_per_s is None:
        return NONE
    return f"{number_text(b.balanced_throughput_least_per_s)} to {rate_text(b.balanced_throughput_most_per_s, work)}"


def percentile_blocks(
    simulated: Sequence[Percentiles], what: str = "", loads: Sequence[str] = ()
) -> Iterator[Block]:
    """Yield simulated response times, each with its 95 % interval; of several loads with what it is and that of each row."""

    def cell(found: Interval) -> str:
        return f"{time_text(found.value)} [{time_text(found.low)}, {time_text(found.high)}]"

    heads = [
        *filter(None, [what]),
        "class",
        "jobs",
        "mean",
        *(f"p{percent:g}" for percent in simulated[0].quantiles_s),
    ]
    rows = [
        [*load, c.name, str(c.jobs), cell(c.response_time_s), *map(cell, c.quantiles_s.values())]
        for load, c in zip([[load] for load in loads] or [[]] * len(simulated), simulated, strict=True)
    ]
    yield table("Response time by simulation, 95 % intervals by batches", heads, rows)
    yield "note: jobs pass the stations in the order of the model, with exponential service times"


def class_rows(solution: Solution, simulated: Sequence[Percentiles] = ()) -> Iterator[Row]:
    """Yield a row for each class: what it does, and how busy each station is."""
    busy = {f"{s.name}_utilisation": s.utilisation_ratio for s in solution.stations}
    for each in values(solution, (), simulated)["classes"]:
        each.pop("stations")
        times = {name: each.pop(name) for name, value in list(each.items()) if isinstance(value, dict)}
        row = {"model": solution.network.name, "class": each.pop("name"), **each}
        for name, found in times.items():
            row |= {name: found["value"], f"{name}_low": found["low"], f"{name}_high": found["high"]}
        yield row | busy


def values(
    solution: Solution, limits: Sequence[Bounds], simulated: Sequence[Percentiles] = ()
) -> dict[str, Any]:
    """The solution as JSON has it: seconds, 1/s and ratios; null where there is none."""
    of_class = {
        c.name: {f"p{percent:g}_s": asdict(found) for percent, found in c.quantiles_s.items()}
        for c in simulated
    }
    network = solution.network
    loads = {
        c.name: {"kind": "open", "rate_per_s": c.rate_per_s}
        if isinstance(c, OpenClass)
        else {"kind": "closed", "population": c.population, "think_time_s": c.think_time_s}
        for c in network.classes
    }
    return {
        "method": asdict(solution.method),
        "classes": [
            {
                "name": c.name,
                **loads[c.name],
                "throughput_per_s": c.throughput_per_s,
                "response_time_s": c.response_time_s,
                "number_in_system": c.number_in_system,
                **of_class.get(c.name, {}),
                "stations": {name: asdict(share) for name, share in c.at.items()},
            }
            for c in solution.classes
        ],
        "stations": [
            {"kind": s.kind, "servers": s.servers, **asdict(found)}
            for s, found in zip(network.stations, solution.stations, strict=True)
        ],
        "bounds": [asdict(b) for b in limits],
        "notes": list(solution.notes),
    }


def network_solved(
    solution: Solution, limits: Sequence[Bounds], simulated: Sequence[Percentiles] = ()
) -> Shown:
    """Return a network at one load."""
    return Shown(
        blocks=lambda: (
            *report_blocks(solution, limits),
            *(percentile_blocks(simulated) if simulated else ()),
        ),
        values=lambda: {"model": solution.network.name, "rows": [values(solution, limits, simulated)]},
        rows=lambda: class_rows(solution, simulated),
    )


def network_swept(
    solutions: Sequence[Solution],
    limits: Sequence[Sequence[Bounds]],
    simulated: Sequence[Sequence[Percentiles]],
    swept: str,
    what: str,
) -> Shown:
    """Return a network at several loads: `what`, population or rate, of the class `swept`."""
    rows = list(zip(solutions, limits, simulated, strict=True))
    return Shown(
        blocks=lambda: _sweep(rows, swept, what),
        values=lambda: {"model": solutions[0].network.name, "rows": [values(*row) for row in rows]},
        rows=lambda: (row for solution, _, found in rows for row in class_rows(solution, found)),
    )


def _sweep(
    points: Sequence[tuple[Solution, Sequence[Bounds], Sequence[Percentiles]]], swept: str, what: str
) -> Iterator[Block]:
    heads = [what]
    first = points[0][0]
    several = len(first.classes) > 1
    for c in first.classes:
        of = f"{c.name} " if several else ""
        heads += [f"{of}throughput", f"{of}response"]
    heads += [f"at most ({swept})"]
    heads += [f"{s.name} busy" for s in first.stations if s.utilisation_ratio is not None]
    rows = []
    for solution, of_load, _ in points:
        entry = next(c for c in solution.network.classes if c.name == swept)
        row = [str(entry.population) if isinstance(entry, ClosedClass) else rate_text(entry.rate_per_s)]
        for found in solution.classes:
            row += [rate_text(found.throughput_per_s), time_text(found.response_time_s)]
        limit = next(b for b in of_load if b.name == swept)
        row.append(rate_text(limit.throughput_most_per_s))
        row += [
            percent_text(s.utilisation_ratio) for s in solution.stations if s.utilisation_ratio is not None
        ]
        rows.append(row)
    last, of_last, _ = points[-1]
    knee = next(b for b in of_last if b.name == swept).saturation_population
    one, other = (next(c for c in each.classes if c.name == swept) for each in (first, last))
    yield (
        f"{first.network.name}: from {rows[0][0]} to {rows[-1][0]}{' jobs' if what == 'population' else ''} of {swept} its "
        f"throughput goes from {rate_text(one.throughput_per_s)} to {rate_text(other.throughput_per_s)}, its response time from "
        f"{time_text(one.response_time_s)} to {time_text(other.response_time_s)}; at the last {_busiest(last)}.\n"
    )
    yield table(f"By {what} of {swept}, {method_text(last)}", heads, rows)
    if knee is not None:
        yield f"N* = {number_text(knee)} jobs of {swept}: from there on, jobs are sure to wait for each other"
    for note in last.notes:
        yield f"note: {note}"
    if every := [found for *_, simulated in points for found in simulated]:
        loads = [row[0] for row, (*_, simulated) in zip(rows, points, strict=True) for _ in simulated]
        yield from percentile_blocks(every, what, loads)
