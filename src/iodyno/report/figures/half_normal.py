"""Which effects stand out: their sizes against what chance alone would make of them, with Lenth's limits."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.report.cost_model import outcome_words, unit_scale
from iodyno.report.figures.scatter import Dot, Limit, ScatterFigure, ScatterPanel
from iodyno.report.numbers import digits

_NAMES_MOST = 8
"""Names beside points (chosen: more of them lie upon each other)."""


def figure(summary: CampaignSummary) -> ScatterFigure | None:
    """None where there is no model, or its effects are not of one precision."""
    study = summary.costs
    if study is None or study.half_normal is None:
        return None
    found = study.half_normal
    scale = unit_scale(study)
    ordered = sorted(found.effects, key=lambda effect: -abs(effect.effect))
    named = {effect.name for effect in ordered[:_NAMES_MOST] if abs(effect.effect) > found.me}
    dots = tuple(
        Dot(
            effect.quantile,
            abs(effect.effect) / scale.factor,
            f"{effect.name}: {digits(effect.effect / scale.factor)} {scale.unit}"
            + (", stands out" if effect.stands_out else ""),
            0 if effect.effect >= 0 else 1,
            name=f"{effect.name} {'+' if effect.effect >= 0 else '−'}" if effect.name in named else "",
        )
        for effect in found.effects
    )
    limits = (Limit(found.me / scale.factor, "ME"), Limit(found.sme / scale.factor, "SME"))
    caption = (
        "The change of the outcome from the low to the high end of each factor, sorted by size; circles raise it, squares"
        " lower it. Chance alone would put all points on a line through the origin. Beyond SME (Lenth 1989, 95 % for all effects"
        " together) an effect stands out; between ME and SME it may be chance. Replicates are not used for the limits."
    )
    title = f"Effects on {outcome_words(study)}"
    panel = ScatterPanel(
        "Half-normal plot", "half-normal quantile", f"size of the effect, {scale.unit}", dots, limits
    )
    return ScatterFigure(title, caption, (panel,))
