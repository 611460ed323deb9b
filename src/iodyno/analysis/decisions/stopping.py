"""The rules for stopping: by decision (a confidence sequence), by width (an interval that is narrow enough), by steady rounds.

By decision, the interval may be looked at after every block, and the answer is wrong in 5 % of campaigns at most. By
width, the ordinary t interval serves: it is narrower by a third, and stopping when it is narrow does not depend on
where it lies. What it must not do is stop early on a spread that came out small by chance, so it wants a least number of
trials, and one block more that confirms it.

Whole operations are counted alike by windows that cut them alike, however many there are. What that leaves unknown is part of
both intervals, as it is of every estimate (`interval.counting_error`); more trials do not take it away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from iodyno.analysis.chance import t
from iodyno.analysis.decisions.contrast import Observation, between_levels, whole_plots
from iodyno.analysis.decisions.sequence import ALPHA, Fit, bounds, radius_in_errors, tuned
from iodyno.analysis.decisions.steady import MOST_RANGE, MOST_SLOPE, ROUNDS, steadiness
from iodyno.analysis.interval import CUT_OFF, NOTICEABLE, counting_error
from iodyno.core.decision import Answer, Look, Rule, Standing, UntilSpec
from iodyno.core.workload import Level

LEAST_FREEDOM = 5
"""Degrees of freedom of the spread before a width is believed (chosen: the spread is then known to within a factor of 2.5)."""
CONFIRM_BELOW = 50
"""Degrees of freedom below which one block more must confirm that it is narrow enough: simulated campaigns that stop earlier
at the first narrow interval hold the truth in 92 % of cases, later ones in 95 % (`bench/decision_campaigns.py`)."""
TUNED_SHARE = 0.25
"""Share of the trials allowed at which the sequence is narrowest (chosen: decisions worth a sequence come early)."""
_ALIKE = "all trials of a point gave exactly the same value, so that nothing is known of the spread"
_FARTHEST = 20
"""Doublings by which the trials so far are looked ahead at the most, to say how many more are needed."""


@dataclass(frozen=True)
class Interval:
    """Interval of the quantity of a rule, on the scale on which it is looked at (`log` for ratios).

    `counting`: standard uncertainty that no number of trials takes away, as whole operations were counted; part of the bounds.
    """

    fit: Fit | None = None
    low: float | None = None
    high: float | None = None
    trials: int = 0
    missing: str = ""
    counting: float = 0.0

    @property
    def coarse(self) -> bool:
        """True where the interval shows that whole operations were counted."""
        if self.low is None or self.high is None:
            return False
        half, counting = (self.high - self.low) / 2, 1.96 * self.counting
        return half > NOTICEABLE * math.sqrt(max(0.0, half**2 - counting**2))


@dataclass(frozen=True)
class Plan:
    """Choices fixed before the first trial: trials of a block that the rule is about, parameters, and the tuning.

    `whole_plots`: the factor keeps its level for as many trials as it can, which then are one measurement of it.
    """

    trials_a_block: int
    mixture: float
    tuned_trials: int
    alpha: float = ALPHA
    whole_plots: bool = False


def plan(
    trials_a_block: int,
    points: int,
    max_trials: int,
    *,
    tuned_trials: int = 0,
    alpha: float = ALPHA,
    whole_plots: bool = False,
) -> Plan:
    """Tunes the sequence for a quarter of the trials allowed, two blocks at least, or for `tuned_trials`.

    `trials_a_block`: those of the two levels that are compared; `points`: parameters that are estimated beside the
    blocks. The weight of a difference between two halves of n trials is n / 4.
    """
    each = max(trials_a_block, 1)
    blocks = max(2, round((tuned_trials or TUNED_SHARE * max_trials) / each))
    trials = blocks * each
    # Of a fraction, fewer effects than points are estimated; as many as leave the first two blocks a spread.
    freedom = trials - min(points, trials // 2) - (blocks - 1)
    if whole_plots:
        return Plan(trials_a_block, tuned(blocks / 2, blocks - 1, alpha), trials, alpha, True)
    return Plan(trials_a_block, tuned(trials / 4, freedom, alpha), trials, alpha)


@dataclass(frozen=True)
class Judge:
    """Says after every block where the decision stands, from the trials alone: a campaign may be taken up again."""

    spec: UntilSpec
    plan: Plan

    def look(
        self,
        observations: Sequence[Observation],
        blocks: int,
        *,
        earlier: Sequence[Look] = (),
        left_out: int = 0,
        problem: str = "",
        unit: str = "1",
    ) -> Standing:
        """Return the standing after so many blocks. `problem`: why trials have no value, where they have none."""
        rule = self.spec.rule
        if rule.kind == "steady":
            return self._steady(observations, blocks, earlier, left_out, problem, unit)
        found = self._find(observations)
        if found.missing == "" and found.fit is None:
            found = replace(found, missing=problem or "too few trials for an interval")
        shown, missing = _shown(found, rule.of), found.missing
        if (
            rule.kind == "width"
            and found.fit is not None
            and found.fit.freedom < LEAST_FREEDOM
            and not missing
        ):
            # The rule does not believe it, and nor should who reads it.
            shown, missing = (shown[0], None, None), f"fewer than {LEAST_FREEDOM} degrees of freedom"
        looks = [*(look for look in earlier if look.blocks < blocks), Look(blocks, len(observations), *shown)]
        narrow = rule.kind == "width" and self._narrow(found)
        confirmed = narrow and found.fit is not None and found.fit.freedom >= CONFIRM_BELOW
        if narrow and not confirmed:
            last = max(each.block for each in observations)
            confirmed = self._narrow(self._find([each for each in observations if each.block != last]))
        answer: Answer = (
            ("yes" if confirmed else "undecided") if rule.kind == "width" else self._answer(found)
        )
        return Standing(
            rule=rule.text,
            answer=answer,
            trials=len(observations),
            blocks=blocks,
            max_trials=self.spec.max_trials,
            quantity=self._quantity(),
            outcome=self.spec.outcome,
            unit="1" if rule.of == "ratio" else unit,
            estimate=shown[0],
            low=shown[1],
            high=shown[2],
            interval_kind="fixed" if rule.kind == "width" else "sequence",
            method=self._method() + (CUT_OFF if found.coarse else ""),
            more_trials=None
            if answer != "undecided"
            else self._more(found, len(observations), blocks, narrow),
            tuned_trials=0 if rule.kind == "width" else self.plan.tuned_trials,
            missing=missing,
            coarse=answer == "undecided" and self._coarse(found),
            left_out=left_out,
            looks=tuple(looks),
        )

    def _steady(
        self,
        observations: Sequence[Observation],
        blocks: int,
        earlier: Sequence[Look],
        left_out: int,
        problem: str,
        unit: str,
    ) -> Standing:
        found = steadiness(observations)
        shown = (found.mean, found.least, found.greatest) if found else (None, None, None)
        looks = [*(look for look in earlier if look.blocks < blocks), Look(blocks, len(observations), *shown)]
        method = f"least and greatest of the last {ROUNDS} rounds (SNIA PTS 2.0.2)"
        if found:
            method += f": range {found.range_ratio:.1%} of {MOST_RANGE:.0%}, slope {found.slope_ratio:.1%} of {MOST_SLOPE:.0%}"
        return Standing(
            rule=self.spec.rule.text,
            answer="yes" if found and found.is_steady else "undecided",
            trials=len(observations),
            blocks=blocks,
            max_trials=self.spec.max_trials,
            quantity=f"{self.spec.outcome} at the point that varies most",
            outcome=self.spec.outcome,
            unit=unit,
            estimate=shown[0],
            low=shown[1],
            high=shown[2],
            interval_kind="rounds",
            method=method,
            missing="" if found else problem or f"fewer than {ROUNDS} rounds",
            left_out=left_out,
            looks=tuple(looks),
        )

    def _find(self, observations: Sequence[Observation]) -> Interval:
        wild = next((o.value for o in observations if not 1e-100 < abs(o.value or 1) < 1e100), None)
        if wild is not None:
            return Interval(trials=len(observations), missing=f"{wild:.3g} in a trial is no measurement")
        if self.spec.rule.of == "mean":
            return _widest_mean(observations)
        return _interval(self.spec, self.plan, observations)

    def _quantity(self) -> str:
        spec = self.spec
        if spec.rule.of == "mean":
            return f"{spec.outcome} at the point where it is least certain"
        joint = "over" if spec.rule.of == "ratio" else "less"
        return (
            f"{spec.outcome} at {spec.factor}={spec.numerator_label} {joint} that at "
            f"{spec.factor}={spec.denominator_label}"
        )

    def _method(self) -> str:
        scale = "on logarithms, " if self.spec.rule.of == "ratio" else ""
        if self.spec.rule.kind == "width":
            return f"{scale}95 % t interval, {LEAST_FREEDOM} degrees of freedom at least, confirmed by one more block"
        return f"{scale}95 % confidence sequence (t mixture), narrowest at {self.plan.tuned_trials} trials"

    def _answer(self, found: Interval) -> Answer:
        rule = self.spec.rule
        if found.low is None or found.high is None:
            return "undecided"
        if rule.kind == "no_difference":
            margin = _scaled(rule.bound, rule.of)
            if -margin < found.low and found.high < margin:
                return "yes"
            return "no" if found.low > margin or found.high < -margin else "undecided"
        bound = math.log(rule.bound) if rule.of == "ratio" else rule.bound
        above, below = found.low > bound, found.high < bound
        if above or below:
            return "yes" if above == (rule.relation == ">") else "no"
        return "undecided"

    def _narrow(self, found: Interval) -> bool:
        width = _width(found, self.spec.rule)
        if width is None or found.fit is None or found.fit.freedom < LEAST_FREEDOM:
            return False
        return width < self.spec.rule.bound

    def _more(self, found: Interval, trials: int, blocks: int, confirming: bool) -> int | None:
        """Trials until the answer, were the estimate and the spread the truth; None when they would never give one."""
        if confirming:
            return round(trials / blocks)
        fit, rule = found.fit, self.spec.rule
        if fit is None or fit.freedom < 1 or not blocks or not trials or not math.isfinite(fit.sigma):
            return None
        needed = self._needed_half(fit, found)
        if needed is None or needed <= 0:
            return None
        grows = found.trials / blocks
        # How much wider the interval is because blocks may be alike; what more of them tell of that is left out.
        wider = 1.0
        if rule.kind != "width" and found.low is not None and found.high is not None:
            plain = (
                radius_in_errors(fit.freedom, self.plan.mixture * fit.weight, self.plan.alpha)
                * fit.standard_error
            )
            wider = max(1.0, (found.high - found.low) / 2 / math.hypot(plain, 1.96 * found.counting))

        def wide(more: int) -> bool:
            share = (blocks + more) / blocks
            freedom = fit.freedom + round(more * max(grows - 1, 1))
            weight = fit.weight * share
            if rule.kind == "width":
                radius = _t_radius(freedom) if freedom >= LEAST_FREEDOM else math.inf
            else:
                radius = wider * radius_in_errors(freedom, self.plan.mixture * weight, self.plan.alpha)
            return math.hypot(radius * fit.sigma / math.sqrt(weight), 1.96 * found.counting) >= needed

        most = 1
        while wide(most):
            most *= 2
            if most > blocks << _FARTHEST:
                return None
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if wide(middle) else (least, middle)
        early = rule.kind == "width" and fit.freedom + most * max(grows - 1, 1) < CONFIRM_BELOW
        more = most + 1 if early else most
        return round(more * trials / blocks)

    def _coarse(self, found: Interval) -> bool:
        """Tell whether what windows cut off alone is as much as the answer may be off by, were the estimate the truth."""
        needed = self._needed_half(found.fit, found) if found.fit and found.counting else None
        return needed is not None and 1.96 * found.counting >= needed

    def _needed_half(self, fit: Fit, found: Interval) -> float | None:
        rule = self.spec.rule
        if rule.kind == "width":
            if found.low is None or found.high is None:
                return None
            width = _width(found, rule)
            half = (found.high - found.low) / 2
            return half * rule.bound / width if width else None
        if rule.kind == "no_difference":
            return abs(_scaled(rule.bound, rule.of) - abs(fit.estimate))
        bound = math.log(rule.bound) if rule.of == "ratio" else rule.bound
        return abs(fit.estimate - bound)


def _interval(spec: UntilSpec, plan: Plan, observations: Sequence[Observation]) -> Interval:
    assert spec.factor is not None and spec.numerator is not None and spec.denominator is not None
    levels = (spec.numerator, spec.denominator)
    used: Sequence[Observation] = observations
    if spec.rule.of == "ratio":
        low = next((each for each in observations if each.value <= 0), None)
        if low is not None:
            return Interval(
                trials=len(observations),
                missing=f"{spec.outcome} is {low.value:.4g} in a trial, and only numbers above 0 have a ratio: ask for a"
                " difference",
            )
        used = [
            replace(each, value=math.log(each.value), resolution=each.resolution / each.value)
            for each in observations
        ]
    if plan.whole_plots:
        used = whole_plots(used, spec.factor, levels)
    fit, used = between_levels(used, spec.factor, *levels)
    if fit is None:
        return Interval(trials=len(used))
    if fit.freedom < 1:
        return Interval(fit=fit, trials=len(used), missing="one block says nothing of the spread")
    sides = [[each for each in used if each.levels[spec.factor] == level] for level in levels]
    counting = math.hypot(*(_counting(side, fit.sigma) for side in sides))
    if fit.sigma == 0 and not counting:
        return Interval(fit=fit, trials=len(used), missing=_ALIKE)
    found = _t_bounds(fit) if spec.rule.kind == "width" else bounds(fit, plan.mixture, plan.alpha)
    if found is None:
        return Interval(fit=fit, trials=len(used), missing="too few trials for an interval")
    return _widened(Interval(fit, *found, trials=len(used), counting=counting))


def _counting(trials: Sequence[Observation], spread: float) -> float:
    """Return the uncertainty that trials of one level share because they count whole operations; 0 where it is unknown of one."""
    if not min(each.resolution for each in trials):
        return 0.0
    return counting_error(fmean(each.resolution for each in trials), spread)


def _widened(found: Interval) -> Interval:
    """With what no number of trials takes away, in quadrature and with coverage factor 1.96 (JCGM 100:2008, 6.2)."""
    if found.low is None or found.high is None or not found.counting:
        return found
    half = (found.high - found.low) / 2
    more = math.hypot(half, 1.96 * found.counting) - half
    return replace(found, low=found.low - more, high=found.high + more)


def _t_radius(freedom: int) -> float:
    return float(t.ppf(1 - ALPHA / 2, freedom))


def _t_bounds(fit: Fit) -> tuple[float, float]:
    half = _t_radius(fit.freedom) * fit.standard_error
    return fit.estimate - half, fit.estimate + half


def _widest_mean(observations: Sequence[Observation]) -> Interval:
    """The t interval of the point whose mean is least certain, relative to the mean."""
    points: dict[tuple[tuple[str, Level], ...], list[Observation]] = {}
    for each in observations:
        points.setdefault(tuple(sorted(each.levels.items())), []).append(each)
    worst: tuple[float, Interval] | None = None
    for trials in points.values():
        values, n = [each.value for each in trials], len(trials)
        if n < 2:
            return Interval(trials=n, missing="a point has one trial, which says nothing of the spread")
        fit = Fit(fmean(values), n, stdev(values), n - 1)
        if fit.estimate == 0:
            return Interval(fit=fit, trials=n, missing="a mean is 0, and has no relative width")
        counting = _counting(trials, fit.sigma)
        if fit.sigma == 0 and not counting:
            return Interval(fit=fit, trials=n, missing=_ALIKE)
        low, high = _t_bounds(fit)
        found = _widened(Interval(fit, low, high, n, counting=counting))
        assert found.low is not None and found.high is not None
        width = (found.high - found.low) / abs(fit.estimate)
        if worst is None or width > worst[0]:
            worst = (width, found)
    return worst[1] if worst else Interval()


def _width(found: Interval, rule: Rule) -> float | None:
    """As the rule compares it: relative to the estimate, or in the unit of the outcome."""
    if found.low is None or found.high is None or found.fit is None:
        return None
    if rule.of == "ratio":
        above, below = found.high - found.fit.estimate, found.low - found.fit.estimate
        # Wider than any number is not narrow.
        return math.exp(above) - math.exp(below) if above < 700 else math.inf
    width = found.high - found.low
    if not rule.relative:
        return width
    return width / abs(found.fit.estimate) if found.fit.estimate else None


def _scaled(margin: float, of: str) -> float:
    return math.log1p(margin) if of == "ratio" else margin


def _shown(found: Interval, of: str) -> tuple[float | None, float | None, float | None]:
    values = (found.fit.estimate if found.fit else None, found.low, found.high)
    if of != "ratio":
        return values
    first, low, high = (
        None if value is None else math.exp(value) if abs(value) < 700 else None for value in values
    )
    return first, low, high


def levels_of(points: Sequence[Mapping[str, Level]], spec: UntilSpec) -> int:
    """Points of the design that the rule is about."""
    if spec.factor is None:
        return len(points)
    return sum(levels.get(spec.factor) in (spec.numerator, spec.denominator) for levels in points)
