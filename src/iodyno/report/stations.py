"""Results of queues as rows. Times are in seconds, and in the table for people scaled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iodyno.analysis.queueing.station import StationResult
from iodyno.core.quantity import counted
from iodyno.report.form import Block, Shown
from iodyno.report.numbers import three_digits
from iodyno.report.table import Cell, Column, Table

Row = Mapping[str, Any]

_HEADS = {
    "offered_utilisation": "offered",
    "utilisation": "utilisation",
    "arrival_rate_per_s": "arrivals",
    "throughput_per_s": "throughput",
    "blocking_ratio": "lost",
    "response_time_s": "response",
    "waiting_time_s": "waiting",
    "queue_length": "queue",
    "number_in_system": "in system",
}
_TWINS = {"offered_utilisation": "utilisation", "arrival_rate_per_s": "throughput_per_s"}
"""Columns that a table leaves out where they say the same as another one."""
_HIDDEN = ("saturation_population",)
"""Columns that a note under the table tells."""
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "per_s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
}


def _station_row(result: StationResult, quantiles: Mapping[str, float]) -> dict[str, Any]:
    """A station's numbers under their names with units; null is what a model does not have."""
    row: dict[str, Any] = {
        "offered_utilisation": result.offered_utilisation,
        "utilisation": result.utilisation,
        "arrival_rate_per_s": result.arrival_rate_per_s,
        "throughput_per_s": result.throughput_per_s,
        "blocking_ratio": result.blocking_ratio,
        "response_time_s": result.response_time_s,
        "waiting_time_s": result.waiting_time_s,
        "queue_length": result.queue_length,
        "number_in_system": result.number_in_system,
    }
    row |= {f"{name}_s": result.response_time_quantile_s(p) for name, p in quantiles.items()}
    row |= {f"waiting_{name}_s": result.waiting_time_quantile_s(p) for name, p in quantiles.items()}
    return row


def stations(
    results: Sequence[StationResult],
    quantiles: Mapping[str, float],
    *,
    first: Sequence[Row] = (),
    more: Sequence[Row] = (),
    notes: Sequence[str] = (),
) -> Shown:
    """Return a row for each load.

    `first`, `more`: further columns, row by row, before and after the station's own; `notes`: what stands under the table.
    """
    own = [_station_row(result, quantiles) for result in results]
    rows = [dict(row) | part for row, part in zip(first or [{}] * len(own), own, strict=True)]
    for row, extra in zip(rows, more, strict=False):
        row.update(extra)
    top = results[0]
    said = [*notes]
    if any(result.missing for result in results):
        said.append(next(result.missing for result in results if result.missing))

    def values() -> dict[str, Any]:
        return {
            "model": top.model,
            "exact": top.method.exact,
            "method": top.method.source,
            "percentiles_exact": (top.time_method or top.method).exact,
            "percentiles_method": (top.time_method or top.method).source,
            "servers": top.servers,
            "service_time_s": top.service_time_s,
            "notes": said,
            "rows": rows,
        }

    def blocks() -> Iterator[Block]:
        yield _answer(rows, quantiles) + "\n"
        yield _table(f"{top.model}, service {scaled(top.service_time_s, 's')}", rows)
        yield " ".join(
            [f"Means: {top.method}.", *([f"Percentiles: {top.time_method}."] if top.time_method else [])]
        )
        yield from said

    return Shown(blocks, values, lambda: ({"model": top.model, **row} for row in rows))


def _answer(rows: Sequence[Row], quantiles: Mapping[str, float]) -> str:
    """State what a request takes at the load, or how that changes from the first load to the last."""
    ends = rows[:1] if len(rows) == 1 else (rows[0], rows[-1])

    def said(name: str, key: str, unit: str) -> str:
        values = [row.get(key) for row in ends]
        if any(value is None for value in values) or not any(values):
            return ""
        if unit == "%":
            shown = [f"{three_digits(100 * float(value or 0.0))} %" for value in values]
        else:
            shown = [scaled(float(value or 0.0), unit) for value in values]
        if len(shown) == 1:
            return f"{name} is {shown[0]}"
        return (
            f"{name} stays {shown[0]}"
            if shown[0] == shown[1]
            else f"{name} goes from {shown[0]} to {shown[1]}"
        )

    longest = max(quantiles, key=quantiles.__getitem__, default="")
    parts = [
        said("throughput", "throughput_per_s", "per_s") if "population" in ends[0] else "",
        said("the mean response time", "response_time_s", "s"),
        said(f"its {longest}", f"{longest}_s", "s") if longest else "",
        said("the share lost", "blocking_ratio", "%"),
    ]
    loads = [_load_of(row) for row in ends]
    where = f"At {loads[0]}" if len(loads) == 1 else f"From {loads[0]} to {loads[1]}"
    return f"{where} {', '.join(filter(None, parts))}."


def _load_of(row: Row) -> str:
    if "population" in row:
        return counted(row["population"], "client")
    offered = row.get("offered_utilisation")
    if offered is None:
        return scaled(row.get("arrival_rate_per_s") or 0.0, "per_s")
    return f"{100 * offered:.10g} % utilisation"


def _table(title: str, rows: Sequence[Row]) -> Table:
    """Return rows with a unit for each column; columns in which no row has a value are left out."""
    names = [
        name for name in rows[0] if any(row.get(name) is not None for row in rows) and name not in _HIDDEN
    ]
    for twin, of in _TWINS.items():
        if twin in names and all(row.get(twin) == row.get(of) for row in rows):
            names.remove(twin)
    columns = [_column(name, [row.get(name) for row in rows]) for name in names]
    if names[0] in ("offered_utilisation", "utilisation"):
        # A load stays as it was typed: .999999 is no 1.
        columns[0][2:] = [f"{row[names[0]]:.10g}" for row in rows]
    heads = tuple(Column(unit, head, right=True) for head, unit, *_ in columns)
    cells = [tuple(map(Cell, line)) for line in zip(*(column[2:] for column in columns), strict=True)]
    return Table(title, heads, tuple(cells))


def scaled(value: float, suffix: str) -> str:
    """A number of seconds or per second in a unit that fits it, three digits: `127 us`."""
    factor, unit = _scale(abs(value), suffix)
    return f"{three_digits(value / factor)} {unit}".replace(" /s", "/s")


def _column(name: str, values: Sequence[Any]) -> list[str]:
    suffix = "per_s" if name.endswith("_per_s") else "s" if name.endswith("_s") else ""
    base = name.removesuffix(f"_{suffix}") if suffix else name
    head = _HEADS.get(name, base.removesuffix("_ratio").replace("_", " "))
    numbers = [value for value in values if isinstance(value, int | float)]
    factor, unit = _scale(max(map(abs, numbers), default=0.0), suffix) if suffix else (1.0, "")
    if name.endswith("_ratio"):
        factor, unit = 0.01, "%"
    return [head, unit, *(_text(value, factor) for value in values)]


def _text(value: Any, factor: float) -> str:
    if value is None:
        return "-"
    if isinstance(value, float) or factor != 1.0:
        return three_digits(value / factor)
    return str(value)


def _scale(largest: float, suffix: str) -> tuple[float, str]:
    scales = _SCALES[suffix]
    return next(
        ((factor, unit) for factor, unit in scales if largest >= factor), scales[-1] if largest else scales[0]
    )
