"""Results of models as rows: one JSON object, or a table for people. Times are in seconds, and in the table scaled."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from iodyno.analysis.queueing.station import StationResult

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
_SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "per_s": ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
}


def station_row(result: StationResult, quantiles: Mapping[str, float]) -> dict[str, Any]:
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


def show_stations(
    results: Sequence[StationResult],
    quantiles: Mapping[str, float],
    as_json: bool,
    *,
    first: Sequence[Row] = (),
    more: Sequence[Row] = (),
    notes: Sequence[str] = (),
) -> None:
    """Prints a row for each load.

    `first`, `more`: further columns, row by row, before and after the station's own; `notes`: what stands under the table.
    """
    own = [station_row(result, quantiles) for result in results]
    rows = [dict(row) | part for row, part in zip(first or [{}] * len(own), own, strict=True)]
    for row, extra in zip(rows, more, strict=False):
        row.update(extra)
    top = results[0]
    said = [*notes]
    if any(result.missing for result in results):
        said.append(next(result.missing for result in results if result.missing))
    if as_json:
        head = {
            "model": top.model,
            "exact": top.method.exact,
            "method": top.method.source,
            "percentiles_exact": (top.time_method or top.method).exact,
            "percentiles_method": (top.time_method or top.method).source,
            "servers": top.servers,
            "service_time_s": top.service_time_s,
            "notes": said,
        }
        show_json(head, rows)
        return
    title = f"{top.model}, service {scaled(top.service_time_s, 's')}"
    method = [f"Means: {top.method}."]
    if top.time_method:
        method.append(f"Percentiles: {top.time_method}.")
    show_table(title, rows, [" ".join(method), *said])


def show_json(head: Row, rows: Sequence[Row]) -> None:
    """Prints one object: what holds for all rows, and the rows."""
    # allow_nan: a NaN is a defect, and is to be seen as one.
    click.echo(json.dumps({**head, "rows": list(rows)}, indent=2, allow_nan=False))


def show_table(title: str, rows: Sequence[Row], notes: Sequence[str] = ()) -> None:
    """Prints rows with a unit for each column; columns in which no row has a value are left out."""
    names = [name for name in rows[0] if any(row.get(name) is not None for row in rows)]
    for twin, of in _TWINS.items():
        if twin in names and all(row.get(twin) == row.get(of) for row in rows):
            names.remove(twin)
    columns = [_column(name, [row.get(name) for row in rows]) for name in names]
    click.echo(title)
    for line in _lines(columns):
        click.echo(line)
    for note in notes:
        click.echo(note)


def scaled(value: float, suffix: str) -> str:
    """A number of seconds or per second in a unit that fits it, four digits: `127 us`."""
    factor, unit = _scale(abs(value), suffix)
    return f"{value / factor:.4g} {unit}"


def _lines(columns: Sequence[Sequence[str]]) -> list[str]:
    """Aligned lines; on a terminal that is too narrow for them, a line for each column."""
    lines = _aligned([*zip(*columns, strict=True)])
    if not sys.stdout.isatty() or max(map(len, lines)) <= shutil.get_terminal_size().columns:
        return lines
    return _aligned(columns)


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in lines
    )
    return [line.rstrip() for line in padded]


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
        return f"{value / factor:.4g}"
    return str(value)


def _scale(largest: float, suffix: str) -> tuple[float, str]:
    scales = _SCALES[suffix]
    return next(
        ((factor, unit) for factor, unit in scales if largest >= factor), scales[-1] if largest else scales[0]
    )
