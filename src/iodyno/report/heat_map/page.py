"""The page of a heat map: one file that needs no network, complete without scripts, with what a picture alone cannot hold.

The map, what was found in it, the histogram (zoom, one column, animation over the columns), the cumulative curve to
99.9999 %, and a
table of the columns for who reads with a screen reader or a calculator.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from math import isinf
from typing import Any

from iodyno.core.grid import Grid
from iodyno.report.heat_map import axis, svg
from iodyno.report.heat_map.distribution import cumulative, histogram, outliers
from iodyno.report.heat_map.layout import Look, frame_of, lay_out, readable
from iodyno.report.heat_map.picture import Picture

MOST_ROWS = 1000
"""Columns in the table (chosen: more are no table that anybody reads; the JSON has all)."""


def page(
    grid: Grid,
    quantiles: Mapping[str, Sequence[float | None]],
    look: Look,
    said: Sequence[str],
    curve: Sequence[tuple[float, float]],
) -> str:
    """The whole page. `curve`: (value, share of events at or below it), ascending, as `analysis.heat_map.curve` has it."""
    picture = lay_out(grid, quantiles, look)
    title = picture.title
    found = "".join(f"<li>{escape(line)}</li>" for line in said)
    notes = "".join(f"<li>{escape(readable(line))}</li>" for line in (*grid.notes, *_unreadable(grid)))
    far = outliers(grid, look)
    beyond = svg.draw(far) if far is not None else ""
    script = svg.script() + _script()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{svg.style()}{_style()}</style></head><body>'
        f"<main><h1>{escape(title)}</h1>"
        f'<section aria-label="heat map">{svg.draw(picture, svg.script_data(grid))}</section>'
        f'<section><h2>What is in it</h2><ul class="found">{found}</ul></section>'
        f'<section><h2>Histogram</h2><div class="hm-histogram">{svg.draw(histogram(grid, look))}</div>{beyond}</section>'
        f"<section><h2>Cumulative</h2>{svg.draw(cumulative(grid, curve, look))}</section>"
        f"<details><summary>Table of the columns</summary>{_table(grid, quantiles)}</details>"
        + (f'<section><h2>Notes</h2><ul class="found">{notes}</ul></section>' if notes else "")
        + f"</main><script>{script}</script></body></html>\n"
    )


def pages(pictures: Sequence[tuple[Picture, Mapping[str, Any] | None]], said: Sequence[Sequence[str]]) -> str:
    """A page of several pictures, each with its data for the script (None: it does not answer) and with what was found in it."""
    script = svg.script()
    parts = []
    for (picture, data), lines in zip(pictures, said, strict=True):
        found = "".join(f"<li>{escape(line)}</li>" for line in lines)
        listed = f'<ul class="found">{found}</ul>' if found else ""
        parts.append(f'<section aria-label="heat map">{svg.draw(picture, data)}{listed}</section>')
    title = escape(pictures[0][0].title)
    several = ' class="several"' if len(pictures) > 1 else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script)}">'
        f'<title>{title}</title><link rel="icon" href="data:,"><style>{svg.style()}{_style()}</style></head><body>'
        f"<main{several}><h1>{title}</h1>{''.join(parts)}</main><script>{script}</script></body></html>\n"
    )


def policy(script: str) -> str:
    """Return the content security policy of the page: run this one script, show images that it holds, nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"


@cache
def _script() -> str:
    return (svg.TEMPLATES / "heat_page.js").read_text(encoding="utf-8")


@cache
def _style() -> str:
    return (svg.TEMPLATES / "heat_page.css").read_text(encoding="utf-8")


def _unreadable(grid: Grid) -> list[str]:
    lines = [f"line {line}: {reason}" for line, reason in grid.unreadable_first]
    return [f"unreadable, {axis.whole(grid.unreadable)} in all: {'; '.join(lines)}"] if lines else []


def _table(grid: Grid, quantiles: Mapping[str, Sequence[float | None]]) -> str:
    unit = axis.unit_of(grid.unit, max(abs(grid.edges[0]), abs(grid.edges[-1])))
    time = axis.unit_of("ns", grid.columns * grid.column_ns)
    frame, totals = frame_of(grid), grid.column_totals()
    begin = grid.begin_ns - axis.zero_of(grid.begin_ns, grid.columns * grid.column_ns)
    beyond = [("above", grid.over, frame.over), ("below", grid.under, frame.under)]
    shown = [(name, counts) for name, counts, row in beyond if row is not None]
    head = "".join(
        f'<th scope="col">{escape(name)}</th>'
        for name in (
            f"from, {time.name}",
            "events",
            *(f"{name}, {unit.name}" if unit.name else name for name in quantiles),
            *(name for name, _ in shown),
        )
    )
    rows = []
    for column in range(min(grid.columns, MOST_ROWS)):
        values = (_value(each[column], grid, unit) for each in quantiles.values())
        at = axis.show(begin + column * grid.column_ns, time, 6)
        cells = (axis.whole(totals[column]), *values, *(axis.whole(counts[column]) for _, counts in shown))
        rows.append(
            f'<tr><th scope="row">{at}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        )
    more = (
        f"<p>{grid.columns - MOST_ROWS} more columns are not shown.</p>" if grid.columns > MOST_ROWS else ""
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="table of the columns"><table><thead><tr>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{more}"
    )


def _value(value: float | None, grid: Grid, unit: axis.Unit) -> str:
    if value is None:
        return "–"
    if isinf(value):
        edge = axis.show(grid.edges[-1 if value > 0 else 0], unit)
        return f"{'>' if value > 0 else '<'} {edge}"
    return f"{'≤ ' if axis.is_bound(value, grid.edges) else ''}{axis.show(value, unit)}"
