"""`iodyno compare`: why does one case cost more than another, and what did a change bring?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.cli import expect as expectations
from iodyno.cli.campaign_argument import complete_campaign, tell_lost
from iodyno.cli.compare_verdicts import (
    compare_campaigns,
    compare_history,
    compare_levels,
    sessions_beside,
)
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.point_choice import choose_host, choose_point, complete_host, complete_point
from iodyno.cli.share import SHARE
from iodyno.cli.stderr import to_stderr
from iodyno.cli.workers import cluster_option, workers
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.errors import ExperimentError
from iodyno.report.form import Form

if TYPE_CHECKING:
    from iodyno.analysis.decisions.verdicts import Control
    from iodyno.analysis.functions import Part
    from iodyno.report.compared import Compared

TOP = 20
"""Functions shown with -v, and in JSON (chosen: a screen; the rest explains little)."""


@click.command(name="compare")
@click.argument(
    "campaigns",
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
    nargs=-1,
    required=True,
    metavar="CAMPAIGN [CAMPAIGN ...]",
)
@click.option(
    "--points",
    nargs=2,
    metavar="A B",
    shell_complete=complete_point,
    help="The two points, such as 'connections=32,window=256k,size=64k' 'connections=32,window=256k,size=1k'.",
)
@click.option("--functions", is_flag=True, help="Which functions explain the difference in CPU per KiB.")
@click.option(
    "--host", shell_complete=complete_host, help="Host whose functions are compared (default: the sender)."
)
@click.option(
    "--top", type=click.IntRange(min=1), help=f"Functions to show.  [default: 6; with -v and in JSON {TOP}]"
)
@click.option(
    "--by",
    type=click.Choice(["exclusive", "inclusive"]),
    default="exclusive",
    show_default=True,
    help="Rank functions by their own code, or by all that they call too.",
)
@click.option(
    "--levels", metavar="F=A/F=B", help="Two levels of a factor of one campaign, at all levels of the others."
)
@click.option(
    "--least",
    type=SHARE,
    default=f"{LEAST_EFFECT:.0%}",
    show_default=True,
    help="The smallest effect of interest.",
)
@click.option(
    "--noise",
    metavar="LADDER",
    type=click.Path(path_type=Path),
    help="A campaign of `iodyno noise`: raises the least effect by what its starts differ by.",
)
@click.option(
    "--also",
    metavar="CAMPAIGN",
    multiple=True,
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
    help="One more campaign of the first kind, with nothing changed, to learn what sessions differ by; may be repeated.",
)
@click.option(
    "--control",
    type=click.Choice(["holm", "bh", "none"]),
    default="holm",
    show_default=True,
    help="Correction for many comparisons: Holm, or Benjamini and Hochberg.",
)
@click.option(
    "--fail-if",
    type=click.Choice(["worse", "undecided"]),
    help="Exit code 1 where an outcome is worse; `undecided`: where it is worse or undecided. Higher and lower pass: they are of "
    "outcomes of which no direction is better.",
)
@expectations.junit
@cluster_option
@verbose_option
@format_option()
def command(
    campaigns: tuple[Path, ...],
    points: tuple[str, str] | None,
    functions: bool,
    host: str | None,
    top: int | None,
    by: Part,
    levels: str | None,
    least: float,
    noise: Path | None,
    also: tuple[Path, ...],
    control: Control,
    fail_if: str | None,
    junit: Path | None,
    cluster: str | None,
    verbose: bool,
    form: Form,
) -> None:
    """Compare two points of a CAMPAIGN, two campaigns, or a history of them.

    With --points: outcomes and mechanisms at A and B, their ratios B/A with 95 % intervals; with --functions also
    which functions explain the difference. Of two campaigns, A is a point of the first and B one of the second;
    without --points all points that both have are compared: each outcome of the second is better, worse, the same or
    undecided, by the smallest effect of interest. With --levels the same is said of two levels of a factor, whose trials
    are pairs where they lie in one block. Two campaigns differ by their sessions, too: name more of the first kind with --also,
    or the verdict holds within these two sessions. Of eight campaigns and more: which of them brought a change.

    \b
    Examples:
      iodyno compare CAMPAIGN --points 'connections=32,window=256k,size=64k' \\
        'connections=32,window=256k,size=1k' --functions
      iodyno compare CAMPAIGN --points p01 p07 --functions --host server \\
        --by inclusive
      iodyno compare BEFORE AFTER --least 5%
      iodyno compare BEFORE AFTER --also BEFORE2 --also BEFORE3
      iodyno compare BEFORE AFTER --format csv > compared.csv
      iodyno compare BEFORE AFTER --fail-if worse --junit junit.xml
      iodyno compare CAMPAIGN --levels 'size=1KiB/size=64KiB'
      iodyno compare campaigns/nightly-* --cluster local
      iodyno compare BEFORE AFTER --points size=1KiB size=1KiB --functions --json
    """
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.decisions.ladder import ladder
    from iodyno.analysis.summary import analyse, analyse_campaign
    from iodyno.report.compared import verdicts_shown

    if len(campaigns) > 2 and (points or functions or levels):
        raise ExperimentError(
            f"invalid value: {len(campaigns)} campaigns; expected 1 or 2 with --points, --functions and --levels",
            where="CAMPAIGN",
            advice="name two of them, or leave these options out to see when something changed",
        )
    if levels and (points or functions or len(campaigns) > 1):
        raise ExperimentError(
            "compares two levels within one campaign, without --points and --functions",
            where="--levels",
            advice="iodyno compare CAMPAIGN --levels 'size=1KiB/size=64KiB'",
        )
    if also and (len(campaigns) != 2 or points or functions):
        raise ExperimentError(
            "is about two campaigns, without --points and --functions",
            where="--also",
            advice="iodyno compare BEFORE AFTER --also BEFORE2",
        )
    if (fail_if or junit) and (points or functions or len(campaigns) > 2):
        raise click.UsageError(
            "--fail-if and --junit can only be used with verdicts on two campaigns or levels"
        )
    if cluster and points:
        raise ExperimentError("cannot be used with --points", where="--cluster", advice="leave it out")
    with workers(cluster) as each:
        if points is None:
            datasets = []
            summaries = list(each(analyse_campaign, campaigns))
            others = sessions_beside(summaries, also, each) if len(campaigns) == 2 else []
        else:
            others = []
            datasets = [read_dataset(folder) for folder in campaigns]
            summaries = [analyse(dataset) for dataset in datasets]
    steps = read_dataset(noise) if noise else None
    measured = ladder(steps).outcomes if steps else ()
    if steps:
        tell_lost(steps.folder, steps.trials)
    if form == "csv" and not points:  # which has no place for warnings
        for summary in (*summaries, *others):
            tell_lost(summary.folder, summary.trials)
    if levels:
        of_levels = compare_levels(summaries[0], levels, least=least, control=control, noise=measured)
        show(verdicts_shown(of_levels, verbose=verbose), form)
        _conclude(of_levels, fail_if, junit)
        return
    if len(campaigns) > 2:
        show(compare_history(summaries, verbose=verbose), form)
        return
    if points is None:
        if len(campaigns) == 1 or functions:
            example = " ".join(f"'{summaries[0].name_of(p)}'" for p in summaries[0].points[:2])
            raise ExperimentError(
                "the two points are missing", where="--points", advice=f"--points {example}"
            )
        verdicts = compare_campaigns(*summaries, least=least, control=control, noise=measured, also=others)
        show(verdicts_shown(verdicts, verbose=verbose), form)
        _conclude(verdicts, fail_if, junit)
        return
    from iodyno.analysis.two_points import Side
    from iodyno.report.compared_points import functions_shown, points_shown

    first, second = (
        Side(datasets[at], summaries[at], choose_point(summaries[at], written, "--points"))
        for at, written in zip((0, len(campaigns) - 1), points, strict=True)
    )
    for side in (first, second):
        tell_lost(side.summary.folder, [t for t in side.summary.trials if t.point == side.point.id])
    if functions:
        of_host = choose_host(first.summary, host)
        brief = form in ("text", "markdown") and not verbose
        show(functions_shown(first, second, of_host, top if brief else top or TOP, by, verbose=verbose), form)
    else:
        show(points_shown(first, second, verbose=verbose), form)


def _conclude(compared: Compared, fail_if: str | None, written_to: Path | None) -> None:
    """Writes the JUnit file, and raises ExpectationError for what `fail_if` names; says so where nothing could be judged."""
    if fail_if is None and written_to is None:
        return
    from iodyno.report.verdicts import ratio_text

    wrong = {"worse": ("worse",), "undecided": ("worse", "undecided"), None: ()}[fail_if]
    checked, reasons = [], []
    for each in compared.found:
        for verdict in each.verdicts:
            ratio = "" if verdict.ratio is None else f", B/A {ratio_text(verdict)}"
            said = f"{verdict.answer}{ratio}" + (f": {verdict.reason}" if verdict.reason else "")
            why = said if verdict.answer in wrong else ""
            skipped = said if verdict.answer == "undecided" and not why else ""
            checked.append(expectations.Checked(f"{each.pair.title}: {verdict.outcome}", why, skipped))
            reasons.append(
                (verdict.reason or "the interval reaches over the least effect")
                if verdict.answer == "undecided"
                else ""
            )
    if all(reasons):
        each_why = "; ".join(dict.fromkeys(reasons)) or "there is no outcome that both have"
        to_stderr(f"iodyno: note: nothing was judged: {each_why}")
    expectations.conclude("iodyno compare", checked, written_to)
