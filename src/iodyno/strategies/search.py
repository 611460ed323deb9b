"""A search for the largest level that meets a goal, by probabilistic bisection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.core.design import Design, Point
from iodyno.core.search import Found, SearchSpec, Tried
from iodyno.strategies.base import Measured

if TYPE_CHECKING:
    from iodyno.analysis.trial import Trial
    from iodyno.designs.bisection import Standing


@dataclass
class _History:
    """Levels tried at a point of the design. `stuck`: why a trial tells nothing, which ends the search there."""

    tried: list[Tried] = field(default_factory=list)
    spent_ns: int = 0
    stuck: str = ""


class Search(Strategy):
    """Searches at one point of the design after the other."""

    stage = "searching"

    def __init__(self, spec: SearchSpec, design: Design, folder: Path) -> None:
        self._spec = spec
        self._points = design.points
        self._measured = Measured(folder)
        self._history = {base.id: _History() for base in design.points}
        self._begun_ns: dict[str, int] = {}
        self._known: list[Found] = []

    def ask(self) -> Sequence[Point]:
        """The next level at the first point whose search has not ended; none when all have."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.designs.bisection import standing

        self._known = []
        for base in self._points:
            history = self._history[base.id]
            now = standing(history.tried, self._spec.low, self._spec.high, self._spec.precision)
            self._known.append(self._found(base, history, now))
            if not self._known[-1].ended:
                assert now.next_level is not None
                levels = {**base.levels, self._spec.factor: now.next_level}
                return [Point(f"{base.id}-{now.next_level}", levels)]
        return ()

    def tell(self, trial: TrialResult) -> None:
        """See whether the trial met the goal, for the point that is searched at: the last of those that anything is known of."""
        history = self._history[self._known[-1].point]
        measured = self._measured.trial(trial)
        if measured is None:
            history.stuck = trial.reason or "nothing is stored of a trial"
            return
        windows = measured.manifest.get("windows") or {}
        history.spent_ns += sum(
            int(windows.get(f"{name}_ns", 0)) for name in ("warm_up", "measured", "drain")
        )
        history.spent_ns += int(measured.manifest.get("overhead_ns") or 0)
        level = trial.planned.point.levels[self._spec.factor]
        assert isinstance(level, int)
        found = self._tried(measured, level)
        if isinstance(found, Tried):
            history.tried.append(found)
        else:
            history.stuck = found

    def answer(self) -> Answer | None:
        """Return the standing of each point's search. Each has its time; what one did not need is not left for the others."""
        if not self._known:
            return None
        last = self._known[-1]
        here_ns = 0 if last.ended else max(0, self._spec.time_ns - self._elapsed_ns(last.point))
        left_ns = here_ns + self._spec.time_ns * (len(self._points) - len(self._known))
        return Answer("search", {"found": [asdict(found) for found in self._known]}, last, left_ns=left_ns)

    def _elapsed_ns(self, base: str) -> int:
        now_ns = time.monotonic_ns()
        return now_ns - self._begun_ns.setdefault(base, now_ns)

    def _spent_ns(self, base: Point, history: _History) -> int:
        """Time of the search at a point: that of its trials, or, when it was not interrupted, all of it."""
        return max(history.spent_ns, self._elapsed_ns(base.id))

    def _tried(self, trial: Trial, level: int) -> Tried | str:
        """Return the result of the trial; in words, why it told nothing."""
        from iodyno.analysis.arrivals import later_ratio
        from iodyno.analysis.outcomes import OF_TRIAL
        from iodyno.analysis.physics import generator_warnings

        goal = self._spec.goal
        if trial.status == "void":
            return Tried(level, False, trial.reason or "the generator fell behind")
        if not trial.finished:
            return trial.reason or "a trial failed"
        value = OF_TRIAL[goal.outcome](trial) if goal.over is None else later_ratio(trial, goal.most)
        if value.value is None:
            return f"{goal.outcome} is missing: {value.note or 'the trial has no such outcome'}"
        warnings = [warning.text for warning in generator_warnings(trial)]
        met = value.value <= (goal.most if goal.over is None else goal.over) and not warnings
        return Tried(level, met, warnings[0] if warnings else "")

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
