"""Growth of a rate with the load, and its peak: the Universal Scalability Law, of a campaign or a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from iodyno.analysis.fitting.curve import by_load
from iodyno.analysis.fitting.points import Line
from iodyno.analysis.fitting.usl import MARGINAL, Scaling, scale
from iodyno.cli.form import show
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.formats.load_table import read_load_table
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.scaling import panel
from iodyno.report.figures.standalone import write_svg
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.report.scaling import blocks, rows, values


def scale_table(table: Path, columns: str | None, asked: Mapping[str, Any]) -> None:
    """Fits the law to a table of loads and rates. Raises ExperimentError with the line of what is wrong in it."""
    found = read_load_table(
        table, [name.strip() for name in columns.split(",")] if columns is not None else ()
    )
    line = Line({}, {}, False, tuple(by_load(found.pairs)))
    _scale([line], (found.load, found.value, ""), table, asked, own=True)


def scale_campaign(
    lines: list[Line], names: tuple[str, str, str], campaign: Path, asked: Mapping[str, Any]
) -> None:
    """Fits the law to the lines of a campaign; `names`: load, rate and its unit. Raises ExperimentError."""
    if any(line.is_open for line in lines):
        raise ExperimentError(
            "the loop is open: its rate is the one that was offered, and no law of scaling",
            where=str(campaign),
            advice=f"iodyno model fit {campaign}",
        )
    _scale(lines, names, campaign, asked, own=False)


def _scale(
    lines: list[Line], names: tuple[str, str, str], place: Path, asked: Mapping[str, Any], *, own: bool
) -> None:
    load, rate, unit = names
    found: list[tuple[Line, Scaling | ExperimentError]] = []
    for line in lines:
        try:
            fitted = scale(
                line.loads,
                at=_loads(asked["at"]),
                extrapolate=asked["extrapolate"],
                share=MARGINAL if asked["share"] is None else asked["share"],
                errors=asked["errors"],
                seed=asked["seed"],
                unit=unit,
            )
            found.append((line, fitted))
        except ExperimentError as error:
            if len(lines) == 1:
                raise
            found.append((line, error))

    def in_values() -> Any:
        each = [{"levels": dict(line.levels)} | _values(fitted, load, rate) for line, fitted in found]
        return each[0] if own else {"campaign": str(place), "lines": each}

    def in_blocks() -> Iterator[Block]:
        for line, known in found:
            if isinstance(known, ExperimentError):
                yield Headline(line.title or "no curve", (("Refused", (known.what,)),))
            else:
                yield from blocks(known, load=load, rate=rate, title=line.title, verbose=asked["verbose"])

    def in_rows() -> Iterator[Row]:
        for line, known in found:
            if isinstance(known, ExperimentError):
                yield {**line.levels, "load": load, "rate": rate, "refused": known.what}
            else:
                yield from rows(known, load, rate, line.levels)

    refused = [(line, fitted.what) for line, fitted in found if isinstance(fitted, ExperimentError)]
    none = len(refused) == len(found)
    if not none or asked["form"] in ("json", "csv"):
        show(Shown(in_blocks, in_values, in_rows), asked["form"])
    if none:
        raise nothing_fits("curve", refused, place)
    drawn = tuple(
        panel(fitted, load=load, rate=rate, unit=unit, title=line.title)
        for line, fitted in found
        if isinstance(fitted, Scaling)
    )
    svg: Path | None = asked["svg"]
    if svg is not None:
        click.echo(f"iodyno: picture: {write_svg(Figure('', '', drawn), svg)}", err=True)


def nothing_fits(noun: str, refused: Sequence[tuple[Line, str]], place: Path) -> ExperimentError:
    """Return the error where no line carries a model or a curve: each reason once, with its lines where these differ."""
    reasons: dict[str, list[str]] = {}
    for line, why in refused:
        reasons.setdefault(why, []).append(line.title)
    what = f"no {noun} fits{f' any of {len(refused)} lines' if refused[1:] else ''}: "
    if len(reasons) == 1:
        what += next(iter(reasons))
    else:
        what += "".join(f"\n  {', '.join(titles)}: {why}" for why, titles in reasons.items())
    return ExperimentError(
        what.replace(": \n", ":\n"), where=str(place), advice="more loads, or another --factor or --outcome"
    )


def _loads(written: str | None) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in written.split(",")) if written is not None else ()
        if not all(map(math.isfinite, found)):
            raise ValueError
        return found
    except ValueError:
        raise ExperimentError(
            invalid(written, "numbers with commas between"), where="--at", advice="--at 24,48"
        ) from None


def _values(fitted: Scaling | ExperimentError, load: str, rate: str) -> dict[str, Any]:
    if isinstance(fitted, ExperimentError):
        return {"refused": fitted.what}
    return {"load": load, "rate": rate} | values(fitted)
