"""Tables of a design for `iodyno plan`: its structure, what is aliased, and how sharply effects will be told."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted

if TYPE_CHECKING:
    from iodyno.designs.evaluation import Evaluation, TermExpectation

_ROWS = 36
"""Effects shown (chosen: eight factors and their two-factor interactions)."""
_PRECISIONS = (0.01, 0.02, 0.05, 0.1)


def structure_lines(experiment: Experiment, design: Design) -> list[str]:
    """Return lines on how the design was made; none for designs that are not two-level fractions."""
    from iodyno.designs.fractional import roman

    structure = design.structure
    if structure is None:
        return []
    combinations = 2 ** len(experiment.factors)
    resolution = f", resolution {roman(structure.resolution)}" if structure.resolution else ""
    lines = [f"{design.kind}{resolution}: {_runs(design)} of {combinations} combinations"]
    if structure.generators:
        lines.append("  generators: " + "; ".join(structure.generators))
    if structure.words:
        shown = ", ".join(structure.words[:8]) + (
            f" and {len(structure.words) - 8} more" if len(structure.words) > 8 else ""
        )
        lines.append(f"  constant in all runs: {shown}")
    if structure.confounded:
        lines.append("  hidden in the differences between blocks: " + ", ".join(structure.confounded))
    return lines


def evaluation_lines(evaluation: Evaluation | None) -> list[str]:
    """Return lines on what the design will tell."""
    from iodyno.designs.evaluation import jain_runs

    if evaluation is None:
        return []
    noise, effect = evaluation.noise_ratio, evaluation.effect_ratio
    head = ["effect", "aliased with", "±"] + (
        [f"finds {percent(effect)}"] if effect is not None and noise is not None else []
    )
    stated = (
        f"for a noise of {percent(noise)} between trials"
        if noise is not None
        else "in multiples of the noise between trials (--noise)"
    )
    lines = [f"What it will tell, 95 % intervals {stated}, effects from low to high:"]
    # Alike in all but the name, effects need no line each.
    shown = evaluation.terms[:_ROWS]
    if (
        len(shown) > 8
        and len({(_rounded(e), e.slow) for e in shown}) == 1
        and not any(e.aliases for e in shown)
    ):
        first = shown[0]
        lines.append(
            f"  each of {len(evaluation.terms)} effects ±{_width(first, noise)}{_found(first, effect)}"
        )
        lines += textwrap.wrap(
            ", ".join(entry.name for entry in shown), 110, initial_indent="  ", subsequent_indent="  "
        )
    else:
        rows = [
            [e.name + (" (slow)" if e.slow else ""), ", ".join(e.aliases) or "-", _width(e, noise)]
            + ([_power(e)] if len(head) == 4 else [])
            for e in shown
        ]
        lines += [f"  {line}" for line in _table(head, rows)]
    if len(evaluation.terms) > _ROWS:
        lines.append(f"  and {len(evaluation.terms) - _ROWS} more (--json)")
    reasons = {entry.reason for entry in evaluation.terms if entry.reason}
    lines += [f"  {reason}" for reason in sorted(reasons)]
    if evaluation.word_lengths:
        lengths = ", ".join(
            f"{count} of length {length}" for length, count in evaluation.word_lengths.items()
        )
        lines.append(f"  word-length pattern: {lengths}")
    aliased = [entry for entry in evaluation.terms if entry.aliases]
    if aliased:
        lines.append("  clear: " + (", ".join(evaluation.clear) or "none"))
    elif evaluation.terms:
        lines.append(f"  clear: all {len(evaluation.terms)}")
    if evaluation.dropped:
        lines.append("  these points cannot estimate beside the others: " + ", ".join(evaluation.dropped))
    for name, other, size in evaluation.partial[:12]:
        if not any(other == alias.removeprefix("-") for e in evaluation.terms for alias in e.aliases):
            lines.append(f"  {name} is biased by {size:.2f} of {other}, which the model leaves out")
    if evaluation.correlated is not None and evaluation.condition_number is not None:
        one, other, size = evaluation.correlated
        lines.append(
            f"  not orthogonal: condition number {evaluation.condition_number:.3g}, {one} and {other} correlated {size:.2f}"
        )
    if evaluation.runs_before:
        lines.append(f"  with the {evaluation.runs_before} trials that are there, as a block of their own")
    if noise is not None:
        runs = ", ".join(f"{jain_runs(noise, p)} for ±{percent(p)}" for p in _PRECISIONS)
        lines.append(f"  trials of one point for its mean (Jain): {runs}")
    lines += [f"  {warning}" for warning in evaluation.warnings]
    return lines


def evaluation_brief(evaluation: Evaluation | None) -> list[str]:
    """Return the same in a line, and what is wrong with the design."""
    if evaluation is None or not evaluation.terms:
        return []
    known = [e.half_width_ratio for e in evaluation.terms if e.half_width_ratio is not None]
    aliased = sum(bool(entry.aliases) for entry in evaluation.terms)
    low, high = (f"{bound(known):.3g}" if known else "?" for bound in (min, max))
    alias = f"{aliased} aliased with others (-v)" if aliased else "none aliased with another"
    lines = [
        f"What it will tell: {counted(len(evaluation.terms), 'effect')} ±{low if low == high else f'{low} to {high}'} x noise "
        f"between trials (--noise; 95 % intervals), {alias}"
    ]
    if evaluation.dropped:
        lines.append("  these points cannot estimate beside the others: " + ", ".join(evaluation.dropped))
    return lines + [f"  {warning}" for warning in evaluation.warnings]


def design_json(design: Design, evaluation: Evaluation | None) -> dict[str, Any]:
    """The same for programs."""
    return {
        "structure": asdict(design.structure) if design.structure else None,
        "coding": {name: asdict(coding) for name, coding in design.coding.items()},
        "aliases": [list(effects) for effects in design.aliases],
        "evaluation": asdict(evaluation) if evaluation else None,
    }


def percent(ratio: float) -> str:
    """A ratio in per cent, three digits of it.

    >>> percent(0.05), percent(0.00123)
    ('5 %', '0.123 %')
    """
    return f"{100 * ratio:.3g} %"


def _runs(design: Design) -> int:
    return (
        len(design.points)
        if not design.structure
        else sum(1 for point in design.points if not _middle(design, point.levels))
    )


def _middle(design: Design, levels: Any) -> bool:
    return any(
        coding.kind == "number" and levels[name] not in (coding.low, coding.high)
        for name, coding in design.coding.items()
    )


def _rounded(entry: TermExpectation) -> str:
    return "?" if entry.half_width_ratio is None else f"{entry.half_width_ratio:.3g}"


def _width(entry: TermExpectation, noise: float | None) -> str:
    if entry.half_width_ratio is None:
        return "?"
    return percent(entry.half_width_ratio) if noise is not None else f"{entry.half_width_ratio:.3g} x noise"


def _power(entry: TermExpectation) -> str:
    return "?" if entry.power_ratio is None else f"{100 * entry.power_ratio:.0f} %"


def _found(entry: TermExpectation, effect: float | None) -> str:
    if entry.power_ratio is None or effect is None:
        return ""
    return f", finds an effect of {percent(effect)} in {_power(entry)} of campaigns"


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), line[1].ljust(widths[1])]
            + [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        ).rstrip()
        for line in lines
    ]
