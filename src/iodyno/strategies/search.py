"""A search for the largest loads that meet its goals: the controller of RFC 9971 (Multiple Loss Ratio Search)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.core.design import Design, Point
from iodyno.core.search import GoalResult, LoadTrial, SearchGoal, SearchSpec
from iodyno.strategies.base import Measured

if TYPE_CHECKING:
    from iodyno.analysis.trial import Trial
    from iodyno.designs.load_selection import Standing


@dataclass
class _History:
    """Trials at a point of the design. `stuck`: why a trial tells nothing, which ends the search there."""

    trials: list[LoadTrial] = field(default_factory=list)
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
        self._known: dict[str, list[GoalResult]] = {}

    def ask(self) -> Sequence[Point]:
        """The next load at the first point whose search has not ended; none when all have."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.designs.load_selection import next_of, standings

        self._known = {}
        for base in self._points:
            history = self._history[base.id]
            every = standings(history.trials, self._spec)
            following = next_of(every, len(history.trials))
            over = following is None or history.stuck or self._is_over(base, history)
            self._known[base.id] = [
                self._result(base, history, place, now, over=bool(over)) for place, now in enumerate(every)
            ]
            if following is not None and not over:
                load, duration_ns = following.next_load, following.next_duration_ns
                assert load is not None
                full = duration_ns == max(goal.final_trial_duration_ns for goal in self._spec.goals)
                name = f"{base.id}-{load}" + ("" if full else f"-{duration_ns / 1e9:g}s")
                return [Point(name, {**base.levels, self._spec.factor: load}, duration_ns)]
        return ()

    def tell(self, trial: TrialResult) -> None:
        """Note the loss ratios of the trial, at the point that is searched at: the last of those that anything is known of."""
        history = self._history[list(self._known)[-1]]
        measured = self._measured.trial(trial)
        if measured is None:
            history.stuck = trial.reason or "nothing is stored of a trial"
            return
        windows = measured.manifest.get("windows") or {}
        history.spent_ns += sum(
            int(windows.get(f"{name}_ns", 0)) for name in ("warm_up", "measured", "drain")
        )
        history.spent_ns += int(measured.manifest.get("overhead_ns") or 0)
        load = trial.planned.point.levels[self._spec.factor]
        assert isinstance(load, int)
        told = self._told(measured, load, int(windows.get("measured_ns", 0)))
        if isinstance(told, LoadTrial):
            history.trials.append(told)
        else:
            history.stuck = told

    def answer(self) -> Answer | None:
        """Return the goal results at each point. Each point has its time; what one did not need is not left for the others."""
        if not self._known:
            return None
        last, results = list(self._known.items())[-1]
        ended = all(result.ended for result in results)
        here_ns = 0 if ended else max(0, self._spec.duration_ns - self._elapsed_ns(last))
        left_ns = here_ns + self._spec.duration_ns * (len(self._points) - len(self._known))
        every = [asdict(result) for point in self._known.values() for result in point]
        tried = {point: [asdict(trial) for trial in self._history[point].trials] for point in self._known}
        return Answer(
            "search", {"goal_results": every, "load_trials": tried}, tuple(results), left_ns=left_ns
        )

    def _elapsed_ns(self, base: str) -> int:
        now_ns = time.monotonic_ns()
        return now_ns - self._begun_ns.setdefault(base, now_ns)

    def _is_over(self, base: Point, history: _History) -> bool:
        """Tell whether the time is over: that of its trials, or, when it was not interrupted, all of it."""
        return max(history.spent_ns, self._elapsed_ns(base.id)) >= self._spec.duration_ns

    def _told(self, trial: Trial, load: int, duration_ns: int) -> LoadTrial | str:
        """Return what the trial gave; in words, why it told nothing."""
        from iodyno.analysis.outcomes import OF_TRIAL
        from iodyno.analysis.physics import generator_warnings

        forwarded = (
            OF_TRIAL["achieved_operations_per_s"](trial).value if self._spec.factor == "rate" else None
        )
        if forwarded is not None:
            forwarded *= 1 - (OF_TRIAL["loss_ratio"](trial).value or 0.0)
        if trial.status == "void":
            reason = trial.reason or "the generator fell behind"
            return LoadTrial(load, duration_ns, (1.0,) * len(self._spec.goals), forwarded, reason)
        if not trial.finished:
            return trial.reason or "a trial failed"
        ratios = []
        for goal in self._spec.goals:
            ratio = _loss_ratio(trial, goal)
            if isinstance(ratio, str):
                return ratio
            ratios.append(ratio)
        if warnings := [warning.text for warning in generator_warnings(trial)]:
            ratios = [1.0] * len(ratios)
        return LoadTrial(load, duration_ns, tuple(ratios), forwarded, warnings[0] if warnings else "")

    def _result(self, base: Point, history: _History, place: int, now: Standing, *, over: bool) -> GoalResult:
        from iodyno.designs.load_classification import bound_at, conditional_throughput

        spec, goal, trials = self._spec, self._spec.goals[place], history.trials
        ended = str(now.ended) or ("failed" if history.stuck else "duration" if over else "")
        lower = now.lower if now.lower is not None else _mostly_met(trials, goal, place, now.upper)
        suspect = [t for t in trials if t.suspect and t.load <= now.high * (1 + goal.width)]
        warning = history.stuck
        if suspect and not warning:
            warning = f"the load generator, not the path, may be the limit: {suspect[-1].suspect}"
        low, high = spec.min_load, spec.max_load
        above, below = now.high > high and now.upper is None, now.low < low and now.lower is None
        if ended != "edge" and trials and not history.stuck and (above or below):
            side, load = ("above", high) if above else ("below", low)
            outside = f"it may lie {side} {load}, where the search ends"
            warning = f"{warning}; {outside}" if warning else outside
        # Nothing was tried there: what the probability says of it is the margin that it is given.
        estimate, least, most = (min(max(value, low), high) for value in (now.estimate, now.low, now.high))
        return GoalResult(
            base.id,
            base.levels,
            goal.text,
            None if lower is None else bound_at(lower, trials, goal, place),
            None if now.upper is None else bound_at(now.upper, trials, goal, place),
            now.lower is not None,
            None if now.lower is None else conditional_throughput(now.lower, trials, goal, place),
            estimate,
            least,
            most,
            len(trials),
            sum(trial.duration_ns for trial in trials),
            ended,
            warning,
        )


def _mostly_met(trials: Sequence[LoadTrial], goal: SearchGoal, place: int, upper: int | None) -> int | None:
    """The greatest load below the upper bound where most trials met the goal, and none that was tried below did not."""
    from iodyno.designs.load_classification import sums_of

    found = None
    for load, sums in sums_of(trials, goal, place).items():
        if not sums.mostly_low or load == upper:
            break
        found = load
    return found


def _loss_ratio(trial: Trial, goal: SearchGoal) -> float | str:
    """Share of the operations that were lost, or later than the goal; of a mean 0 or 1; in words, why it is not known."""
    from iodyno.analysis.arrivals import later_ratio
    from iodyno.analysis.outcomes import OF_TRIAL

    value = OF_TRIAL[goal.outcome](trial) if goal.over is None else later_ratio(trial, goal.most)
    if value.value is None:
        return f"{goal.outcome} is missing: {value.note or 'the trial has no such outcome'}"
    if goal.outcome == "loss_ratio" or goal.over is not None:
        return float(value.value)
    return float(value.value > goal.most)
