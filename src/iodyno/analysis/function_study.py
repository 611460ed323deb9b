"""Everything that a report says by function: profiles and mechanisms of all points, and the contrasts that tell most."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from iodyno.analysis.call_tree import CallTree, call_tree
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import FactorLevels, factors_of
from iodyno.analysis.function_change import ProfileChange, profile_change, why_not_compared
from iodyno.analysis.functions import PointProfile, Profiles, profiles_at
from iodyno.analysis.mechanisms import Mechanism, MechanismChange, mechanism_changes, mechanisms
from iodyno.analysis.stacks import read_stacks
from iodyno.analysis.trial import Trial
from iodyno.core.experiment import stored_ends
from iodyno.core.workload import Level

CONTRASTS_MOST = 3
"""Contrasts that a report shows (chosen: `iodyno compare` sets any two points against each other)."""
TRIALS_OF_POINT = 12
"""Trials of a point of a large campaign whose call stacks are looked at (chosen: a page is to be written in a minute; intervals
over so many are 0.6 standard deviations wide to either side).
"""
LOAD = "connections"


@dataclass(frozen=True)
class Contrast:
    """Two points that differ in one factor, the first the cheaper or the less loaded one, on one host."""

    factor: str
    change: ProfileChange
    mechanisms: tuple[MechanismChange, ...]

    @cached_property
    def tree(self) -> CallTree:
        """Both call trees as one, with what each path took before."""
        return call_tree(self.change.second, self.change.first)


@dataclass(frozen=True)
class FunctionStudy:
    """Profiles by point and host, mechanisms by point, contrasts by host with the sender's first.

    `factors`: those that vary; `together`: what is set along with one of them.
    """

    profiles: Profiles = field(default_factory=lambda: Profiles({}, {}))
    mechanisms: Mapping[str, Sequence[Mechanism]] = field(default_factory=dict)
    contrasts: tuple[Contrast, ...] = ()
    factors: tuple[str, ...] = ()
    together: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.profiles)

    def hosts(self, point: str) -> list[PointProfile]:
        """The profiles of a point, in the order of the hosts."""
        return [profile for (at, _), profile in self.profiles.found.items() if at == point]

    def tree(self, profile: PointProfile) -> CallTree:
        """The call tree of one of its profiles."""
        return call_tree(profile)


def study_functions(dataset: Dataset, points: Collection[str] | None = None) -> FunctionStudy:
    """The study of a campaign, empty where no profile was taken; of a large one that of some `points`."""
    if points is not None:
        dataset = _part(dataset, points)
    table = read_stacks(dataset)
    by_point: dict[str, list[Trial]] = {}
    for trial in dataset.trials:
        if trial.finished:
            by_point.setdefault(trial.point, []).append(trial)
    profiles, behind = Profiles({}, {}), {}
    with dataset.without_times():
        for point, trials in by_point.items():
            profiles |= profiles_at(dataset, table, point, trials)
            # Beside the profiles, as the rows of a large campaign are in memory a few trials at a time.
            if table.trials:
                behind[point] = tuple(mechanisms(trials, dataset.hosts, dataset.in_turn))
    if not profiles:
        return FunctionStudy(profiles)
    factors = [factor for factor in factors_of(dataset) if factor.varies]
    workload = dataset.experiment.get("workload") or {}
    senders, _ = stored_ends(workload)
    sending = {*senders, *(name for name, among in dataset.members.items() if among == senders)}
    hosts = sorted(dataset.hosts, key=lambda name: name not in sending)
    asked = dataset.experiment.get("explain") or {}
    pairs = _pairs([p for (_, host), p in profiles.found.items() if host == hosts[0]], factors, asked)
    contrasts = [
        Contrast(
            factor,
            profile_change(profiles.found[first, host], profiles.found[second, host]),
            tuple(mechanism_changes(behind[first], behind[second])),
        )
        for factor, first, second in pairs
        for host in hosts
        if (first, host) in profiles.found
        and (second, host) in profiles.found
        and not why_not_compared(profiles.found[first, host], profiles.found[second, host])
    ]
    return FunctionStudy(
        profiles,
        behind,
        tuple(contrasts),
        tuple(factor.name for factor in factors),
        tuple(name for factor in factors for name in factor.together),
    )


def _part(dataset: Dataset, points: Collection[str]) -> Dataset:
    """A campaign as if it had these points alone, and of each no more trials than are looked at, evenly spread over it."""
    by_point: dict[str, list[Trial]] = {point: [] for point in points}
    for trial in dataset.trials:
        if trial.finished and trial.point in by_point:
            by_point[trial.point].append(trial)
    chosen: list[Trial] = []
    for each in by_point.values():
        count = min(TRIALS_OF_POINT, len(each))
        chosen += (each[place * len(each) // count] for place in range(count))
    names = {trial.name for trial in chosen}
    stored = dataset.stored and replace(
        dataset.stored, trials=tuple(trial for trial in dataset.stored.trials if trial.name in names)
    )
    return replace(dataset, trials=sorted(chosen, key=lambda trial: trial.order), stored=stored)


def _pairs(
    profiles: Sequence[PointProfile],
    factors: Sequence[FactorLevels],
    asked: Mapping[str, Sequence[Level]],
) -> Iterable[tuple[str, str, str]]:
    """Two points for each factor, all others held: where their cost differs most.

    From one to the other of the levels that the experiment asks about, where the campaign has both. Else for the load from its
    least to its most, for any other factor from its cheapest level to its costliest.
    """
    ordered = sorted(factors, key=lambda factor: (factor.name not in asked, factor.name == LOAD))
    for factor in ordered[:CONTRASTS_MOST]:
        groups: dict[tuple[object, ...], list[PointProfile]] = {}
        for profile in profiles:
            others = tuple(profile.levels.get(other.name) for other in factors if other is not factor)
            groups.setdefault(others, []).append(profile)
        found = []
        for group in groups.values():
            if len(group) < 2:
                continue
            at = {profile.levels[factor.name]: profile for profile in group}
            wanted = asked.get(factor.name, ())
            if wanted and all(level in at for level in wanted):
                found.append((at[wanted[0]], at[wanted[1]]))
                continue
            if factor.name == LOAD:
                group.sort(key=lambda p: factor.levels.index(p.levels[factor.name]))
            else:
                group.sort(key=_cost)
            found.append((group[0], group[-1]))
        if found:
            first, second = max(found, key=lambda pair: _cost(pair[1]) / _cost(pair[0]))
            yield factor.name, first.point, second.point


def _cost(profile: PointProfile) -> float:
    return profile.cost.estimate or 0.0
