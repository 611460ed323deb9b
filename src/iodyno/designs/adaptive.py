"""Step by step: which trials tell the most, given what those before have told.

Three stages, each an ordinary design of its own (Box, Hunter and Hunter, Statistics for Experimenters, 2nd edition, chapters 6,
7 and 11, on sequential experimentation):

- **screen**: a two-level fraction of resolution IV of all factors. Main effects are apart from two-factor interactions. A
  factor is left out of what follows when everything it takes part in is shown to be smaller than what matters.
- **resolve**: the factors that are left, in full or with resolution V: main effects and two-factor interactions apart from
  each other, and trials in the middle, which tell whether the cost is a straight line.
- **curve**: where it is not, trials on the axes, which with those before make a central composite design.

Nothing is left out because it was not seen: only what was shown to be small (its interval lies within what does not matter).
Here is only which stage comes next; what was told is judged in `iodyno.analysis.cost_model.screening`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs import ranges, two_level

SCREEN_FROM = 5
"""Factors from which a screen is worth its trials: four have 16 combinations in all, and a screen of them would take 8."""
REPLICATES = 2
"""Of every point: the least that tells noise from effects where no term is left over."""
CENTRE_POINTS = 3
"""Trials in the middle in each replicate (Montgomery: 3 to 5)."""
WORDS_MOST = 4
"""Combinations of words that the middle is visited with at most; with more, it takes too many trials (chosen)."""


@dataclass(frozen=True)
class Effect:
    """Change of an outcome from the low to the high end of a factor, or of a product of them, as a share of what it was (-0.8: to
    a fifth), with its 95 % interval; `aliases`: the effects that it cannot be told from.
    """

    factors: tuple[str, ...]
    change_ratio: float
    change_ratio_low: float | None
    change_ratio_high: float | None
    aliases: tuple[tuple[str, ...], ...] = ()

    def matters(self, least_ratio: float) -> bool:
        """Tell whether it may be as large as what matters: its interval is not within plus and minus that."""
        if self.change_ratio_low is None or self.change_ratio_high is None:
            return True
        return self.change_ratio_low < -least_ratio or self.change_ratio_high > least_ratio


@dataclass(frozen=True)
class Judged:
    """Results of the trials of a stage. `curved`: a factor in which the outcome is no straight line. `ratios`: effects are
    ratios less 1, else they are shares of the mean.
    """

    effects: tuple[Effect, ...]
    noise_ratio: float | None
    curved: str | None = None
    ratios: bool = True


@dataclass(frozen=True)
class Stage:
    """Stage to be run next: the factors that are varied, the keys of the section `design`, and why."""

    name: str
    factors: tuple[str, ...]
    design: Mapping[str, Any]
    why: str


def first(experiment: Experiment) -> Stage:
    """The stage that an exploration begins with. Raises ExperimentError where no two factors vary."""
    varied = [factor.name for factor in ranges.varied(experiment)]
    if len(varied) < 2:
        raise ExperimentError(
            f"invalid value: {counted(len(varied), 'factor')} with two levels or more; expected 2",
            where="factors",
            advice="add factors, or use `iodyno run` for one",
        )
    if len(varied) < SCREEN_FROM:
        return _resolve(experiment, varied, f"{len(varied)} factors need no screen")
    if len(varied) <= two_level.MOST_FACTORS:
        design = {"kind": "fractional", "resolution": 4, "replicates": REPLICATES}
        how = "a fraction of resolution IV"
    else:
        design = {"kind": "plackett_burman", "replicates": REPLICATES}
        how = "a Plackett-Burman design"
    return Stage("screen", tuple(varied), design, f"which of {len(varied)} factors matter, by {how}")


def after_screen(experiment: Experiment, judged: Judged, least_ratio: float) -> Stage | None:
    """Return the stage after a screen; None when nothing was found to matter."""
    kept = survivors(judged, least_ratio)
    names = [factor.name for factor in ranges.varied(experiment) if factor.name in kept]
    if not names:
        return None
    gone = len(ranges.varied(experiment)) - len(names)
    why = (
        f"{gone} left out, as all they take part in is within {100 * least_ratio:.3g} % of the mean"
        if gone
        else ""
    )
    return _resolve(experiment, names, why or "none could be left out")


def after_resolve(experiment: Experiment, judged: Judged, names: Sequence[str]) -> Stage | None:
    """Return the stage that follows when effects are apart; None when a straight line holds, or no factor has a middle."""
    numbers = [f for f in ranges.varied(experiment) if f.name in names and _is_numeric(f.levels)]
    if judged.curved is None or not numbers:
        return None
    return Stage("curve", tuple(names), {"kind": "csv"}, f"it is no straight line in {judged.curved}")


def survivors(judged: Judged, least_ratio: float) -> set[str]:
    """The factors that take part in an effect that may matter, or in one that such an effect cannot be told from."""
    kept: set[str] = set()
    for effect in judged.effects:
        if effect.matters(least_ratio):
            # In a chain of interactions any of them may be the one; the main effects are judged by themselves.
            for factors in (effect.factors, *effect.aliases):
                kept |= set(factors)
    return kept


def axial_rows(experiment: Experiment, names: Sequence[str]) -> list[dict[str, Any]]:
    """The trials on the axes: each number alone at its ends, the others in the middle, words at their first level; and the
    middle itself, which ties them to the stage before.
    """
    factors = [factor for factor in experiment.factors if factor.name in names]
    codings = {f.name: ranges.coding_of(f, log=f.name in experiment.design.log) for f in factors}
    middle: dict[str, Any] = {}
    for factor in factors:
        number = codings[factor.name].kind == "number"
        middle |= ranges.place(experiment, factor, codings[factor.name], 0) if number else factor.settings(0)
    rows = [middle]
    for factor in factors:
        if codings[factor.name].kind == "number":
            rows += [
                middle | ranges.place(experiment, factor, codings[factor.name], coded) for coded in (-1, 1)
            ]
    return rows


def _resolve(experiment: Experiment, names: Sequence[str], why: str) -> Stage:
    factors = [factor for factor in ranges.varied(experiment) if factor.name in names]
    design: dict[str, Any] = {"kind": "fractional", "resolution": 5, "replicates": REPLICATES}
    words = 1
    for factor in factors:
        words *= 1 if _is_numeric(factor.levels) else len(factor.levels)
    if any(_is_numeric(factor.levels) for factor in factors) and words <= WORDS_MOST:
        design["centre_points"] = max(1, CENTRE_POINTS // words)
    if len(factors) == 1:
        middle = (
            {"centre_points": CENTRE_POINTS}
            if "centre_points" in design and len(factors[0].levels) == 2
            else {}
        )
        design = {"kind": "full_factorial", "replicates": 3, **middle}
    return Stage("resolve", tuple(names), design, why)


def _is_numeric(levels: Sequence[Any]) -> bool:
    return all(ranges.is_number(level) for level in levels)
