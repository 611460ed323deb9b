"""Queues fitted to the points of a campaign: tables, pictures, and what the points do not carry."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.fitting.campaign import LOADS, fit_line, held_out
from iodyno.analysis.fitting.points import Line, lines_of, rows_of
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse, unit_of
from iodyno.cli.campaign_argument import tell_lost
from iodyno.cli.form import show
from iodyno.cli.model.scaling import nothing_fits, scale_campaign
from iodyno.core.errors import ExperimentError
from iodyno.report.figures.fit import panels
from iodyno.report.figures.panel import Figure
from iodyno.report.figures.standalone import write_html, write_svg
from iodyno.report.fit import blocks, fit_shown
from iodyno.report.form import block_text


def fit_campaign(
    campaign: Path, factor: str | None, outcome: str, scaling: bool, asked: Mapping[str, Any]
) -> None:
    """Fits queues, or with `scaling` the law, along a load, a line each combination of the other factors.

    Raises ExperimentError where no line carries one.
    """
    dataset = read_dataset(campaign)
    summary = analyse(dataset)
    tell_lost(campaign, summary.trials)
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
            hold_out=held_out(line.loads, asked["hold_out"]) if asked["hold_out"] is not None else (),
            seed=asked["seed"],
        )
        for line in lines
    ]
    fits = any(one.chosen is not None for one in found)
    if fits or asked["form"] in ("json", "csv") or asked["verbose"]:
        show(fit_shown(found, str(campaign), verbose=asked["verbose"]), asked["form"])
    shown_panels = tuple(panel for one in found for panel in panels(one))
    html: Path | None = asked["html"]
    svg: Path | None = asked["svg"]
    if html is not None:
        text = "".join(block_text(block) for one in found for block in blocks(one, verbose=True))
        pictures = Figure("", "", shown_panels) if shown_panels else None
        page = write_html(f"Models of {campaign.name}", text, pictures, html)
        click.echo(f"iodyno: page: {page}", err=True)
    if not fits:
        raise nothing_fits("model", [(one.line, one.refused or "") for one in found], campaign)
    if svg is not None:
        click.echo(f"iodyno: picture: {write_svg(Figure('', '', shown_panels), svg)}", err=True)


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
                "no load is varied: neither connections, queue_depth nor rate",
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
