"""Finding of a rule for stopping, in a sentence and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from iodyno.core.decision import Standing
from iodyno.core.quantity import counted
from iodyno.report.numbers import digits, scale_of

_COARSE = "if this is the truth, no more trials decide it, as a window has one count more or less: measure for longer"
_ANSWERS = {"yes": "Yes", "no": "No", "undecided": "Undecided"}


def decision_sentence(found: Standing) -> str:
    """The answer, the interval that carries it, and what it took.

    >>> decision_sentence(Standing("ratio(x) > 1.5", "yes", "decided", 12, 6, 200, "c at x=2 over that at x=1",
    ...     estimate=2.04, low=1.82, high=2.29, tuned_trials=50))
    'Yes: ratio(x) > 1.5. c at x=2 over that at x=1 is 2.04 [1.82, 2.29]; decided after 12 of at most 200 trials.'
    """
    answer = _ANSWERS[found.answer]
    if found.interval_kind == "fixed":
        answer = {"yes": "Narrow enough", "undecided": "Not yet narrow enough"}.get(found.answer, answer)
    elif found.interval_kind == "rounds":
        answer = {"yes": "Steady", "undecided": "Not yet steady"}.get(found.answer, answer)
    took = f"after {found.trials} of at most {counted(found.max_trials, 'trial')}"
    ended = {"decided": f"decided {took}", "limit": f"the limit was reached {took}"}.get(
        found.ended, f"so far {counted(found.trials, 'trial')}"
    )
    text = f"{answer}: {found.rule}. {interval_text(found)}; {ended}"
    if found.interval_kind == "rounds":
        text += f"; {found.method}"
    elif found.answer == "undecided" and (found.ended or found.more_trials or found.coarse):
        text += (
            f"; about {_round(found.more_trials)} more would decide it, if this is the truth"
            if found.more_trials
            else f"; {_COARSE}"
            if found.coarse
            else "; how many more would decide it cannot be said"
        )
    if found.left_out:
        text += f"; {counted(found.left_out, 'trial')} without a value {'is' if found.left_out == 1 else 'are'} left out"
    return f"{text}."


def look_line(found: Standing) -> str:
    """One line after a block: `12 trials: 2.04 [1.82, 2.29], needs about 8 more`."""
    line = f"{counted(found.trials, 'trial')}: {_numbers(found)}"
    if found.ended == "decided":
        return f"{line}: {found.answer}"
    if found.ended:
        return f"{line}: undecided, the limit of {counted(found.max_trials, 'trial')} is reached"
    if found.more_trials:
        return f"{line}, needs about {_round(found.more_trials)} more"
    return line


def interval_text(found: Standing) -> str:
    """The quantity with its value and interval."""
    return f"{found.quantity} is {_numbers(found)}"


def decision_json(found: Standing) -> dict[str, Any]:
    """Every field, and the sentence."""
    return {
        **asdict(found),
        "looks": [asdict(look) for look in found.looks],
        "sentence": decision_sentence(found),
    }


def _round(trials: int) -> str:
    """To two digits: no more is known of what is to come."""
    return f"{float(f'{trials:.2g}'):.0f}"


def _numbers(found: Standing) -> str:
    if found.estimate is None:
        return f"not known ({found.missing})"
    scale = scale_of(found.estimate, found.unit, found.outcome)
    value = found.estimate / scale.factor
    unit = f" {scale.unit}" if scale.unit else ""
    if found.low is None or found.high is None:
        return f"{digits(value)}{unit}, no interval yet ({found.missing})"
    low, high = found.low / scale.factor, found.high / scale.factor
    half = (high - low) / 2 or None
    return f"{digits(value, half)} [{digits(low, half)}, {digits(high, half)}]{unit}"
