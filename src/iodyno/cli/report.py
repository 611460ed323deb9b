"""`iodyno report`: what did the campaign find?"""

from __future__ import annotations

import errno
import gc
import webbrowser
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.campaign_argument import complete_campaign, latest_campaign, tell_damaged, tell_lost
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.stderr import to_stderr
from iodyno.cli.workers import cluster_option, workers
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.report.form import Form, Shown

if TYPE_CHECKING:
    from iodyno.analysis.dataset import Dataset
    from iodyno.analysis.function_study import FunctionStudy
    from iodyno.analysis.results import CampaignSummary


@click.command(name="report")
@click.argument(
    "campaigns",
    nargs=-1,
    metavar="[CAMPAIGN ...]",
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
)
@format_option()
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), metavar="PATH", help="Write the page there."
)
@click.option(
    "--trials",
    metavar="all|ID,...",
    help="Show these trials over time in the page. Default: all; of more than a hundred the median trial of up to 20 points.",
)
@click.option(
    "--open", "opened", type=click.Choice(["yes", "no"]), default="no", help="Open the page in a browser."
)
@verbose_option
@cluster_option
def command(
    campaigns: tuple[Path, ...],
    form: Form,
    html: Path | None,
    trials: str | None,
    opened: str,
    verbose: bool,
    cluster: str | None,
) -> None:
    """Show what the campaign in the folder CAMPAIGN found, and write its page; without CAMPAIGN, of the latest here.

    Prints the answer and the tables, and writes CAMPAIGN/report.html: one file that needs no network. In another form than text
    it writes the page only if --html says where; csv has a row for each point and outcome. Of a campaign in a folder that may
    not be written to it prints the tables, and a note. Of several campaigns it does so for each.

    \b
    Examples:
      iodyno report campaigns/NAME
      iodyno report campaigns/NAME --format csv > report.csv
      iodyno report campaigns/NAME --html /tmp/report.html --open yes
      iodyno report campaigns/NAME --trials 00012-1,00040-1
      iodyno report campaigns/* --cluster local --format csv > all.csv
    """
    if len(campaigns) > 1:
        if html or trials or opened == "yes":
            raise click.UsageError("--html, --trials and --open can only be used with one CAMPAIGN")
        _show_several(campaigns, form, cluster, verbose=verbose)
        return
    if cluster:
        raise click.UsageError("--cluster can only be used with several campaigns")
    campaign = latest_campaign(campaigns[0] if campaigns else None)
    if _show_recording(campaign, form, html, trials):
        return
    # What is read and worked out hangs together as trees, which go without being looked for: looking takes a tenth of the time.
    gc.set_threshold(100_000)
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.function_study import FunctionStudy, study_functions
    from iodyno.analysis.summary import analyse
    from iodyno.analysis.trial_views import shown_points
    from iodyno.report.html import write_dataset

    dataset = read_dataset(campaign)
    shown = _shown(dataset, trials)
    summary = analyse(dataset)
    points = shown_points(summary, shown)
    people = form in ("text", "markdown")
    functions = study_functions(dataset, points) if people or html is not None else FunctionStudy()
    if not people:  # the warnings of the others have it
        tell_lost(campaign, summary.trials)
    show(shown_of(summary, functions, verbose=verbose), form)
    if form == "text" or html is not None:
        try:
            page = write_dataset(dataset, summary, html or campaign / "report.html", functions, shown)
        except StoreError as error:
            if html or opened == "yes" or not _may_not_write(error):
                raise
            # Somebody else's campaign, or one in an archive: the tables were asked for, too, and are there.
            to_stderr(f"iodyno: note: {error}")
            return
        to_stderr(f"iodyno: report: {page}")
        if opened == "yes":
            webbrowser.open(page.resolve().as_uri())


def _show_several(campaigns: Sequence[Path], form: Form, cluster: str | None, *, verbose: bool) -> None:
    with workers(cluster) as each:
        found = list(zip(campaigns, each(partial(report_of, form, verbose), campaigns), strict=True))
        if form == "json":
            values = [{"campaign": str(folder), **printed} for folder, (printed, _) in found]
            show(Shown(list, lambda: {"campaigns": values}, list), form)
        elif form == "csv":
            rows = [{"campaign": str(folder), **row} for folder, (printed, _) in found for row in printed]
            show(Shown(list, list, lambda: rows), form)
        else:
            for folder, (printed, _) in found:
                show(Shown(partial(lambda *blocks: blocks, f"{folder}\n", *printed), dict, list), form)
        for said in filter(None, (said for _, (_, said) in found)):
            to_stderr(f"iodyno: {said}")


def report_of(form: Form, verbose: bool, campaign: Path) -> tuple[Any, str]:
    """Return what is printed of a campaign in a form (blocks, values, rows), and what is said beside it, as of the page."""
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.function_study import FunctionStudy, study_functions
    from iodyno.analysis.results import lost_note
    from iodyno.analysis.summary import analyse
    from iodyno.analysis.trial_views import shown_points
    from iodyno.report.html import write_dataset

    dataset = read_dataset(campaign)
    summary = analyse(dataset)
    if form in ("json", "csv"):
        shown = shown_of(summary, FunctionStudy())
        lost = lost_note(campaign, summary.trials)
        return (shown.values() if form == "json" else list(shown.rows())), f"warning: {lost}" if lost else ""
    functions = study_functions(dataset, shown_points(summary))
    printed = list(shown_of(summary, functions, verbose=verbose).blocks())
    if form != "text":
        return printed, ""
    try:
        return printed, f"report: {write_dataset(dataset, summary, campaign / 'report.html', functions)}"
    except StoreError as error:
        if not _may_not_write(error):
            raise
        return printed, f"note: {error}"


def _show_recording(folder: Path, form: Form, html: Path | None, trials: str | None) -> bool:
    """Prints the tables of the recording in `folder`; False: it is none."""
    from iodyno.analysis.recording import Recording, is_recording
    from iodyno.report import recording
    from iodyno.store.manifest import no_campaign, read_header
    from iodyno.store.schema import CAMPAIGN

    if not (folder / CAMPAIGN).is_file():
        raise no_campaign(folder)
    if not is_recording(read_header(folder)):
        return False
    for option, given in (("--html", html), ("--trials", trials)):
        if given is not None:
            raise ExperimentError(
                "a recording has no page", where=option, advice=f"iodyno heatmap {folder} -o map.html"
            )
    found = Recording(folder)
    if form not in ("text", "markdown"):
        tell_damaged(found)
    show(recording.shown_of(found), form)
    return True


def _shown(dataset: Dataset, asked: str | None) -> list[str] | None:
    """The trials that were asked for; None where the page chooses. Raises ExperimentError for one that is not there."""
    if asked is None:
        return None
    finished = [trial.name for trial in dataset.trials if trial.finished]
    if asked == "all":
        return finished
    named = [name.strip() for name in asked.split(",")]
    if unknown := [name for name in named if name not in finished]:
        names = ", ".join(finished[:4])
        raise ExperimentError(
            f"unknown trial {unknown[0]!r}: finished trials are {names}{' ...' if len(finished) > 4 else ''}",
            where="--trials",
            advice=f"--trials {finished[0]}" if finished else "iodyno run --resume goes on with it",
        )
    return named


def _may_not_write(error: StoreError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EROFS, errno.EACCES, errno.EPERM)


def shown_of(summary: CampaignSummary, functions: FunctionStudy, *, verbose: bool = False) -> Shown:
    """Return what there is to show of a campaign; `verbose`: all that can be said of it."""
    from iodyno.report.csv import outcome_rows
    from iodyno.report.function_section import contrast_sentences
    from iodyno.report.json import campaign
    from iodyno.report.terminal import report_blocks
    from iodyno.report.void import void_costs

    return Shown(
        blocks=lambda: report_blocks(
            summary, contrast_sentences(functions, summary, void=void_costs(summary)), verbose=verbose
        ),
        values=lambda: campaign(summary),
        rows=lambda: outcome_rows(summary),
    )


def show_finished(dataset: Dataset, form: Form, *, verbose: bool = False) -> None:
    """Prints the answer and the tables of a campaign that has just ended, and writes and names its page."""
    from iodyno.analysis.function_study import study_functions
    from iodyno.analysis.summary import analyse
    from iodyno.analysis.trial_views import shown_points
    from iodyno.report.html import write_dataset

    summary = analyse(dataset)
    functions = study_functions(dataset, shown_points(summary))
    show(shown_of(summary, functions, verbose=verbose), form)
    page = write_dataset(dataset, summary, dataset.folder / "report.html", functions)
    to_stderr(f"iodyno: report: {page}")
