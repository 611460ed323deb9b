"""Sentences about where the CPU time of a KiB goes, by class: what makes the largest part of it, and what makes it costlier."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iodyno.analysis.compare import change, difference
from iodyno.analysis.cpu_classes import BUSY_CLASSES
from iodyno.analysis.results import PointSummary
from iodyno.core.outcome import Estimate
from iodyno.report.layout import Layout, place_name
from iodyno.report.numbers import between

WORDS = {
    "usr": "user code",
    "sys": "system code",
    "irq": "hard interrupts",
    "softirq": "soft interrupts",
    "other": "other tasks",
}

_FIT = 0.1
"""Share by which classes may miss the total before nothing is said of them (chosen: what sampled splits are off by
where nothing is in step with the tick)."""


def busy_by_class(point: PointSummary, host: str) -> str:
    """`1 % user code, 40 % system code, 12 % soft interrupts`: what the host's CPUs are busy with, zeros left out."""
    parts = []
    for kind in BUSY_CLASSES:
        found = point.outcomes.get(f"{host}.cpu_{kind}_ratio")
        if found and found.estimate is not None and found.estimate >= 0.005:
            parts.append((found.estimate, f"{100 * found.estimate:.0f} % {WORDS[kind]}"))
    return ", ".join(text for _, text in sorted(parts, reverse=True))


def what_makes_it(
    layout: Layout, cheapest: PointSummary, costliest: PointSummary, host: str, cost: str = "cost"
) -> Iterator[str]:
    """Which class makes the largest part of a KiB's cost at both ends of its range, and which make the difference. `cost`: its
    word.
    """
    at_first, at_last = _largest(cheapest, host), _largest(costliest, host)
    if at_first is None or at_last is None:
        return
    (first, share), (last, final) = at_first, at_last
    places = [place_name(point, layout.factors) for point in (cheapest, costliest)]
    total = f"{host}.cpu_ns_per_kib"
    if change(cheapest.outcomes[total], costliest.outcomes[total]).verdict != "rises":
        at = f" at {places[1]}" if places[1] else ""
        yield f"On {host}, {_makes(last)} {part_of(final)} of what a KiB costs{at}: {_percent(final)}."
        return
    if first == last:
        yield (
            f"On {host}, {_makes(first)} {part_of(min(share, final))} of what a KiB costs: {_percent(share)} of it "
            f"where the {cost} is lowest ({places[0]}), {_percent(final)} where the {cost} is highest ({places[1]})."
        )
    else:
        yield (
            f"On {host}, {_makes(first)} {part_of(min(share, final))} of what a KiB costs where the {cost} is lowest "
            f"({_percent(share)}; {places[0]}), "
            f"{WORDS[last]} where the {cost} is highest ({_percent(final)}; {places[1]})."
        )
    yield from _what_makes_the_difference(cheapest, costliest, host)


def _what_makes_the_difference(cheapest: PointSummary, costliest: PointSummary, host: str) -> Iterator[str]:
    total = f"{host}.cpu_ns_per_kib"
    grown, unclear = [], []
    for kind in BUSY_CLASSES:
        name = f"{host}.cpu_{kind}_ns_per_kib"
        first, last = cheapest.outcomes[name], costliest.outcomes[name]
        step = difference(first, last)
        if step.estimate is None:
            continue
        if step.low is not None and step.high is not None and (step.low > 0 or step.high < 0):
            grown.append((step.estimate, f"{_ns(step)} in {WORDS[kind]}"))
        else:
            unclear.append(WORDS[kind])
    if not grown:
        return
    parts = _listed([text for _, text in sorted(grown, reverse=True)])
    rest = f"; {_listed(unclear)} may not have changed" if unclear else ""
    whole = difference(cheapest.outcomes[total], costliest.outcomes[total])
    yield (f"Between these two, a KiB on {host} costs more by {_ns(whole)} of CPU time: {parts}{rest}.")


def _largest(point: PointSummary, host: str) -> tuple[str, float] | None:
    """The class that makes the largest part of the cost, with its share; None where classes are missing or do not fit."""
    total = point.outcomes.get(f"{host}.cpu_ns_per_kib")
    parts = {kind: point.outcomes.get(f"{host}.cpu_{kind}_ns_per_kib") for kind in BUSY_CLASSES}
    known = {kind: found.estimate for kind, found in parts.items() if found and found.estimate is not None}
    if not total or not total.estimate or total.estimate < 0 or not {"usr", "sys", "softirq"} <= set(known):
        return None
    # A sampled split that is far off the total says nothing of shares.
    if abs(sum(known.values()) / total.estimate - 1) > _FIT:
        return None
    kind = max(known, key=lambda name: known[name])
    share = known[kind] / total.estimate
    # More than all: others are below zero, because less of them ran than in the background that is taken off.
    return (kind, min(share, 1.0)) if share <= 1 + _FIT else None


def part_of(share: float) -> str:
    """Name the largest of several shares: `most` only where it is more than half of the whole.

    >>> part_of(0.44), part_of(0.8)
    ('the largest part', 'most')
    """
    return "most" if share > 0.5 else "the largest part"


def _makes(kind: str) -> str:
    return f"{WORDS[kind]} {'makes' if WORDS[kind].endswith('code') else 'make'}"


def _ns(found: Estimate) -> str:
    return between(found).removesuffix("/KiB")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + (" and " if len(parts) > 1 else "") + parts[-1]
