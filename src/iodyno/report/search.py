"""What a search found, in sentences and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from iodyno.analysis.summary import CampaignSummary
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
        where = ", ".join(f"{name} {level}" for name, level in found.levels.items())
        yield sentence(summary.search, found, where if len(summary.found) > 1 else "")


def sentence(spec: SearchSpec, found: Found, where: str = "") -> str:
    """What was found at one point.

    >>> from iodyno.core.search import parse_goal
    >>> spec = SearchSpec(parse_goal("p99 <= 1ms"))
    >>> sentence(spec, Found("p1", {}, 20_300.0, 19_900.0, 20_800.0, 19_950, 21, "precise"))
    'The largest rate with p99 <= 1ms is 20300 [19900, 20800] (95 %, 21 trials); 3 trials in a row met it at 19950.'
    """
    unit = f"{spec.factor}"
    at = f" at {where}" if where else ""
    tail = f" {found.warning[:1].upper()}{found.warning[1:]}." if found.warning else ""
    if found.ended == "edge":
        side, level = ("above", spec.high) if found.estimate > spec.high / 2 else ("below", spec.low)
        return (
            f"The largest {unit} with {spec.goal.text}{at} lies {side} {level}, where the search ends.{tail}"
        )
    interval = f"{_four(found.estimate)} [{_four(found.low)}, {_four(found.high)}]"
    text = f"The largest {unit} with {spec.goal.text}{at} is {interval} (95 %, {found.trials} trials)"
    if found.confirmed is not None:
        text += f"; 3 trials in a row met it at {found.confirmed}"
    elif found.ended == "precise":
        text += "; no level met it 3 times in a row"
    if found.ended in _ENDINGS:
        text += f"; {_ENDINGS[found.ended]}"
    return f"{text}.{tail}"


def search_json(summary: CampaignSummary) -> dict[str, Any]:
    """The goal, and where the search of each point ended; levels in base units."""
    assert summary.search is not None
    return {
        "goal": summary.search.goal.text,
        "parameter": summary.search.factor,
        "method": "probabilistic bisection; interval: 95 % of the probability, a trial right with 0.85",
        "found": [asdict(found) for found in summary.found],
    }


def _four(value: float) -> str:
    """To four digits, written out."""
    return f"{float(f'{value:.4g}'):.0f}" if value >= 1000 else f"{value:.4g}"
