"""`iodyno compare`: why does one case cost more than another, and what did a change bring?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli import expect as expectations
from iodyno.cli.campaign_argument import complete_campaign
from iodyno.cli.compare_verdicts import (
    compare_campaigns,
    compare_history,
    compare_levels,
    sessions_beside,
)
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.point_choice import choose_host, choose_point, complete_host, complete_point
from iodyno.cli.share import SHARE
from iodyno.cli.workers import cluster_option, workers
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.quantity import counted
from iodyno.report.form import Block, Form, Shown

if TYPE_CHECKING:
    from iodyno.analysis.compare import OutcomeChange
    from iodyno.analysis.dataset import Dataset
    from iodyno.analysis.decisions.verdicts import Control
    from iodyno.analysis.function_change import ProfileChange
    from iodyno.analysis.functions import Part
    from iodyno.analysis.mechanisms import Mechanism, MechanismChange
    from iodyno.analysis.results import CampaignSummary, PointSummary
    from iodyno.analysis.setting_changes import SettingChange
    from iodyno.report.compared import Compared

TOP = 20
"""Functions shown (chosen: a screen; the rest explains little)."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a campaign and a point of it."""

    dataset: Dataset
    summary: CampaignSummary
    point: PointSummary

    @property
    def title(self) -> str:
        """The point as it is written."""
        return self.summary.name_of(self.point)


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
@click.option("--top", type=click.IntRange(min=1), default=TOP, show_default=True, help="Functions to show.")
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
    help="A campaign of `iodyno noise`: effects below its floor are not claimed.",
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
    help="Exit code 1 where an outcome is worse; `undecided`: where it is neither better nor the same.",
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
    top: int,
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
    from iodyno.analysis.compare import outcome_changes
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.decisions.ladder import ladder
    from iodyno.analysis.path_steps import step_changes
    from iodyno.analysis.summary import analyse, analyse_campaign
    from iodyno.report.compared import change_rows_of, verdicts_shown
    from iodyno.report.function_json import (
        change_values,
        mechanism_change_values,
        outcome_change_values,
        profile_values,
        step_values,
    )
    from iodyno.report.function_sentences import cost_of, why
    from iodyno.report.function_tables import basis_note, change_table, comparison_note

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
            datasets = [read_dataset(folder) for folder in campaigns]
            summaries = [analyse(dataset) for dataset in datasets]
    measured = ladder(read_dataset(noise)).outcomes if noise else ()
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
    first, second = (
        Side(datasets[at], summaries[at], choose_point(summaries[at], written, "--points"))
        for at, written in zip((0, len(campaigns) - 1), points, strict=True)
    )
    changes = _mechanism_changes(first, second)
    outcomes = outcome_changes(first.point.outcomes, second.point.outcomes)
    if not functions:
        show(_points_shown(first, second, outcomes, changes, verbose=verbose), form)
        return
    change = _profile_change(first, second, choose_host(first.summary, host))
    known = [factor for side in (first, second) for factor in side.summary.factors]
    factors = list(dict.fromkeys(factor.name for factor in known if factor.varies))
    together = list(dict.fromkeys(name for factor in known for name in factor.together))
    costs = [
        cost_of(profile, side.point.outcomes)
        for profile, side in ((change.first, first), (change.second, second))
    ]
    sentences = why(change, changes, factors, together, (costs[0], costs[1]))

    def values() -> dict[str, Any]:
        return _sides(first, second) | {
            "host": change.first.host,
            "functions": change_values(change, top, by),
            "first_profile": profile_values(change.first, top, by),
            "second_profile": profile_values(change.second, top, by),
            "mechanisms": mechanism_change_values(changes),
            "steps": step_values(step_changes(change, changes)),
            "outcomes": outcome_change_values(outcomes, (first.point, second.point)),
            "sentences": [sentence.text for sentence in sentences],
            "note": comparison_note(change),
        }

    def blocks() -> Iterator[Block]:
        for sentence in sentences:
            yield sentence.text
        yield ""
        yield _heading(first, second) + f"\nhost {change.first.host}\n"
        yield change_table(change, top, by)
        yield comparison_note(change) + "\n"
        yield from _mechanism_blocks(changes)
        for side, profile in (("A", change.first), ("B", change.second)):
            yield f"{side}: {basis_note(profile)}"
            for warning in profile.warnings:
                yield f"warning: {warning.text}"

    rows = change_rows_of(change.first.host, change_values(change, None, by))
    show(Shown(blocks, values, lambda: rows), form)


def _conclude(compared: Compared, fail_if: str | None, written_to: Path | None) -> None:
    """Writes the JUnit file, and raises ExpectationError for what `fail_if` names."""
    if fail_if is None and written_to is None:
        return
    wrong = {"worse": ("worse",), "undecided": ("worse", "undecided"), None: ()}[fail_if]
    checked = []
    for each in compared.found:
        for verdict in each.verdicts:
            ratio = "" if verdict.ratio is None else f", B/A {verdict.ratio:.3g}"
            bounds = (
                ""
                if verdict.low is None or verdict.high is None
                else f" [{verdict.low:.3g}, {verdict.high:.3g}]"
            )
            why = f"{verdict.answer}{ratio}{bounds}" if verdict.answer in wrong else ""
            checked.append(expectations.Checked(f"{each.pair.title}: {verdict.outcome}", why))
    expectations.conclude("iodyno compare", checked, written_to)


def _points_shown(
    first: Side,
    second: Side,
    outcomes: list[OutcomeChange],
    changes: list[MechanismChange],
    *,
    verbose: bool,
) -> Shown:
    from iodyno.report.compared import points_headline
    from iodyno.report.csv import change_rows
    from iodyno.report.function_json import mechanism_change_values, outcome_change_values
    from iodyno.report.function_tables import outcome_change_table

    def values() -> dict[str, Any]:
        return _sides(first, second) | {
            "outcomes": outcome_change_values(outcomes, (first.point, second.point)),
            "mechanisms": mechanism_change_values(changes),
            "note": _outcome_note(len(outcomes)),
        }

    def blocks() -> Iterator[Block]:
        asked = first.summary.asked
        sessions = len({first.summary.folder, second.summary.folder})
        yield points_headline(outcomes, _places(first, second), _apart(first, second), asked, sessions)
        if not verbose:
            return
        yield ""
        if outcomes:
            yield outcome_change_table("Outcomes", outcomes, (first.point, second.point))
        yield from _mechanism_blocks(changes)
        ratios = [*(one.ratio for one in outcomes), *(one.ratio for one in changes)]
        compared = sum(ratio.estimate is not None for ratio in ratios)
        if compared:
            yield _outcome_note(compared)

    return Shown(blocks, values, lambda: change_rows(outcomes))


def _mechanism_blocks(changes: list[MechanismChange]) -> Iterator[Block]:
    from iodyno.report.function_tables import mechanism_change_table, not_measured

    table = mechanism_change_table(changes)
    if table.rows:
        yield table
    for line in not_measured(changes):
        yield f"not measured: {line}"


def _profile_change(first: Side, second: Side, host: str) -> ProfileChange:
    from iodyno.analysis.function_change import profile_change, why_not_compared
    from iodyno.analysis.functions import read_profiles

    same = first.dataset is second.dataset
    profiles = [
        read_profiles(
            first.dataset, dict.fromkeys((first.point.id, second.point.id) if same else (first.point.id,))
        )
    ]
    profiles.append(profiles[0] if same else read_profiles(second.dataset, (second.point.id,)))  # fmt: skip
    for side, found in zip((first, second), profiles, strict=True):
        if (side.point.id, host) not in found.found:
            reason = found.missing.get((side.point.id, host), f"{host} is no host of this campaign")
            raise StoreError(
                f"there is no profile of {host} at {side.title}: {reason}",
                where=side.summary.folder,
                advice="`iodyno run` samples call stacks unless the experiment says `profile: off`",
            )
    a, b = profiles[0].found[first.point.id, host], profiles[1].found[second.point.id, host]
    if reason := why_not_compared(a, b):
        raise StoreError(
            f"the functions of {host} cannot be compared: {reason}",
            where=second.summary.folder,
            advice="`iodyno profile` shows each by itself",
        )
    return profile_change(a, b)


def _mechanism_changes(first: Side, second: Side) -> list[MechanismChange]:
    from iodyno.analysis.mechanisms import mechanism_changes, mechanisms

    found: list[list[Mechanism]] = []
    for side in (first, second):
        trials = [t for t in side.dataset.trials if t.finished and t.point == side.point.id]
        found.append(mechanisms(trials, side.dataset.hosts))
    return mechanism_changes(*found)


def _places(first: Side, second: Side) -> list[tuple[str, str]]:
    two = first.summary.folder != second.summary.folder
    return [
        (
            letter,
            f"{side.title}{f', {side.summary.folder}' if two else ''} ({counted(side.point.finished, 'trial')})",
        )
        for letter, side in (("A", first), ("B", second))
    ]


def _heading(first: Side, second: Side) -> str:
    two = first.summary.folder != second.summary.folder
    from iodyno.report.verdicts import WITHIN

    lines = [f"{letter}: {text}" for letter, text in _places(first, second)]
    return "\n".join((*lines, *_apart(first, second), *([f"{WITHIN}."] if two else [])))


def _apart(first: Side, second: Side) -> list[str]:
    """List the differences between two points of two campaigns, in a line; of one campaign their names say it."""
    from iodyno.analysis.setting_changes import WORKLOAD

    found = _setting_changes(first, second)
    if found and found[0].name == WORKLOAD:
        return [
            f"the workloads differ: {found[0].first} in A and {found[0].second} in B; of two kinds of work neither is the "
            "cause of the other's cost"
        ]
    parts = [f"{one.name} {one.first or 'not set'} in A and {one.second or 'not set'} in B" for one in found]
    return [f"set differently: {'; '.join(parts)}"] if parts else []


def _setting_changes(first: Side, second: Side) -> list[SettingChange]:
    from iodyno.analysis.setting_changes import setting_changes

    if first.dataset is second.dataset:
        return []
    return setting_changes((first.dataset, first.point.id), (second.dataset, second.point.id))


def _sides(first: Side, second: Side) -> dict[str, Any]:
    apart = [
        {"name": one.name, "first": one.first, "second": one.second}
        for one in _setting_changes(first, second)
    ]
    return {"set_differently": apart} | {
        name: {
            "campaign": side.summary.folder,
            "point": side.point.id,
            "levels": dict(side.point.levels),
            "labels": dict(side.point.labels),
            "trials": side.point.finished,
        }
        for name, side in (("first", first), ("second", second))
    }


def _outcome_note(compared: int) -> str:
    return (
        f"± and brackets are 95 % intervals over trials; ratios are B over A. Undecided: the interval spans 1. Of "
        f"{compared} ratios one in twenty of what did not change leaves out 1 by chance. ?: unreliable, as steal time is over "
        "1 %."
    )
