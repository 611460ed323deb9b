"""Course of a decision: estimate and interval after every block, beside the bound that was asked about."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.core.decision import parse_rule
from iodyno.report.decision import look_line
from iodyno.report.figures.panel import Axis, Figure, Mark, Panel, Series
from iodyno.report.numbers import digits, scale_of

_MOST_PLACES = 8
"""Labels along the axis (chosen: what stays readable on a telephone)."""
_MOST_MARKS = 22
"""Looks that are drawn (chosen: their bars stay apart); the others lie between them."""


def figure(summary: CampaignSummary) -> Figure | None:
    """The looks at the rule; None without a rule, or before the second look that has an interval."""
    found = summary.decision
    if found is None or found.estimate is None:
        return None
    known = [look for look in found.looks if look.estimate is not None and look.low is not None]
    if len(known) < 2:
        return None
    looks = [known[at] for at in _spread(len(known), _MOST_MARKS)]
    scale = scale_of(found.estimate, found.unit, found.outcome)
    marks = []
    for look in looks:
        assert look.estimate is not None and look.low is not None and look.high is not None
        value, low, high = (each / scale.factor for each in (look.estimate, look.low, look.high))
        half = (high - low) / 2 or None
        hint = (
            f"after {look.trials} trials: {digits(value, half)} [{digits(low, half)}, {digits(high, half)}]"
        )
        marks.append(Mark(float(look.trials), value, low, high, hint))
    series = [Series("after so many trials", 0, tuple(marks))]
    for number, bound in enumerate(_bounds(found.rule, found.unit), start=1):
        at = bound / scale.factor
        ends = tuple(Mark(x, at, None, None, f"asked about: {digits(at)}") for x in (marks[0].x, marks[-1].x))
        series.append(Series("asked about" if number == 1 else "and", number, ends))
    # The first and the last among them: the axis ends there.
    places = tuple((marks[at].x, f"{marks[at].x:.0f}") for at in _spread(len(marks), _MOST_PLACES))
    kind = "ratio" if found.unit == "1" else scale.unit
    panel = Panel("", Axis("trials", "linear", places), Axis(kind, "linear"), tuple(series))
    interval = (
        "confidence sequences, which hold at all looks together"
        if found.interval_kind == "sequence"
        else "t intervals"
    )
    caption = f"{found.quantity}. Bars: 95 % {interval}. After {look_line(found)}."
    return Figure("How it was decided", caption, (panel,))


def _spread(count: int, most: int) -> list[int]:
    """At most so many of the positions, evenly, with both ends; `count` is 2 or more."""
    shown = min(count, most)
    return [round(place * (count - 1) / (shown - 1)) for place in range(shown)]


def _bounds(rule: str, unit: str) -> tuple[float, ...]:
    """Return the values to compare with, in the unit of the quantity."""
    asked = parse_rule(rule)
    if asked.kind == "width":
        return ()
    if asked.kind == "no_difference":
        return (1 + asked.bound, 1 / (1 + asked.bound)) if unit == "1" else (asked.bound, -asked.bound)
    return (asked.bound,)
