"""Findings of a search, in sentences and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from iodyno.analysis.results import CampaignSummary
from iodyno.core.quantity import counted
from iodyno.core.search import Found, SearchSpec

_ENDINGS = {
    "": "the search was interrupted",
    "time": "the search ended at its bound on time",
    "failed": "the search ended there",
}


def search_sentences(summary: CampaignSummary) -> Iterator[str]:
    """One for each point that was searched; nothing for an experiment that does not search."""
    for found in summary.found if summary.search else ():
        assert summary.search is not None
        yield sentence(summary.search, found, _place(summary, found) if len(summary.found) > 1 else "")


def _place(summary: CampaignSummary, found: Found) -> str:
    """The levels of its factors, as people wrote them; what is set together with one is told by it."""
    return ", ".join(
        f"{factor.name.replace('_', ' ')} "
        f"{summary.factor_labels[factor.name][factor.levels.index(found.levels[factor.name])]}"
        for factor in summary.factors
        if factor.name in found.levels and found.levels[factor.name] in factor.levels
    )


def sentence(spec: SearchSpec, found: Found, where: str = "") -> str:
    """State the finding at one point.

    >>> from iodyno.core.search import parse_goal
    >>> spec = SearchSpec(parse_goal("p99 <= 1ms"))
    >>> sentence(spec, Found("p1", {}, 20_300.0, 19_900.0, 20_800.0, 19_950, 21, "precise"))
    'The largest rate with p99 <= 1ms is 20300/s [19900, 20800] (95 %, 21 trials); 3 trials in a row met it at 19950/s.'
    """
    at = f" at {where}" if where else ""
    if not found.known:
        why = found.warning or "it was interrupted before the first trial told anything"
        return f"The largest {spec.factor} with {spec.goal.text}{at} is not known: {why}."
    tail = f" {found.warning[:1].upper()}{found.warning[1:]}." if found.warning else ""
    if found.ended == "edge":
        side, level = ("above", spec.high) if _above(spec, found) else ("below", spec.low)
        ends = f"lies {side} {level}{_unit(spec)}, where the search ends"
        return f"The largest {spec.factor} with {spec.goal.text}{at} {ends}.{tail}"
    interval = _interval(spec, found)
    text = f"The largest {spec.factor} with {spec.goal.text}{at} is {interval} (95 %, {counted(found.trials, 'trial')})"
    if found.confirmed is not None:
        text += f"; 3 trials in a row met it at {found.confirmed}{_unit(spec)}"
    elif found.ended == "precise":
        text += "; no level met it 3 times in a row"
    if found.ended in _ENDINGS:
        text += f"; {_ENDINGS[found.ended]}"
    return f"{text}.{tail}"


def so_far(spec: SearchSpec, found: Found) -> str:
    """State the interval that a search has reached so far.

    >>> from iodyno.core.search import parse_goal
    >>> so_far(SearchSpec(parse_goal("loss = 0")), Found("p1", {}, 22_360.0, 2040.0, 4.1e6, None, 2, ""))
    'the largest rate with loss = 0 so far: 22360/s [2040, 4100000]'
    """
    return f"the largest {spec.factor} with {spec.goal.text} so far: {_interval(spec, found)}"


def _interval(spec: SearchSpec, found: Found) -> str:
    return f"{_four(found.estimate)}{_unit(spec)} [{_four(found.low)}, {_four(found.high)}]"


def _unit(spec: SearchSpec) -> str:
    return "/s" if spec.factor == "rate" else ""


def search_json(summary: CampaignSummary) -> dict[str, Any]:
    """The goal, and where the search of each point ended; levels in base units."""
    assert summary.search is not None
    return {
        "goal": summary.search.goal.text,
        "parameter": summary.search.factor,
        "method": "probabilistic bisection; interval: 95 % of the probability, over walls of every sharpness",
        "found": [_as_json(summary.search, found) for found in summary.found],
    }


def _as_json(spec: SearchSpec, found: Found) -> dict[str, Any]:
    unknown: dict[str, Any] = {} if found.known else dict.fromkeys(("estimate", "low", "high"))
    if found.known and found.ended == "edge":
        # Of what lies outside of the search only the side is known.
        bounds = {"low": spec.high, "high": None} if _above(spec, found) else {"low": None, "high": spec.low}
        unknown = {"estimate": None, **bounds}
    return asdict(found) | unknown


def _above(spec: SearchSpec, found: Found) -> bool:
    return found.estimate > spec.high / 2


def _four(value: float) -> str:
    """To four digits, written out."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
