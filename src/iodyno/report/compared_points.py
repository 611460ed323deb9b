"""Answer of `iodyno compare --points`: two points, and with --functions which functions the difference is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from iodyno.analysis.compare import OutcomeChange, outcome_changes
from iodyno.analysis.decisions.sides import busy_time, counted_once
from iodyno.analysis.functions import Part
from iodyno.analysis.mechanisms import MechanismChange
from iodyno.analysis.path_steps import step_changes
from iodyno.analysis.two_points import Side, mechanisms_between, profiles_between, settings_between
from iodyno.core.quantity import counted
from iodyno.report.compared import apart_lines, apart_values, change_rows_of, points_headline
from iodyno.report.csv import change_rows
from iodyno.report.form import Block, Shown
from iodyno.report.function_json import (
    change_values,
    mechanism_change_values,
    outcome_change_values,
    profile_values,
    step_values,
)
from iodyno.report.function_sentences import cost_of, why
from iodyno.report.function_tables import (
    basis_note,
    brief_change_table,
    change_table,
    comparison_note,
    mechanism_change_table,
    not_measured,
    outcome_change_table,
)
from iodyno.report.verdicts import WITHIN


def points_shown(first: Side, second: Side, *, verbose: bool) -> Shown:
    """Return what there is to show of two points. `verbose`: with tables of outcomes and mechanisms."""
    changes, outcomes = mechanisms_between(first, second), _outcomes(first, second)

    def values() -> dict[str, Any]:
        return _sides(first, second) | {
            "outcomes": outcome_change_values(outcomes, (first.point, second.point)),
            "mechanisms": mechanism_change_values(changes),
            "note": _outcome_note(len(outcomes)),
        }

    def blocks() -> Iterator[Block]:
        asked = {name for each in first.summary.asked for name in (each, busy_time(each))}
        sessions = len({first.summary.folder, second.summary.folder})
        yield points_headline(outcomes, _places(first, second), _apart(first, second), asked, sessions)
        if not verbose:
            return
        yield ""
        if outcomes:
            yield outcome_change_table("Outcomes", outcomes, (first.point, second.point))
        yield from _mechanism_blocks(changes)
        ratios = [*(one.ratio for one in outcomes), *(one.ratio for one in changes)]
        compared = sum(ratio.estimate is not None for ratio in ratios)
        if compared:
            yield _outcome_note(compared)

    return Shown(blocks, values, lambda: change_rows(outcomes))


def functions_shown(
    first: Side, second: Side, host: str, top: int | None, by: Part, *, verbose: bool
) -> Shown:
    """Return which functions of a host the difference in CPU per KiB is of: the first `top`, all in CSV. `verbose`: with
    mechanisms, and how it was found. Raises StoreError.
    """
    changes, change = mechanisms_between(first, second), profiles_between(first, second, host)
    known = [factor for side in (first, second) for factor in side.summary.factors]
    factors = list(dict.fromkeys(factor.name for factor in known if factor.varies))
    together = list(dict.fromkeys(name for factor in known for name in factor.together))
    costs = [
        cost_of(profile, side.point.outcomes)
        for profile, side in ((change.first, first), (change.second, second))
    ]
    sentences = why(change, changes, factors, together, (costs[0], costs[1]))

    def values() -> dict[str, Any]:
        outcomes = _outcomes(first, second)
        return _sides(first, second) | {
            "host": change.first.host,
            "functions": change_values(change, top, by),
            "first_profile": profile_values(change.first, top, by),
            "second_profile": profile_values(change.second, top, by),
            "mechanisms": mechanism_change_values(changes),
            "steps": step_values(step_changes(change, changes)),
            "outcomes": outcome_change_values(outcomes, (first.point, second.point)),
            "sentences": [sentence.text for sentence in sentences],
            "note": comparison_note(change),
        }

    def blocks() -> Iterator[Block]:
        for sentence in sentences:
            yield sentence.text
        yield ""
        yield _heading(first, second) + f"\nhost {change.first.host}\n"
        if verbose:
            yield change_table(change, top, by)
            yield comparison_note(change) + "\n"
            yield from _mechanism_blocks(changes)
        else:
            yield brief_change_table(change, top, by)
            yield "Brackets and ± are 95 % intervals; ?: may be chance. More functions, and mechanisms, with -v."
        for side, profile in (("A", change.first), ("B", change.second)):
            if verbose:
                yield f"{side}: {basis_note(profile)}"
            for warning in profile.warnings:
                yield f"warning: {side}: {warning.text}"

    return Shown(blocks, values, lambda: change_rows_of(change.first.host, change_values(change, None, by)))


def _outcomes(first: Side, second: Side) -> list[OutcomeChange]:
    """Return the change of each outcome of both, each cost once."""
    outcomes = first.point.outcomes
    names = counted_once(tuple(outcomes), first.summary, second.summary)
    return outcome_changes({name: outcomes[name] for name in names}, second.point.outcomes)


def _mechanism_blocks(changes: Sequence[MechanismChange]) -> Iterator[Block]:
    table = mechanism_change_table(changes)
    if table.rows:
        yield table
    for line in not_measured(changes):
        yield f"not measured: {line}"


def _places(first: Side, second: Side) -> list[tuple[str, str]]:
    two = first.summary.folder != second.summary.folder
    return [
        (
            letter,
            f"{side.title}{f', {side.summary.folder}' if two else ''} ({counted(side.point.finished, 'trial')})",
        )
        for letter, side in (("A", first), ("B", second))
    ]


def _heading(first: Side, second: Side) -> str:
    two = first.summary.folder != second.summary.folder
    lines = [f"{letter}: {text}" for letter, text in _places(first, second)]
    return "\n".join((*lines, *_apart(first, second), *([f"{WITHIN}."] if two else [])))


def _apart(first: Side, second: Side) -> list[str]:
    """List the differences between two points of two campaigns, in a line; of one campaign their names say it."""
    return apart_lines(settings_between(first, second))


def _sides(first: Side, second: Side) -> dict[str, Any]:
    return apart_values(settings_between(first, second)) | {
        name: {
            "campaign": side.summary.folder,
            "point": side.point.id,
            "levels": dict(side.point.levels),
            "labels": dict(side.point.labels),
            "trials": side.point.finished,
        }
        for name, side in (("first", first), ("second", second))
    }


def _outcome_note(compared: int) -> str:
    return (
        f"± and brackets are 95 % intervals over trials; ratios are B over A. Undecided: the interval spans 1. Of "
        f"{compared} ratios one in twenty of what did not change leaves out 1 by chance. ?: unreliable, as steal time is over "
        "1 %."
    )
