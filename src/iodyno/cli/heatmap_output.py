"""Outputs of a heat map: SVG, HTML or PNG by the file's name, a terminal, JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.encoding import Unescaped
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.grid import Grid
from iodyno.core.invalid import invalid
from iodyno.store.files import write_file

if TYPE_CHECKING:
    from iodyno.analysis.heat_map.findings import Findings
    from iodyno.report.heat_map.layout import Look
    from iodyno.report.heat_map.picture import Picture

SUFFIXES = (".svg", ".html", ".png")
_SHARES = (0.5, 0.99, 0.999, 1.0)
CUMULATIVE = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 1.0)


@dataclass(frozen=True)
class Map:
    """One map of those to show: its title and grid."""

    title: str
    grid: Grid


@dataclass(frozen=True)
class Output:
    """Output: its place and form. `file` None: the terminal."""

    file: Path | None
    json: bool
    look: Look
    cumulative: bool = False
    started: float = 0.0


def checked_file(written: str | None) -> Path | None:
    """The file that `-o` names; None for `-` and nothing.

    Raises ExperimentError for a suffix that is none of ours, and for a PNG where there is no Pillow.
    """
    if written is None or written == "-":
        return None
    path = Path(written)
    if path.suffix.lower() not in SUFFIXES:
        raise ExperimentError(
            invalid(path.name, f"names that end in {', '.join(SUFFIXES)}"),
            where="-o",
            advice="-o heat.svg",
        )
    if path.suffix.lower() == ".png" and find_spec("PIL") is None:
        raise ExperimentError(
            "a PNG is drawn by Pillow, which is not installed",
            where="-o",
            advice="pip install 'iodyno[png]' (or pillow); or -o heat.svg, which needs nothing more",
        )
    return path


def show_maps(maps: Sequence[Map], output: Output) -> None:
    """Writes or prints the maps, one below the other, with what was found in each."""
    from iodyno.analysis.heat_map.findings import examine
    from iodyno.report.heat_map.json import as_values

    for each in maps:
        _refuse_empty(each)
    found = [examine(each.grid) for each in maps]
    shared = _shared_counts(maps) if len(maps) > 1 else None
    if output.file is not None:
        looks = _looks(maps, output.look)
        _write(output.file, _file(maps, found, looks, output.file.suffix.lower(), shared))
        click.echo(f"iodyno: heat map: {output.file}", err=True)
    if output.json:
        values = [
            as_values(each.grid, one, _of_all(each.grid), time.perf_counter() - output.started)
            | {"title": each.title}
            for each, one in zip(maps, found, strict=True)
        ]
        _print_json(values[0] if len(values) == 1 else {"maps": values})
        return
    for number, (each, one) in enumerate(zip(maps, found, strict=True)):
        if number:
            click.echo()
        _print(each, one, output)


def show_difference(one: Map, other: Map, output: Output) -> None:
    """Writes or prints the first map minus the second."""
    from iodyno.report.heat_map import axis, layout, svg
    from iodyno.report.heat_map.difference import changes_of, lay_out_difference
    from iodyno.report.heat_map.layout import frame_of

    for each in (one, other):
        _refuse_empty(each)
    names = (one.title, other.title)
    if output.file is not None:
        picture = lay_out_difference(one.grid, other.grid, output.look, names)
        suffix = output.file.suffix.lower()
        if suffix == ".png":
            from iodyno.report.heat_map.png import png

            content = png([picture])
        else:
            drawing = svg.document([(picture, None)])
            content = (drawing if suffix == ".svg" else _plain_page(picture, drawing)).encode()
        _write(output.file, content)
        click.echo(f"iodyno: heat map: {output.file}", err=True)
    changes = changes_of(one.grid, other.grid)
    events = [sum(each.grid.column_totals()) for each in (one, other)]
    if output.json:
        frame = frame_of(one.grid, other.grid)
        _print_json(
            {
                "names": list(names),
                "events": events,
                "unit": one.grid.unit,
                "edges": list(one.grid.edges),
                "begin_s": one.grid.begin_ns / 1e9,
                "column_s": one.grid.column_ns / 1e9,
                "cells": [list(cell) for cell in one.grid.minus(other.grid)],
                "over": sum(change for (_, row), change in changes.items() if row == frame.over),
                "under": sum(change for (_, row), change in changes.items() if row == frame.under),
            }
        )
        return
    for each, total in zip((one, other), events, strict=True):
        quantiles = _of_all(each.grid)
        values = ", ".join(
            f"{name} {layout.quantile_of_all(value, each.grid)}" for name, value in quantiles.items()
        )
        click.echo(f"{each.title}: {axis.whole(total)} events, {values}")
    if output.file is None:
        click.echo("A difference is drawn into a file: -o difference.svg, .png or .html", err=True)


def _refuse_empty(each: Map) -> None:
    from iodyno.report.heat_map import axis
    from iodyno.report.heat_map.layout import where_events_are

    if not sum(each.grid.column_totals()):
        unit = axis.unit_of(each.grid.unit, each.grid.edges[-1] if each.grid.edges else 1.0)
        raise ExperimentError(
            f"there is no event to draw ({where_events_are(each.grid, unit)})"
            if each.grid.events
            else "there is no event",
            where=each.title,
            advice="--from, --to and --operation choose events; --format and --time-unit say how a trace is read",
        )


def _looks(maps: Sequence[Map], look: Look) -> list[Look]:
    """Of one map all there is; of several each is lower and narrower, and the legend stands once."""
    if len(maps) == 1:
        return [replace(look, title=maps[0].title)]
    low = replace(look, width=620, plot_height=min(look.plot_height, 190), strip=False, marginal=True)
    return [replace(low, title=each.title, legend=each is maps[-1]) for each in maps]


def _shared_counts(maps: Sequence[Map]) -> list[int]:
    from iodyno.report.heat_map.layout import cell_counts, frame_of

    return sorted(count for each in maps for count in cell_counts(each.grid, frame_of(each.grid)).values())


def _quantiles(grid: Grid) -> dict[str, Sequence[float | None]]:
    from iodyno.analysis.heat_map.columns import column_quantiles
    from iodyno.report.heat_map.layout import OVERLAYS

    return dict(zip(OVERLAYS, column_quantiles(grid, _SHARES), strict=True))


def _file(
    maps: Sequence[Map],
    found: Sequence[Findings],
    looks: Sequence[Look],
    suffix: str,
    shared: Sequence[int] | None,
) -> bytes:
    from iodyno.report.heat_map import svg
    from iodyno.report.heat_map.layout import lay_out
    from iodyno.report.heat_map.sentences import sentences

    if suffix == ".html" and len(maps) == 1:
        from iodyno.analysis.heat_map.curve import cumulative_curve
        from iodyno.report.heat_map.page import page

        grid = maps[0].grid
        said = sentences(grid, found[0])
        return page(grid, _quantiles(grid), looks[0], said, cumulative_curve(grid)).encode()
    pictures = [
        lay_out(each.grid, _quantiles(each.grid), look, ordered=shared)
        for each, look in zip(maps, looks, strict=True)
    ]
    if suffix == ".png":
        from iodyno.report.heat_map.png import png

        return png(pictures)
    if suffix == ".html":
        from iodyno.report.heat_map.page import pages

        said_of = [sentences(each.grid, one) for each, one in zip(maps, found, strict=True)]
        pictured = [(p, svg.script_data(each.grid)) for p, each in zip(pictures, maps, strict=True)]
        return pages(pictured, said_of).encode()
    return svg.document(
        [(p, svg.script_data(each.grid)) for p, each in zip(pictures, maps, strict=True)]
    ).encode()


def _plain_page(picture: Picture, drawing: str) -> str:
    from iodyno.report.heat_map.page import pages

    del drawing
    return pages([(picture, None)], [[]])


def _print(each: Map, found: Findings, output: Output) -> None:
    from iodyno.report.heat_map import axis
    from iodyno.report.heat_map.layout import readable, where_events_are, wrapped
    from iodyno.report.heat_map.sentences import sentences
    from iodyno.report.heat_map.terminal import rendered

    if output.file is None:
        tty = sys.stdout.isatty()
        width = shutil.get_terminal_size((100, 24)).columns
        quantiles: dict[str, Sequence[float | None]] = {
            name: (value,) for name, value in _of_all(each.grid).items()
        }
        colours = tty and "NO_COLOR" not in os.environ
        title = " ".join(wrapped(each.title, width, 1))
        look = replace(output.look, title=title)
        Unescaped(sys.stdout).write(rendered(each.grid, quantiles, look, width=width, colours=colours) + "\n")
    elif each.title:
        unit = axis.unit_of(each.grid.unit, each.grid.edges[-1])
        click.echo(f"{' '.join(wrapped(each.title, 120, 1))}: {where_events_are(each.grid, unit)}")
    for number, reason in each.grid.unreadable_first:
        click.echo(f"unreadable, line {number}: {readable(reason)}")
    if output.cumulative:
        _print_cumulative(each.grid)
    for said in (*sentences(each.grid, found), *each.grid.notes):
        click.echo(readable(said))


def _of_all(grid: Grid) -> dict[str, float | None]:
    """The quantiles of all events of a grid."""
    from iodyno.analysis.heat_map.columns import quantile_of_all
    from iodyno.report.heat_map.layout import OVERLAYS

    return {name: quantile_of_all(grid, share) for name, share in zip(OVERLAYS, _SHARES, strict=True)}


def _print_cumulative(grid: Grid) -> None:
    from iodyno.analysis.heat_map.columns import quantile_of_all
    from iodyno.report.heat_map import axis, layout

    total = sum(grid.column_totals())
    for share in CUMULATIVE:
        value = quantile_of_all(grid, share)
        left = round(total * (1 - share))
        shown = layout.quantile_of_all(value, grid)
        click.echo(f"{share * 100:>9.6g} %  {shown:>12}  {axis.whole(left):>12} events above")


def _print_json(values: dict[str, Any]) -> None:
    click.echo(json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(", ", ": ")))


def _write(path: Path, content: bytes) -> None:
    try:
        write_file(path, content)
    except OSError as problem:
        raise StoreError(
            f"cannot be written: {problem.strerror or problem}",
            where=str(path),
            advice="name another place with -o",
        ) from problem
