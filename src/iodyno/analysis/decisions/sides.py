"""Sides of a comparison: trials of two campaigns, of two points, or of two levels of a factor in the same blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iodyno.analysis.decisions.history import History, history
from iodyno.analysis.decisions.noise import Noise
from iodyno.analysis.decisions.verdicts import Control, Sides, Verdict, judge
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.workload import Level


@dataclass(frozen=True)
class Pair:
    """Two points that are compared: `title` says where, `outcomes` which."""

    title: str
    first: PointSummary
    second: PointSummary
    outcomes: tuple[str, ...]


@dataclass(frozen=True)
class PairVerdicts:
    """The verdicts on one pair of points."""

    pair: Pair
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class Series:
    """The history of one outcome at one point: per campaign the trials' values, and what changed."""

    title: str
    outcome: str
    values: tuple[tuple[float, ...], ...]
    history: History


_OF_BUSY_TIME = {"cycles_per_kib": "cpu_ns_per_kib", "bytes_per_cycle": "cpu_ns_per_kib"}
"""Outcomes in cycles, and the CPU time that they are a multiple of where no cycles were counted."""


def judged_outcomes(*campaigns: CampaignSummary) -> tuple[str, ...]:
    """Return the outcomes that the first campaign asks for, each cost once."""
    return counted_once(campaigns[0].asked, *campaigns)


def counted_once(names: Sequence[str], *campaigns: CampaignSummary) -> tuple[str, ...]:
    """Return the outcomes less those that would count one cost twice: where no campaign counted cycles they are busy time by a
    constant, and have the ratio of the CPU time that is beside them.
    """
    if any(campaign.tier != "tsc" for campaign in campaigns):
        return tuple(names)
    return tuple(name for name in names if busy_time(name) == name or busy_time(name) not in names)


def busy_time(outcome: str) -> str:
    """Name the CPU time that an outcome in cycles is a multiple of where no cycles were counted; of another, itself."""
    host, dot, name = outcome.rpartition(".")
    return f"{host}{dot}{_OF_BUSY_TIME.get(name, name)}"


def shared_points(first: CampaignSummary, second: CampaignSummary) -> list[Pair]:
    """Pair the points that both campaigns have, by their levels; the outcomes are those that the first asks for."""
    outcomes = judged_outcomes(first, second)
    by_levels = {tuple(sorted(point.labels.items())): point for point in second.points}
    return [
        Pair(first.name_of(mine), mine, other, outcomes)
        for mine in first.points
        if (other := by_levels.get(tuple(sorted(mine.labels.items()))))
    ]


def compare(
    pairs: Sequence[Pair],
    campaigns: tuple[CampaignSummary, CampaignSummary],
    *,
    least: float,
    control: Control,
    noise: Sequence[Noise] = (),
    also: Sequence[CampaignSummary] = (),
) -> list[PairVerdicts]:
    """The verdicts on all pairs, corrected together; trials of one campaign are paired by their block.

    `noise`: of a ladder; the least effect is raised by what two campaigns differ by there. `also`: further campaigns of the first
    kind, from which it is learnt what sessions differ by.
    """
    ladder = {each.outcome: each for each in noise}
    same = Path(campaigns[0].folder).resolve() == Path(campaigns[1].folder).resolve()
    sides = []
    for pair in pairs:
        for outcome in pair.outcomes:
            sides.append(
                Sides(
                    outcome,
                    _by_block(campaigns[0], pair.first, outcome, same),
                    _by_block(campaigns[1], pair.second, outcome, same),
                    paired=same,
                    missing=_missing(pair, outcome),
                    apart=None if same or outcome not in ladder else ladder[outcome].apart,
                    counting=_counting(pair, outcome),
                    sessions=_sessions(also, pair, outcome),
                )
            )
    verdicts = iter(judge(sides, least=least, control=control))
    return [PairVerdicts(pair, tuple(next(verdicts) for _ in pair.outcomes)) for pair in pairs]


def of_levels(
    summary: CampaignSummary, factor: str, first: Level, second: Level
) -> list[tuple[str, PointSummary, PointSummary]]:
    """Points that differ in this factor alone, first level against second, with the levels of the others as a title."""
    found = []
    for mine in summary.points:
        if mine.levels.get(factor) != first:
            continue
        wanted = {**mine.levels, factor: second}
        other = next((point for point in summary.points if dict(point.levels) == wanted), None)
        if other is not None:
            rest = [f"{name}={text}" for name, text in mine.labels.items() if name != factor]
            found.append((",".join(rest) or summary.name, mine, other))
    return found


def histories(summaries: Sequence[CampaignSummary], seed: int = 1) -> list[Series]:
    """The history of every outcome asked for, at every point that three campaigns or more have; oldest first."""
    outcomes = judged_outcomes(*summaries)
    found = []
    points: dict[tuple[tuple[str, str], ...], None] = {}
    for summary in summaries:
        points |= dict.fromkeys(tuple(sorted(point.labels.items())) for point in summary.points)
    for labels in points:
        at = [_point_at(summary, labels) for summary in summaries]
        if sum(point is not None for point in at) < 3:
            continue
        for outcome in outcomes:
            values = tuple(
                tuple(_values(summary, point, outcome)) if point else ()
                for summary, point in zip(summaries, at, strict=True)
            )
            title = ",".join(f"{name}={text}" for name, text in labels)
            found.append(Series(title, outcome, values, history(values, seed=seed)))
    return found


def _point_at(summary: CampaignSummary, labels: tuple[tuple[str, str], ...]) -> PointSummary | None:
    return next((point for point in summary.points if tuple(sorted(point.labels.items())) == labels), None)


def _values(summary: CampaignSummary, point: PointSummary, outcome: str) -> list[float]:
    return list(_by_block(summary, point, outcome, False).values())


def _by_block(
    summary: CampaignSummary, point: PointSummary, outcome: str, paired: bool
) -> Mapping[int, float]:
    """Values of the finished trials at the point, by block where blocks are pairs; a block's trials are averaged."""
    found: dict[int, list[float]] = {}
    for trial in summary.trials:
        value = trial.outcomes.get(outcome)
        if trial.point == point.id and trial.status == "finished" and value is not None:
            found.setdefault(trial.block if paired else trial.order, []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


def _sessions(also: Sequence[CampaignSummary], pair: Pair, outcome: str) -> tuple[tuple[float, ...], ...]:
    labels = tuple(sorted(pair.first.labels.items()))
    at = [(summary, _point_at(summary, labels)) for summary in also]
    found = [tuple(_values(summary, point, outcome)) for summary, point in at if point]
    return tuple(values for values in found if values)


def _counting(pair: Pair, outcome: str) -> float:
    known = (pair.first.outcomes.get(outcome), pair.second.outcomes.get(outcome))
    return math.hypot(*(one.counting / one.estimate for one in known if one and one.estimate))


def _missing(pair: Pair, outcome: str) -> str:
    for point in (pair.first, pair.second):
        known = point.outcomes.get(outcome)
        if known is None:
            return f"{outcome} is no outcome of both"
        if known.estimate is None:
            return known.missing or "missing"
    return ""
