"""Verdicts of `iodyno compare` on two campaigns, on two levels of a factor, and on a history of campaigns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.core.errors import ExperimentError
from iodyno.core.factor import parameter_of
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.core.workload import Level
from iodyno.loads.base.workloads import workload_of_stored

if TYPE_CHECKING:
    from iodyno.analysis.decisions.noise import Noise
    from iodyno.analysis.decisions.verdicts import Control
    from iodyno.analysis.results import CampaignSummary
    from iodyno.cluster import Each
    from iodyno.report.compared import Compared
    from iodyno.report.form import Shown

_LEVELS = re.compile(
    r"\s*(?P<factor>[^=/\s]+)\s*=\s*(?P<a>[^=/]+?)\s*/\s*(?P=factor)\s*=\s*(?P<b>[^=/]+?)\s*"
)


def compare_campaigns(
    first: CampaignSummary,
    second: CampaignSummary,
    *,
    least: float,
    control: Control,
    noise: Sequence[Noise] = (),
    also: Sequence[CampaignSummary] = (),
) -> Compared:
    """Return the verdicts on all points that both campaigns have, by their levels; the outcomes that the first asks for.

    `also`: further campaigns of the first kind.
    """
    from iodyno.analysis.decisions.sides import compare, shared_points
    from iodyno.analysis.setting_changes import setting_changes
    from iodyno.report.compared import Compared, apart_lines, apart_values

    pairs = shared_points(first, second)
    if not pairs:
        raise ExperimentError(
            "the two campaigns have no point in common",
            where="CAMPAIGN",
            advice="name one of each: --points A B",
        )
    found = compare(pairs, (first, second), least=least, control=control, noise=noise, also=also)
    alone = len(first.points) + len(second.points) - 2 * len(pairs)
    apart = setting_changes(first, second, [(pair.first, pair.second) for pair in pairs])
    warnings = apart_lines(apart)
    if first.tier != second.tier:
        warnings.append(f"cycles are of tier {first.tier} in A and {second.tier} in B: do not compare them")
    for other in also:
        if names := _set_differently(first, other):
            warnings.append(
                f"{other.folder} is set differently from A ({names}): it tells more than sessions differ by"
            )
    warnings += _left_out(first, second, *also)
    if alone:
        are = "is" if alone == 1 else "are"
        warnings.insert(0, f"{counted(alone, 'point')} {are} in one of the campaigns only, and left out")
    head = {
        "first": {"campaign": first.folder, "created": first.created},
        "second": {"campaign": second.folder, "created": second.created},
        "also": [{"campaign": other.folder, "created": other.created} for other in also],
        "points_of_one_only": alone,
        **apart_values(apart),
    }
    of_first = f", and {counted(len(also), 'more campaign')} like it" if also else ""
    sides = [("A", f"{_dated(first)}{of_first}"), ("B", _dated(second))]
    return Compared(found, sides, head, least, control, warnings)


def _left_out(*summaries: CampaignSummary) -> list[str]:
    """Say of each campaign which of its trials do not count."""
    from iodyno.analysis.results import lost_note

    return [said for summary in summaries if (said := lost_note(summary.folder, summary.trials))]


def _set_differently(first: CampaignSummary, second: CampaignSummary) -> str:
    """Name what is set differently at the points that both have."""
    from iodyno.analysis.decisions.sides import shared_points
    from iodyno.analysis.setting_changes import setting_changes

    pairs = [(pair.first, pair.second) for pair in shared_points(first, second)]
    return ", ".join(dict.fromkeys(one.name for one in setting_changes(first, second, pairs)))


def _dated(summary: CampaignSummary) -> str:
    return f"{summary.folder} ({summary.created[:16].replace('T', ' ')})"


def sessions_beside(
    two: Sequence[CampaignSummary], also: Sequence[Path], each: Each
) -> list[CampaignSummary]:
    """The further campaigns of the first of `two`, analysed.

    Raises ExperimentError for one that cannot tell what sessions differ by: counted already, of other work, with other points.
    """
    from iodyno.analysis.summary import analyse_campaign

    known = {Path(summary.folder).resolve() for summary in two}
    labels = {tuple(sorted(point.labels.items())) for point in two[0].points}
    for folder in also:
        if folder.resolve() in known:
            raise ExperimentError(
                f"{folder} is one of the campaigns already",
                where="--also",
                advice="name other campaigns of the same experiment",
            )
        known.add(folder.resolve())
    found = list(each(analyse_campaign, also))
    for folder, summary in zip(also, found, strict=True):
        other_work = summary.workload.get("kind") != two[0].workload.get("kind")
        if other_work or labels.isdisjoint(tuple(sorted(point.labels.items())) for point in summary.points):
            raise ExperimentError(
                f"{folder} has {'another workload' if other_work else 'no point in common'}",
                where="--also",
                advice="name campaigns of the same experiment as the first",
            )
    return found


def compare_levels(
    summary: CampaignSummary,
    written: str,
    *,
    least: float,
    control: Control,
    noise: Sequence[Noise] = (),
) -> Compared:
    """Return the verdicts on two levels of a factor at every combination of the others; trials of a block are pairs."""
    from iodyno.analysis.decisions.sides import Pair, compare, judged_outcomes, of_levels
    from iodyno.report.compared import Compared

    factor, first, second = _levels(summary, written)
    points = of_levels(summary, factor, first, second)
    if not points:
        raise ExperimentError(
            f"no two points differ in {factor} alone at these levels",
            where="--levels",
            advice="name two points: --points A B",
        )
    pairs = [Pair(title, mine, other, judged_outcomes(summary)) for title, mine, other in points]
    found = compare(pairs, (summary, summary), least=least, control=control, noise=noise)
    a, b = (f"{factor}={point.labels[factor]}" for point in points[0][1:])
    sides = [("A", a), ("B", f"{b}, trials paired by block, {summary.folder}")]
    head = {"campaign": summary.folder, "levels": written}
    return Compared(found, sides, head, least, control, _left_out(summary))


def compare_history(summaries: Sequence[CampaignSummary], *, verbose: bool) -> Shown:
    """Return which campaign of the history brought a change; in the order in which they were made."""
    from iodyno.analysis.decisions.sides import histories
    from iodyno.report.compared import history_shown

    ordered = sorted(summaries, key=lambda summary: summary.created)
    series = histories(ordered)
    if not series:
        raise ExperimentError(
            "no point is in three of the campaigns",
            where="CAMPAIGN",
            advice="name campaigns of the same experiment",
        )
    warnings = [
        f"{after.folder} is set differently from the campaign before it ({names})"
        for before, after in pairwise(ordered)
        if (names := _set_differently(before, after))
    ]
    warnings += _left_out(*ordered)
    campaigns = [(each.folder, each.created) for each in ordered]
    return history_shown(series, campaigns, warnings, verbose=verbose)


def _levels(summary: CampaignSummary, written: str) -> tuple[str, Level, Level]:
    """The factor and its two levels in base units. Raises ExperimentError with what there is."""
    factors = {factor.name: factor for factor in summary.factors if factor.varies}
    example = next(
        (
            f"{f.name}={summary.factor_labels[f.name][0]}/{f.name}={summary.factor_labels[f.name][-1]}"
            for f in factors.values()
        ),
        "size=1KiB/size=64KiB",
    )
    match = _LEVELS.fullmatch(written)
    if match is None or match["factor"] not in factors:
        listed = ", ".join(factors) or "none, as nothing varies"
        raise ExperimentError(
            invalid(written, f"two levels of one factor; the factors are {listed}"),
            where="--levels",
            advice=f"--levels {example}",
        )
    factor = factors[match["factor"]]
    parameter = parameter_of(workload_of_stored(summary.workload), factor.name)
    found: list[Level] = []
    for text in (match["a"], match["b"]):
        try:
            level: Level = parameter.parse(text) if parameter else text
        except ValueError as problem:
            raise ExperimentError(
                f"{factor.name}: {problem}", where="--levels", advice=f"--levels {example}"
            ) from None
        if level not in factor.levels:
            labels = ", ".join(summary.factor_labels[factor.name])
            raise ExperimentError(
                f"unknown level {text!r} of {factor.name}: expected {labels}",
                where="--levels",
                advice=f"--levels {example}",
            )
        found.append(level)
    if found[0] == found[1]:
        raise ExperimentError(
            f"invalid value {written!r}: one level twice", where="--levels", advice=f"--levels {example}"
        )
    return factor.name, found[0], found[1]
