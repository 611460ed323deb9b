"""Effects of each factor, and of each pair of factors together: the model along their levels, with intervals."""

from __future__ import annotations

from iodyno.analysis.cost_model.variation import EffectLine
from iodyno.analysis.results import CampaignSummary
from iodyno.report.cost_model import SHARE_LEAST, outcome_words, share_of, shown_share, unit_scale
from iodyno.report.figures.panel import Axis, Figure, Kind, Mark, Panel, Series
from iodyno.report.layout import SERIES_MOST
from iodyno.report.numbers import Scale, digits

PAIRS_MOST = 4
"""Interactions that are drawn, those that explain most (chosen: with the factors' own panels it is a screen or two)."""


def figure(summary: CampaignSummary) -> Figure | None:
    """A panel a factor, then a panel for each of the interactions that explain most; None without a model."""
    study = summary.costs
    if study is None:
        return None
    scale = unit_scale(study)
    panels = [_panel(line.factor, (line,), scale) for line in study.main_effects]
    pairs = sorted(study.interactions, key=lambda pair: -(share_of(study, pair[0]) or 0.0))
    strong = [pair for pair in pairs if (share_of(study, pair[0]) or 0.0) >= SHARE_LEAST] or pairs[:1]
    shown = [(name, lines) for name, lines in strong if len(lines) <= SERIES_MOST][:PAIRS_MOST]
    for name, lines in shown:
        share = share_of(study, name)
        title = name.replace(":", " × ") + (
            f", {shown_share(share)} of the variation" if share is not None else ""
        )
        panels.append(_panel(title, lines, scale))
    left = len(pairs) - len(shown)
    more = (
        f" {left} interaction{'s' if left > 1 else ''} that explain{'' if left > 1 else 's'} less not shown."
        if left
        else ""
    )
    caption = (
        "The model along the levels measured; the other factors stand at the middle of their ranges, or an even mix. Bars are"
        f" 95 % intervals of the mean. Where lines are not parallel, or dots of two colours not equally far apart in every row,"
        f" factors interact.{more}"
    )
    return Figure(f"What each factor does to {outcome_words(study)}", caption, tuple(panels))


def _panel(title: str, lines: tuple[EffectLine, ...], scale: Scale) -> Panel:
    first = lines[0]
    at = first.numbers or tuple(float(place) for place in range(len(first.labels)))
    kind: Kind = "log" if first.log else "linear" if first.numbers else "category"
    name = first.factor.replace("_", " ") + (" (logarithmic)" if first.log else "")
    x = Axis(name, kind, tuple(zip(at, first.labels, strict=True)))
    y = Axis(scale.unit, "linear")
    series = tuple(
        Series(
            line.at.partition("=")[2],
            number,
            tuple(_mark(line, place, at[place], scale) for place in range(len(at))),
        )
        for number, line in enumerate(lines)
    )
    return Panel(title.replace("_", " ") if len(lines) == 1 else title, x, y, series)


def _mark(line: EffectLine, place: int, x: float, scale: Scale) -> Mark:
    value, low, high = (None if one is None else one / scale.factor for one in line.values[place])
    assert value is not None
    where = ", ".join(filter(None, (f"{line.factor}={line.labels[place]}", line.at)))
    half = (high - low) / 2 or None if low is not None and high is not None else None
    bounds = f" [{digits(low, half)}, {digits(high, half)}]" if low is not None and high is not None else ""
    return Mark(x, value, low, high, f"{where}: {digits(value, half)}{bounds} {scale.unit}")
