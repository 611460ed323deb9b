"""A solved network as text: inputs, classes, stations, bounds; and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from iodyno.analysis.queueing.networks.bounds import Bounds
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.core.network import ClosedClass, Network, OpenClass

if TYPE_CHECKING:
    from iodyno.analysis.queueing.networks.simulated import Percentiles
    from iodyno.analysis.queueing.simulation import Interval

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
NONE = "–"


def time_text(value_s: float | None) -> str:
    """A time with four digits in the unit that suits it."""
    if value_s is None:
        return NONE
    if value_s == 0:
        return "0 s"
    # Rounded first: 999.96 us is 1.000 ms.
    size = float(f"{abs(value_s):.4g}")
    factor, unit = next(((f, u) for f, u in _TIMES if size >= f * (1 - 1e-12)), _TIMES[-1])
    return f"{_digits(value_s / factor)} {unit}"


def number_text(value: float | None) -> str:
    """A number with four digits."""
    return NONE if value is None else _digits(value)


def rate_text(value_per_s: float | None, unit: str = "") -> str:
    """A rate with four digits, `12.34/s`; with a unit of work `12.34 IOS/s`."""
    return NONE if value_per_s is None else f"{_digits(value_per_s)}{f' {unit}' if unit else ''}/s"


def percent_text(ratio: float | None) -> str:
    """A ratio in per cent."""
    return NONE if ratio is None else f"{_digits(100 * ratio)} %"


def _digits(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    places = 3 - math.floor(math.log10(abs(float(f"{value:.4g}"))))
    return f"{value:.3e}" if places < -6 or places > 9 else f"{value:.{max(places, 0)}f}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns: the first to the left, the others to the right."""
    lines = [heads, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def report(solution: Solution, limits: Sequence[Bounds], work: str = "") -> str:
    """The whole of it, for people."""
    network = solution.network
    parts = [
        f"{network.name}: {method_text(solution)}",
        "Inputs\n" + _inputs(network, work),
        "Classes\n" + _classes(solution, work),
        "Stations\n" + _stations(solution),
    ]
    if len(network.classes) > 1:
        parts.append("Residence by class and station\n" + _shares(solution))
    parts.append("Bounds\n" + _bounds(limits, work))
    parts += [f"note: {note}" for note in solution.notes]
    return "\n\n".join(parts) + "\n"


def method_text(solution: Solution) -> str:
    """State whether the numbers are exact, and whose method it was."""
    method = solution.method
    return f"{'exact' if method.exact else 'approximate'}, by {method.name} ({method.source})"


def _inputs(network: Network, work: str) -> str:
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
    return table(heads, [kinds, *rows])


def _kind(kind: str, servers: int, discipline: str) -> str:
    if kind == "delay":
        return "delay"
    return f"{servers} x {discipline}" if servers > 1 else discipline


def _classes(solution: Solution, work: str) -> str:
    return table(
        ["class", "throughput", "response time", "jobs in the network"],
        [
            [c.name, rate_text(c.throughput_per_s, work), time_text(c.response_time_s), number_text(c.number_in_system)]
            for c in solution.classes
        ],
    )  # fmt: skip


def _stations(solution: Solution) -> str:
    """With one class, its residence times too; with several they have a table of their own."""
    only = solution.classes[0].at if len(solution.classes) == 1 else None
    heads = ["station", "utilisation", "jobs there", *(["residence"] if only is not None else [])]
    rows = []
    for s in solution.stations:
        row = [s.name, percent_text(s.utilisation_ratio), number_text(s.queue_length)]
        if only is not None:
            row.append(time_text(only[s.name].residence_time_s) if s.name in only else NONE)
        rows.append(row)
    return table(heads, rows)


def _shares(solution: Solution) -> str:
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
    return table(["", "residence", "utilisation", "jobs there"], rows)


def _bounds(limits: Sequence[Bounds], work: str) -> str:
    rows = [
        [
            b.name,
            b.bottleneck or NONE,
            rate_text(b.throughput_least_per_s, work),
            rate_text(b.throughput_most_per_s, work),
            _range(b, work),
            time_text(b.response_least_s),
            NONE if b.saturation_population is None else f"{b.saturation_population:.4g} jobs",
        ]
        for b in limits
    ]
    heads = ["class", "bottleneck", "rate at least", "at most", "balanced jobs", "response at least", "N*"]
    return table(heads, rows)


def _range(b: Bounds, work: str) -> str:
    if b.balanced_throughput_least_per_s is None:
        return NONE
    return f"{number_text(b.balanced_throughput_least_per_s)} to {rate_text(b.balanced_throughput_most_per_s, work)}"


def percentiles_text(simulated: Sequence[Percentiles]) -> str:
    """Simulated response times, each with its 95 % interval."""

    def cell(found: Interval) -> str:
        return f"{time_text(found.value)} [{time_text(found.low)}, {time_text(found.high)}]"

    heads = ["class", "jobs", "mean", *(f"p{percent:g}" for percent in simulated[0].quantiles_s)]
    rows = [
        [c.name, str(c.jobs), cell(c.response_time_s), *map(cell, c.quantiles_s.values())] for c in simulated
    ]
    return (
        f"Response time by simulation, 95 % intervals by batches\n{table(heads, rows)}\n"
        "note: jobs pass the stations in the order of the model, with exponential service times"
    )


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
