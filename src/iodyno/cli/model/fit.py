"""`iodyno model fit`: which queue, or which law of scaling, is behind what was measured?"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any, TextIO

import click

from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.fitting.campaign import LOADS, RATE, LineFit, fit_line, held_out
from iodyno.analysis.fitting.points import Line, lines_of, rows_of
from iodyno.analysis.fitting.usl import MARGINAL
from iodyno.analysis.summary import CampaignSummary, analyse, unit_of
from iodyno.cli.campaign_argument import complete_campaign
from iodyno.cli.given import given
from iodyno.cli.model.scaling import scale_campaign, scale_table
from iodyno.cli.number import NUMBER, SEED
from iodyno.core.errors import ExperimentError
from iodyno.report.figures.fit import panels
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.standalone import write_html, write_svg
from iodyno.report.fit import notes, sentence, tables, title_of, values
from iodyno.report.terminal import show_table


@click.command(name="fit")
@click.argument("campaign", type=click.Path(path_type=Path), shell_complete=complete_campaign, required=False)
@click.option("--csv", "own", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Own points: a header and two columns, load and rate. A file in CAMPAIGN's place is that too.")  # fmt: skip
@click.option("--columns", metavar="N,X", help="Names of the two columns of --csv, where there are more.")
@click.option("--scaling", is_flag=True,
              help="Fit the Universal Scalability Law, and find its knees; that is what --csv is for.")  # fmt: skip
@click.option("--factor", help="Factor that is the load (default: connections, outstanding or rate).")
@click.option("--outcome", default=RATE, show_default=True, help="Rate of a closed loop.")
@click.option(
    "--hold-out",
    metavar="LOADS",
    help="Loads that the fit must not see and predicts: 64, or 32,64, or largest:2, or third.",
)
@click.option("--at", metavar="N,N,...", help="Loads to predict the rate at, with --scaling.")
@click.option("--extrapolate", is_flag=True,
              help="Follow the curve of --scaling up to twice as far as the data, where a point lies past the knee.")  # fmt: skip
@click.option("--share", type=NUMBER, default=MARGINAL, show_default=True,
              help="Marginal gain below which the knee of that name is, with --scaling.")  # fmt: skip
@click.option("--errors", type=click.Choice(["relative", "absolute"]), default="relative", show_default=True,
              help="What --scaling makes least: relative errors, or absolute ones as in R's usl.")  # fmt: skip
@click.option("--seed", type=SEED, default=1, show_default=True, help="Of the bootstrap.")
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a picture there."
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a page there."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    campaign: Path | None,
    own: Path | None,
    columns: str | None,
    scaling: bool,
    factor: str | None,
    outcome: str,
    hold_out: str | None,
    seed: int,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
    **of_scaling: Any,
) -> None:
    """Fit queues and scaling laws to the points of CAMPAIGN, a line each combination of the other factors.

    Closed loops: rate against operations under way. Open loops: mean response time against the offered rate, with the
    measured variance of service times. The model that predicts each load best from the others is chosen, its parameters
    have intervals, and what the points do not carry is refused.

    --scaling fits X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) to rates of a closed loop, beside Amdahl's law and a
    closed queue; every knee has its definition, and one that no point lies beyond is not given.

    \b
    Examples:
      iodyno model fit campaigns/NAME
      iodyno model fit campaigns/NAME --hold-out largest:2 --svg fit.svg
      iodyno model fit campaigns/NAME --scaling --outcome goodput_bits_per_s
      iodyno model fit --csv threads-vs-rate.csv --at 24,48 --extrapolate \\
        --svg curve.svg
    """
    asked = {**of_scaling, "seed": seed, "svg": svg, "as_json": as_json}
    if (campaign is None) == (own is None):
        raise ExperimentError(
            "name the points once: a campaign or a table",
            where="CAMPAIGN, --csv",
            advice="iodyno model fit --csv threads-vs-rate.csv",
        )
    own = campaign if campaign is not None and campaign.is_file() else own
    _refuse_others(given(click.get_current_context()), own is not None, scaling)
    if own is not None:
        scale_table(own, columns, asked)
        return
    assert campaign is not None
    dataset = read_dataset(campaign)
    summary = analyse(dataset)
    lines = _lines(dataset, summary, factor, outcome)
    if scaling:
        load = _along(summary, factor).name.replace("_", " ")
        scale_campaign(lines, (load, outcome, unit_of(outcome)), campaign, asked)
        return
    found = [
        fit_line(
            line,
            outcome,
            unit_of(outcome),
            hold_out=held_out(line.loads, hold_out) if hold_out is not None else (),
            seed=seed,
        )
        for line in lines
    ]
    if as_json:
        each = [values(one) for one in found]
        click.echo(
            json.dumps(
                {"campaign": str(campaign), "lines": each}, indent=2, ensure_ascii=False, allow_nan=False
            )
        )
    else:
        for one in found:
            _show(one, sys.stdout)
    drawn = tuple(panel for one in found for panel in panels(one))
    if html is not None:
        text = io.StringIO()
        for one in found:
            _show(one, text)
        pictures = Figure("", "", drawn) if drawn else None
        page = write_html(f"Models of {campaign.name}", text.getvalue(), pictures, html)
        click.echo(f"iodyno: page: {page}", err=True)
    if svg is not None:
        if not drawn:
            raise ExperimentError(
                "no line of the campaign carries a model", where="--svg", advice="leave --svg out to read why"
            )
        click.echo(f"iodyno: picture: {write_svg(Figure('', '', drawn), svg)}", err=True)
    if all(one.chosen is None for one in found):
        raise ExperimentError(
            f"no model fits: {found[0].refused}"
            + (f" (and {len(found) - 1} lines more)" if found[1:] else ""),
            where=str(campaign),
            advice="more loads, or another --factor or --outcome",
        )


def _refuse_others(typed: set[str], own: bool, scaling: bool) -> None:
    """Raises ExperimentError for an option without an effect."""
    whose = {
        "a campaign": () if not own else ("factor", "outcome", "hold_out", "html"),
        "--csv": () if own else ("columns",),
        "--scaling": () if own or scaling else ("at", "extrapolate", "share", "errors"),
        "queues, which --scaling does not fit": ("hold_out", "html") if scaling else (),
    }
    for of, names in whose.items():
        for name in names:
            if name in typed:
                raise ExperimentError(
                    f"it is for {of}", where=f"--{name.replace('_', '-')}", advice="leave it out"
                )


def _lines(dataset: Dataset, summary: CampaignSummary, factor: str | None, outcome: str) -> list[Line]:
    """The lines of a campaign along a factor. Raises ExperimentError with what there is where it lacks one of both."""
    along = _along(summary, factor)
    known = {name for trial in summary.trials for name in trial.outcomes}
    if outcome not in known:
        rates = sorted(name for name in known if name.endswith("_per_s"))
        raise ExperimentError(
            f"no outcome is called {outcome!r}",
            where="--outcome",
            advice=", ".join(rates[:4]) or "iodyno report names the outcomes",
        )
    rows = rows_of(dataset, {trial.name: trial.outcomes for trial in summary.trials})
    lines = lines_of(dataset, rows, summary.factors, along, outcome)
    if not lines:
        raise ExperimentError(
            f"no trial has {outcome!r}", where=str(dataset.folder), advice="iodyno report says why"
        )
    return lines


def _along(summary: CampaignSummary, factor: str | None) -> FactorLevels:
    numeric = {each.name: each for each in summary.factors if each.numeric and each.varies}
    if factor is None:
        found = next((numeric[name] for name in LOADS if name in numeric), None)
        if found is None:
            raise ExperimentError(
                "no load is varied: neither connections, outstanding nor rate",
                where=summary.folder,
                advice=f"--factor {next(iter(numeric))}" if numeric else "vary connections in the experiment",
            )
        return found
    if factor not in numeric:
        raise ExperimentError(
            f"{factor!r} is no factor with numbers that vary; there are: {', '.join(numeric) or 'none'}",
            where="--factor",
            advice=f"--factor {next(iter(numeric))}" if numeric else "vary connections in the experiment",
        )
    return numeric[factor]


def _show(found: LineFit, out: TextIO) -> None:
    if found.chosen is None:
        out.write(f"{title_of(found)}\nrefused: {found.refused}\n\n")
    for table in tables(found):
        show_table(table, out)
    if found.chosen is not None:
        out.write(f"{sentence(found)}\n")
    for text in notes(found):
        out.write(f"{text}\n")
    out.write("\n")
