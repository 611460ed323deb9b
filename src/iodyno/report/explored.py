"""What `iodyno explore` shows: what a stage will tell, what it told, and the answer of all of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs.adaptive import Effect, Judged
from iodyno.designs.evaluation import evaluate
from iodyno.report.cost_answer import model_blocks, study_headline
from iodyno.report.cost_model import outcome_words
from iodyno.report.form import Block, Headline, Row, Shown
from iodyno.store.schema import EXPERIMENT

_MOST = 4
"""Effects that the answer names (chosen: with its other lines it has ten)."""


def expectation(experiment: Experiment, design: Design, noise_ratio: float | None, *, curve: bool) -> str:
    """Return how large a stage is, and how small an effect it is expected to tell; nothing of that for a `curve`."""
    trials = f"{counted(len(design.points), 'point')}, {counted(len(design.trials), 'trial')}"
    expected = None if curve else evaluate(experiment, design, noise_ratio=noise_ratio)
    terms = expected.terms if expected else ()
    widths = [term.half_width_ratio for term in terms if term.half_width_ratio is not None]
    if not widths:
        return trials
    if noise_ratio is None:
        size = f"{max(widths):.2g} times the noise between trials"
    else:
        size = f"{100 * max(widths):.2g} % of the mean"
    return f"{trials}; expects to tell effects to ±{size}"


def effect_lines(judged: Judged, least: float) -> list[str]:
    """List the effects that may matter, the largest first."""
    large = _large(judged, least)
    noise = "unknown" if judged.noise_ratio is None else f"{100 * judged.noise_ratio:.2g} %"
    lines = [
        f"  noise between trials {noise}; {len(large)} of {len(judged.effects)} effects may be {100 * least:g} % or more"
    ]
    for effect in large:
        aliases = "".join(f" = {':'.join(factors)}" for factors in effect.aliases)
        lines.append(f"    {':'.join(effect.factors)}{aliases}: {_size_of(effect, judged.ratios)}")
    if judged.curved:
        lines.append(f"  no straight line in {judged.curved}")
    return lines


def explored_shown(
    stages: Sequence[tuple[Path, Judged]], study: CostStudy, found: Mapping[str, Any], *, verbose: bool
) -> Shown:
    """Return what matters, by how much, and what was not shown to.

    `stages`: the campaign of each and what it told; `found`: the answer as the exploration's folder holds it.
    """

    def blocks() -> Iterator[Block]:
        yield _headline(stages, study, found)
        if verbose:
            yield ""
            yield from model_blocks(study)
        yield str(found["folder"])

    return Shown(blocks, lambda: found, lambda: _rows(found))


def _headline(stages: Sequence[tuple[Path, Judged]], study: CostStudy, found: Mapping[str, Any]) -> Headline:
    least = found["least_ratio"]
    # The last stage but that of curves: it alone tells all that is left apart.
    judged = next((one for _, one in reversed(stages) if one.effects), stages[-1][1])
    large = _large(judged, least)
    shown = [effect for effect in large if _is_shown(effect, least)]
    # What changes the effect of another matters, too.
    names = list(dict.fromkeys(name for effect in shown for name in effect.factors))
    matters = (
        f"{' and '.join(names)} matter{'s' if len(names) == 1 else ''}"
        if names
        else "no factor is shown to matter"
    )
    rows: list[tuple[str, tuple[str, ...]]] = []
    for effect in large[:_MOST]:
        size = _size_of(effect, judged.ratios)
        rest = "" if effect in shown else f" (may be less than {100 * least:g} %)"
        rows.append((":".join(effect.factors), (f"{size}{rest}",)))
    if len(large) > _MOST:
        rows.append(("", (f"{counted(len(large) - _MOST, 'more effect')} with --format csv",)))
    small = [":".join(effect.factors) for effect in judged.effects if effect not in large]
    if held := ", ".join([*found["left_out"], *small]):
        rows.append((f"< {100 * least:g} %", (held,)))
    told = study_headline(study)
    rows.append(("Equation", (told.title,)))
    rows += [row for row in told.rows if row[0] == "Warning"]
    last = stages[-1][0] / EXPERIMENT
    made = f"{counted(found['trials'], 'trial')} in {counted(len(stages), 'stage')}"
    rows.append(("From", (f"{made}; experiment of the last one: {last}",)))
    title = f"{outcome_words(study)}, from low to high: {matters} by {100 * least:g} % or more"
    return Headline(title, tuple(rows))


def _large(judged: Judged, least: float) -> list[Effect]:
    """List the effects that may matter, the largest first; a fall to a half is as large as a rise to twice as much."""

    def size(effect: Effect) -> float:
        return abs(math.log1p(effect.change_ratio) if judged.ratios else effect.change_ratio)

    return sorted((effect for effect in judged.effects if effect.matters(least)), key=size, reverse=True)


def _size_of(effect: Effect, ratio: bool) -> str:
    """`x 0.21 [0.19, 0.23]` from the low to the high end, or `+12 [+3, +21] % of the mean`."""
    ends = (effect.change_ratio_low, effect.change_ratio_high)
    known = [end for end in ends if end is not None]
    if not ratio:
        bounds = f" [{100 * known[0]:+.3g}, {100 * known[1]:+.3g}]" if len(known) == 2 else ""
        return f"{100 * effect.change_ratio:+.3g}{bounds} % of the mean"
    bounds = f" [{1 + known[0]:.3g}, {1 + known[1]:.3g}]" if len(known) == 2 else ""
    return f"x {1 + effect.change_ratio:.3g}{bounds}"


def _is_shown(effect: Effect, least: float) -> bool:
    """Tell whether the whole interval of an effect lies beyond the least one."""
    low, high = effect.change_ratio_low, effect.change_ratio_high
    return low is not None and high is not None and (low >= least or high <= -least)


def _rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each effect that each stage judged."""
    for number, stage in enumerate(found["stages"], 1):
        for effect in stage["effects"]:
            yield {
                "outcome": found["outcome"],
                "stage": number,
                "name": stage["name"],
                "effect": ":".join(effect["factors"]),
                "aliases": ", ".join(":".join(factors) for factors in effect["aliases"]),
                **{key: effect[key] for key in ("change_ratio", "change_ratio_low", "change_ratio_high")},
            }
