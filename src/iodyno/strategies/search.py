"""A search for the largest level that meets a goal, by probabilistic bisection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.core.design import Design, Point
from iodyno.core.search import Found, SearchSpec, Tried
from iodyno.strategies.base import Measured

if TYPE_CHECKING:
    from iodyno.designs.bisection import Standing


@dataclass(frozen=True)
class _History:
    """What was tried at a point of the design. `stuck`: why a trial tells nothing, which ends the search there."""

    tried: tuple[Tried, ...]
    spent_ns: int
    stuck: str = ""


class Search(Strategy):
    """Searches at one point of the design after the other."""

    stage = "searching"

    def __init__(self, spec: SearchSpec, design: Design, folder: Path) -> None:
        self._spec = spec
        self._points = design.points
        self._measured = Measured(folder)
        self._told: dict[str, list[TrialResult]] = {base.id: [] for base in design.points}
        self._begun_ns: dict[str, int] = {}
        self._known: list[Found] = []

    def ask(self) -> Sequence[Point]:
        """The next level at the first point whose search has not ended; none when all have."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.designs.bisection import standing

        self._known = []
        for base in self._points:
            history = self._history(base)
            now = standing(history.tried, self._spec.low, self._spec.high, self._spec.precision)
            self._known.append(self._found(base, history, now))
            if not self._known[-1].ended:
                assert now.next_level is not None
                levels = {**base.levels, self._spec.factor: now.next_level}
                return [Point(f"{base.id}-{now.next_level}", levels)]
        return ()

    def tell(self, trial: TrialResult) -> None:
        """Keep it for the point that is searched at, the last of those that anything is known of."""
        self._told[self._known[-1].point].append(trial)

    def answer(self) -> Answer | None:
        """Where the search of each point stands. Each has its time; what one did not need is not left for the others."""
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

    def _history(self, base: Point) -> _History:
        from iodyno.analysis.arrivals import later_ratio
        from iodyno.analysis.outcomes import OF_TRIAL
        from iodyno.analysis.physics import generator_warnings

        tried: list[Tried] = []
        spent_ns = 0
        goal = self._spec.goal
        for told in self._told[base.id]:
            trial = self._measured.trial(told)
            if trial is None:
                continue
            windows = trial.manifest.get("windows") or {}
            spent_ns += sum(int(windows.get(f"{name}_ns", 0)) for name in ("warm_up", "measured", "drain"))
            spent_ns += int(trial.manifest.get("overhead_ns") or 0)
            level = told.planned.point.levels[self._spec.factor]
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
