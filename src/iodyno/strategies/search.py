"""Who searches for the largest level that meets a goal: reads the finished trials, and says what to try next."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.campaign.seek import Searched
from iodyno.core.design import Design, Point
from iodyno.core.experiment import Experiment
from iodyno.core.search import Found, SearchSpec, Step, Tried

if TYPE_CHECKING:
    from iodyno.analysis.dataset import Trial
    from iodyno.designs.bisection import Standing


@dataclass(frozen=True)
class _History:
    """What was tried at a point of the design. `stuck`: why a trial tells nothing, which ends the search there."""

    tried: tuple[Tried, ...]
    spent_ns: int
    stuck: str = ""


class GoalSeeker:
    """Searches at one point of the design after the other, by probabilistic bisection."""

    def __init__(self, spec: SearchSpec) -> None:
        self._spec = spec
        self._begun_ns: dict[str, int] = {}

    def next(
        self, experiment: Experiment, design: Design, folder: Path, searched: Searched
    ) -> tuple[Step | None, Sequence[Found]]:
        """The next level at the first point whose search has not ended; None when all have."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.analysis.dataset import read_dataset
        from iodyno.designs.bisection import standing

        trials = {trial.order: trial for trial in read_dataset(folder).trials}
        found: list[Found] = []
        for base in design.points:
            history = self._history(base, searched, trials)
            now = standing(history.tried, self._spec.low, self._spec.high, self._spec.precision)
            found.append(self._found(base, history, now))
            if not found[-1].ended:
                assert now.next_level is not None
                return self._step(base, now.next_level), found
        return None, found

    def _spent_ns(self, base: Point, history: _History) -> int:
        """Time of the search at a point: that of its trials, or, when it was not interrupted, all of it."""
        now_ns = time.monotonic_ns()
        return max(history.spent_ns, now_ns - self._begun_ns.setdefault(base.id, now_ns))

    def _step(self, base: Point, level: int) -> Step:
        levels = {**base.levels, self._spec.factor: level}
        return Step(base.id, Point(f"{base.id}-{level}", levels))

    def _history(self, base: Point, searched: Searched, trials: dict[int, Trial]) -> _History:
        from iodyno.analysis.arrivals import later_ratio
        from iodyno.analysis.outcomes import OF_TRIAL
        from iodyno.analysis.physics import generator_warnings

        tried: list[Tried] = []
        spent_ns = 0
        goal = self._spec.goal
        for planned in searched.trials:
            trial = trials.get(planned.order)
            if searched.base[planned.point.id] != base.id or trial is None:
                continue
            windows = trial.manifest.get("windows") or {}
            spent_ns += sum(int(windows.get(f"{name}_ns", 0)) for name in ("warm_up", "measured", "drain"))
            spent_ns += int(trial.manifest.get("overhead_ns") or 0)
            level = planned.point.levels[self._spec.factor]
            assert isinstance(level, int)
            if trial.status == "void":
                tried.append(Tried(level, False, trial.reason or "the generator fell behind"))
                continue
            if not trial.finished:
                return _History(tuple(tried), spent_ns, trial.reason or "a trial failed")
            quantile = goal.over is not None
            value = later_ratio(trial, goal.most) if quantile else OF_TRIAL[goal.outcome](trial)
            most = goal.over if goal.over is not None else goal.most
            if value.value is None:
                why = value.note or "the trial has no such outcome"
                return _History(tuple(tried), spent_ns, f"{goal.outcome} is missing: {why}")
            warnings = [warning.text for warning in generator_warnings(trial)]
            met = value.value <= most and not warnings
            tried.append(Tried(level, met, warnings[0] if warnings else ""))
        return _History(tuple(tried), spent_ns)

    def _found(self, base: Point, history: _History, now: Standing) -> Found:
        ended = ""
        if history.stuck:
            ended = "failed"
        elif now.at_edge:
            ended = "edge"
        elif now.next_level is None:
            ended = "precise"
        elif self._spent_ns(base, history) >= self._spec.time_ns:
            ended = "time"
        suspect = [t for t in history.tried if t.suspect and t.level <= now.high * (1 + self._spec.precision)]
        warning = history.stuck
        if suspect and not warning:
            warning = f"the load generator, not the path, may be the limit: {suspect[-1].suspect}"
        low, high = self._spec.low, self._spec.high
        beyond = (
            ended != "edge" and history.tried and not history.stuck and (now.high > high or now.low < low)
        )
        if beyond:
            side, level = ("above", high) if now.high > high else ("below", low)
            outside = f"it may lie {side} {level}, where the search ends"
            warning = f"{warning}; {outside}" if warning else outside
        # Nothing was tried there: what the probability says of it is the margin that it is given.
        estimate, least, most = (min(max(value, low), high) for value in (now.estimate, now.low, now.high))
        return Found(
            base.id,
            base.levels,
            estimate,
            least,
            most,
            now.confirmed,
            len(history.tried),
            ended,
            warning,
        )


def seeker(experiment: Experiment) -> GoalSeeker | None:
    """The seeker of the experiment; None when it asks for no search."""
    return GoalSeeker(experiment.search) if experiment.search else None
