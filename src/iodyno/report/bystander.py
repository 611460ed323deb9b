"""Effects of the factors on the workload and on the bystander, in sentences."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import log

from iodyno.analysis.bystander import INSTEAD, Felt, Trade
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import BYSTANDER, split_beside
from iodyno.report.numbers import between
from iodyno.report.sentence import Sentence

_TITLES = {
    "goodput_bits_per_s": "goodput",
    "operations_per_s": "rate",
    "latency_from_schedule_p99_ns": "latency from schedule p99",
    "latency_p99_ns": "latency p99",
    "latency_from_schedule_p50_ns": "latency from schedule p50",
    "latency_p50_ns": "latency p50",
}
_TIMES = 2.0
"""Ratio from which on a change is told as how many times (chosen)."""
_WORDS = {
    "goodput_bits_per_s": "goodput",
    "operations_per_s": "rate",
    "latency_from_schedule_p99_ns": "99th percentile of the latency from schedule",
    "latency_p99_ns": "99th percentile of the latency",
    "latency_from_schedule_p50_ns": "median latency from schedule",
    "latency_p50_ns": "median latency",
}


def bystander_sentences(summary: CampaignSummary) -> Iterator[Sentence]:
    """Describe the contrast that changes the two most, and whether one pays for the other; then each contrast where one does."""
    contrasts = [trade for trade in summary.trades if trade.workload and trade.bystander]
    if not contrasts:
        return
    paid = sorted((trade for trade in contrasts if trade.at_its_cost), key=_extent, reverse=True)
    most, rest = (paid[0], paid[1:]) if paid else (max(contrasts, key=_extent), [])
    if not paid:
        where = "Here" if len(contrasts) == 1 else f"In {len(contrasts)} contrasts"
        yield Sentence(
            f"{_both(most)}. {where} neither of the two is better off"
            " at the other's cost, as far as these trials can tell.",
            about="beside",
        )
        return
    others = f" So it is in {len(paid)} of {len(contrasts)} contrasts." if rest else ""
    yield Sentence(f"{_both(most)}: one is favoured at the other's cost.{others}", about="beside")
    yield from (Sentence(sentence(trade)) for trade in paid)


def bystander_columns(summary: CampaignSummary) -> dict[str, tuple[str, str]]:
    """Outcomes that the bystanders' users feel and some point knows: heading and what it is, by name."""
    known = {
        name: split_beside(name)[0]
        for point in summary.points
        for name, found in point.outcomes.items()
        if found.estimate is not None
    }
    bystanders = filter(None, dict.fromkeys(known.values()))
    return {full: words for beside in bystanders for full, words in _columns(beside, known).items()}


def _columns(beside: str, known: Collection[str]) -> dict[str, tuple[str, str]]:
    """Those of one bystander."""
    felt = [name for name in _TITLES if name not in INSTEAD.values()]
    asked = {name if f"{beside}.{name}" in known else INSTEAD.get(name, name): None for name in felt}
    named = {name: f"{beside}.{name}" for name in asked if f"{beside}.{name}" in known}
    if any(name.startswith("latency_from_schedule") for name in named):
        # It holds the latency from the first byte on.
        named = {
            name: full for name, full in named.items() if name not in ("latency_p99_ns", "latency_p50_ns")
        }
    if len(named) > 1 and "goodput_bits_per_s" in named and "operations_per_s" in named:
        # That of requests says the same as their rate.
        del named["goodput_bits_per_s"]
    return {full: (_TITLES[name], _WORDS[name]) for name, full in named.items()}


def _extent(trade: Trade) -> float:
    """Return the largest change of those worse off by a contrast; without any, of the bystander (as a logarithm of ratios)."""
    felt = [one for side in (trade.workload, trade.bystander) for one in side]
    worse = [one for one in felt if one.better is False] if trade.at_its_cost else list(trade.bystander)
    return max((abs(log(one.change.ratio)) for one in worse if one.change.ratio), default=0.0)


def _both(trade: Trade) -> str:
    """Describe the changes of both, in per cent too, with the bounds of the two intervals set against each other."""
    sides = (("the workload's", trade.workload), (f"{_who(trade)}'s", trade.bystander))
    said = " and ".join(f"{whose} {_changed(felt)}" for whose, felt in sides)
    return f"{_opening(trade)}, {said}"


def _changed(felt: Sequence[Felt]) -> str:
    # What is decided goes first, and the worst of it. Else that from schedule: its load comes whether it is answered or not.
    undecided = next((f for f in felt if "latency_from_schedule" in f.outcome), felt[0])
    one = next((f for better in (False, True) for f in felt if f.better is better), undecided)
    change = one.change
    name = _WORDS[split_beside(one.outcome)[1]]
    by = ""
    if change.ratio is not None:
        bounds = [bound for bound in (change.low, change.high) if bound is not None]
        said = _in_one_form([change.ratio, *(bounds if len(bounds) == 2 else ())])
        by = said[0] + (f" [{', '.join(said[1:])}]" if said[1:] else "")
    unsure = ", undecided" if one.better is None else ""
    return f"{name} goes from {between(change.first)} to {between(change.second)}{f' ({by}{unsure})' if by else ''}"


def _in_one_form(ratios: Sequence[float]) -> list[str]:
    """Ratios as changes; where one is beyond the double all as what they are, because nobody reads hundreds of per cent, and
    bounds are read beside what they are bounds of.

    >>> _in_one_form([0.9]), _in_one_form([1.25, 1.1, 1.4]), _in_one_form([3.5, 1.97, 11])
    (['-10 %'], ['+25 %', '+10 %', '+40 %'], ['×3.5', '×2.0', '×11'])
    """
    if max(ratios) >= _TIMES:
        return [
            f"×{ratio:.0f}" if ratio >= 10 else f"×{ratio:.1f}" if ratio >= 1 else f"×{ratio:.2g}"
            for ratio in ratios
        ]
    return [f"{100 * (ratio - 1):+.0f} %" for ratio in ratios]


def _opening(trade: Trade) -> str:
    place = ", ".join(f"{name.replace('_', ' ')} {label}" for name, label in trade.others.items())
    name = "message size" if trade.factor == "size" else trade.factor.replace("_", " ")
    return f"From {name} {trade.before} to {trade.after}{f' ({place})' if place else ''}"


def sentence(trade: Trade) -> str:
    """Say who gains and who pays when the factor goes from one level to the other."""
    return (
        f"{_opening(trade)}, "
        f"{_side('the workload', trade.workload)}, and {_side(_who(trade), trade.bystander)}:"
        f" one is favoured at the other's cost."
    )


def _who(trade: Trade) -> str:
    return "the bystander" if trade.beside == BYSTANDER else trade.beside


def _side(who: str, felt: Sequence[Felt]) -> str:
    contrasts = [one for one in felt if one.better is not None]
    words = [
        f"its {_WORDS[split_beside(one.outcome)[1]]} goes from {between(one.change.first)} to "
        f"{between(one.change.second)}"
        for one in contrasts
    ]
    better = {one.better for one in contrasts}
    verdict = (
        "is better off" if better == {True} else "is worse off" if better == {False} else "gains and loses"
    )
    return f"{who} {verdict} ({'; '.join(words)})"
