"""`iodyno model usl`: how does the rate grow with the load, and where does it stop?"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import click

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.fitting.curve import Errors, by_load
from iodyno.analysis.fitting.points import Line
from iodyno.analysis.fitting.usl import MARGINAL, Scaling, scale
from iodyno.analysis.summary import analyse, unit_of
from iodyno.cli.given import given
from iodyno.cli.model.fit import campaign_lines
from iodyno.cli.number import NUMBER, SEED
from iodyno.core.errors import ExperimentError
from iodyno.formats.load_table import read_load_table
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.scaling import panel
from iodyno.report.figures.standalone import write_svg
from iodyno.report.scaling import notes, tables, values
from iodyno.report.terminal import show_table


@click.command(name="usl")
@click.option(
    "--data",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="CSV with a header and two columns: load, rate. Lines with one load are repeats.",
)
@click.option("--columns", metavar="N,X", help="Names of the two columns, where there are more.")
@click.option(
    "--campaign", type=click.Path(path_type=Path), metavar="CAMPAIGN", help="Or points of a campaign."
)
@click.option("--factor", default="connections", show_default=True, help="Factor that is the load.")
@click.option("--outcome", default="operations_per_s", show_default=True, help="Outcome that is the rate.")
@click.option("--at", metavar="N,N,...", help="Loads to predict the rate at.")
@click.option(
    "--extrapolate",
    is_flag=True,
    help="Follow the curve beyond the data, up to twice as far, where a point lies past the knee.",
)
@click.option(
    "--share",
    type=NUMBER,
    default=MARGINAL,
    show_default=True,
    help="Marginal gain below which the knee of that name is.",
)
@click.option(
    "--errors",
    type=click.Choice(["relative", "absolute"]),
    default="relative",
    show_default=True,
    help="What is least: relative errors, or absolute ones as in R's usl.",
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the bootstrap.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a picture there."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    data: Path | None,
    columns: str | None,
    campaign: Path | None,
    factor: str,
    outcome: str,
    at: str | None,
    extrapolate: bool,
    share: float,
    errors: Errors,
    seed: int,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Fit the Universal Scalability Law: rate against threads, clients or hosts.

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)), with intervals, beside Amdahl's law and a closed queue. Every
    knee has its definition; one that no point lies beyond is not given. Points that are no scaling curve are refused.

    \b
    Examples:
      iodyno model usl --data threads-vs-rate.csv
      iodyno model usl --data threads-vs-rate.csv --at 24,48 --extrapolate \\
        --svg curve.svg
      iodyno model usl --data threads-vs-rate.csv --json
      iodyno model usl --campaign campaigns/NAME --outcome goodput_bits_per_s
    """
    if (data is None) == (campaign is None):
        raise ExperimentError(
            "name the points once: a table or a campaign",
            where="--data, --campaign",
            advice="iodyno model usl --data threads-vs-rate.csv",
        )
    without_effect = ("factor", "outcome") if data is not None else ("columns",)
    unused = [name for name in without_effect if name in given(click.get_current_context())]
    if unused:
        raise ExperimentError(
            f"it is for {'--campaign' if data is not None else '--data'}",
            where=f"--{unused[0]}",
            advice="leave it out",
        )
    wanted = _loads(at)
    if data is not None:
        table = read_load_table(
            data, [name.strip() for name in columns.split(",")] if columns is not None else ()
        )
        lines = [Line({}, {}, False, tuple(by_load(table.pairs)))]
        load, rate, unit = table.load, table.value, ""
    else:
        assert campaign is not None
        dataset = read_dataset(campaign)
        lines, unit = campaign_lines(dataset, analyse(dataset), factor, outcome), unit_of(outcome)
        if any(line.is_open for line in lines):
            raise ExperimentError(
                "the loop is open: its rate is the one that was offered, and no law of scaling",
                where=str(campaign),
                advice=f"iodyno model fit {campaign}",
            )
        load, rate = factor.replace("_", " "), outcome
    found: list[tuple[Line, Scaling | ExperimentError]] = []
    for line in lines:
        try:
            fitted = scale(
                line.loads,
                at=wanted,
                extrapolate=extrapolate,
                share=share,
                errors=errors,
                seed=seed,
                unit=unit,
            )
            found.append((line, fitted))
        except ExperimentError as error:
            if len(lines) == 1:
                raise
            found.append((line, error))
    if as_json:
        each = [{"levels": dict(line.levels)} | _values(fitted, load, rate) for line, fitted in found]
        whole: Any = each[0] if data is not None else {"campaign": str(campaign), "lines": each}
        click.echo(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        for line, known in found:
            _show(line, known, load, rate)
    drawn = tuple(
        panel(fitted, load=load, rate=rate, unit=unit, title=line.title)
        for line, fitted in found
        if isinstance(fitted, Scaling)
    )
    if svg is not None:
        if not drawn:
            raise ExperimentError("no line of the campaign carries a curve", where="--svg")
        click.echo(f"iodyno: picture: {write_svg(Figure('', '', drawn), svg)}", err=True)
    refused = [fitted.what for _, fitted in found if isinstance(fitted, ExperimentError)]
    if len(refused) == len(found):
        raise ExperimentError(
            f"no curve fits any of {len(found)} lines, the first of them: {refused[0]}",
            where=str(campaign),
            advice="more loads, or another --factor or --outcome",
        )


def _loads(written: str | None) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in written.split(",")) if written is not None else ()
        if not all(map(math.isfinite, found)):
            raise ValueError
        return found
    except ValueError:
        raise ExperimentError(
            f"found {written!r}, allowed: numbers with commas between", where="--at", advice="--at 24,48"
        ) from None


def _values(fitted: Scaling | ExperimentError, load: str, rate: str) -> dict[str, Any]:
    if isinstance(fitted, ExperimentError):
        return {"refused": fitted.what}
    return {"load": load, "rate": rate} | values(fitted)


def _show(line: Line, fitted: Scaling | ExperimentError, load: str, rate: str) -> None:
    if line.title:
        click.echo(f"{line.title}\n")
    if isinstance(fitted, ExperimentError):
        click.echo(f"refused: {fitted.what}\n")
        return
    for table in tables(fitted, load=load, rate=rate):
        show_table(table, sys.stdout)
    for text in notes(fitted):
        click.echo(text)
    click.echo()
