"""Sentences about a campaign, derived from its numbers: nothing is said that the intervals do not carry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iodyno.analysis.compare import Change, Effect, change, effects
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.summary import CampaignSummary, PointSummary
from iodyno.core.outcome import Estimate
from iodyno.report.layout import Layout, layout_of, line_name, place_name
from iodyno.report.numbers import between, digits, quantity
from iodyno.report.tables import SPLIT, cost_outcome

_UNITS = {"cycles/KiB": "cycles a KiB", "ns/KiB": "ns of CPU a KiB"}


@dataclass(frozen=True)
class Sentence:
    """One sentence, and the single cases that it sums up."""

    text: str
    details: tuple[str, ...] = ()


def sentences(summary: CampaignSummary) -> list[Sentence]:
    """What the campaign answers: cost, its change with every factor, goodput, and where the CPU time goes."""
    layout = layout_of(summary)
    cost = cost_outcome(summary)
    found: list[Sentence] = []
    for host in summary.hosts:
        found += _range(summary, layout, f"{host.name}.{cost}", f"On {host.name}, a KiB delivered costs")
    sender = summary.host("send")
    if sender is not None:
        outcome = f"{sender.name}.{cost}"
        for factor in layout.lines:
            found += _across(summary, layout, factor, outcome, f"the cost on {sender.name}")
        if layout.along is not None:
            found += _along(summary, layout, outcome, f"the cost on {sender.name}")
    found += _range(summary, layout, "goodput_bits_per_s", "Goodput is")
    if sender is not None:
        found += _where_time_goes(summary, layout, sender.name, f"{sender.name}.{cost}")
    if not found:
        found.append(Sentence("No trial finished, so nothing can be said."))
    return found


def extremes(summary: CampaignSummary, outcome: str) -> tuple[PointSummary, PointSummary] | None:
    """The points with the smallest and with the largest estimate of an outcome."""
    known = [point for point in summary.points if point.outcomes[outcome].estimate is not None]
    if not known:
        return None
    known.sort(key=lambda point: point.outcomes[outcome].estimate or 0.0)
    return known[0], known[-1]


def _range(summary: CampaignSummary, layout: Layout, outcome: str, opening: str) -> Iterator[Sentence]:
    """The whole range of an outcome, with where it ends."""
    found = extremes(summary, outcome)
    if found is None:
        return
    low, high = (point.outcomes[outcome] for point in found)
    if found[0] is found[1]:
        yield Sentence(f"{opening} {_value(low)}.")
        return
    places = [place_name(point, layout.factors) for point in found]
    step = change(low, high)
    if step.verdict != "rises":
        yield Sentence(
            f"{opening} {_value(low)} ({places[0]}) to {_value(high)} ({places[1]}), and these two intervals "
            f"overlap: no point stands out."
        )
        return
    yield Sentence(
        f"{opening} {_value(low)} at the least ({places[0]}) and {_value(high)} at the most ({places[1]}): "
        f"{_factor(step)}."
    )


def _across(
    summary: CampaignSummary, layout: Layout, factor: FactorLevels, outcome: str, what: str
) -> Iterator[Sentence]:
    """How an outcome changes from the first to the last level of a factor, at all combinations of the others."""
    labels = summary.factor_labels[factor.name]
    found = _effects(summary, layout, factor, outcome)
    if not found:
        return
    name = "message size" if factor.name == "size" else factor.name.replace("_", " ")
    step = f"From {name} {labels[0]} to {labels[-1]}, {what}"
    others = [other for other in layout.factors if other is not factor]
    places = {
        id(effect): _others_name(summary, effect, others) or "everywhere" for effect in found
    }
    details = tuple(
        f"{places[id(e)]}: {_verb(e.change)} from {_value(e.change.first)} to {_value(e.change.second)}, "
        f"{_factor(e.change)}"
        for e in found
    )
    yield Sentence(f"{step} {_tally(found, places, others)}", details if len(found) > 1 else ())


def _along(summary: CampaignSummary, layout: Layout, outcome: str, what: str) -> Iterator[Sentence]:
    """How an outcome goes along the main factor, line by line: ends and lowest point."""
    along = layout.along
    assert along is not None
    lines: dict[str, list[PointSummary]] = {}
    for point in summary.points:
        if point.outcomes[outcome].estimate is not None:
            lines.setdefault(line_name(layout, point), []).append(point)
    for name, points in lines.items():
        points.sort(key=lambda point: along.levels.index(point.levels[along.name]))
        if len(points) < 2:
            continue
        first, last = points[0], points[-1]
        lowest = min(points, key=lambda point: point.outcomes[outcome].estimate or 0.0)
        where = f"{_opening(layout, name)}{what}"
        text = f"{where} {_step(first, last, outcome, along)}"
        if lowest not in (first, last):
            dips = change(lowest.outcomes[outcome], first.outcomes[outcome]).verdict == "rises"
            climbs = change(lowest.outcomes[outcome], last.outcomes[outcome]).verdict == "rises"
            if dips and climbs:
                text = (
                    f"{where} is lowest in between: it {_step(first, lowest, outcome, along)}, then "
                    f"{_step(lowest, last, outcome, along)}"
                )
        yield Sentence(_capital(text) + ".")


def _where_time_goes(
    summary: CampaignSummary, layout: Layout, host: str, outcome: str
) -> Iterator[Sentence]:
    found = extremes(summary, outcome)
    if found is None:
        return
    dearest = found[1]
    shares = {name: dearest.outcomes[f"{host}.{name}"].estimate for name in SPLIT}
    if any(share is None for share in shares.values()):
        return
    usr, sys, intr, idle = (100 * (share or 0.0) for share in shares.values())
    place = place_name(dearest, layout.factors)
    unsure = any(d.code == "split_unreliable" and d.text.startswith(host) for d in dearest.doubts)
    most = max((("user code", usr), ("the kernel", sys), ("interrupts", intr)), key=lambda part: part[1])
    yield Sentence(
        f"{'Where it is dearest (' + place + '), ' if place else ''}{host} is busy {100 - idle:.0f} % of its "
        f"CPUs, most of it in {most[0]}: {usr:.0f} % user, {sys:.0f} % system, {intr:.0f} % interrupts"
        f"{' (this split is unreliable)' if unsure else ''}.".replace("Where", "Where", 1)
    )


def _effects(
    summary: CampaignSummary, layout: Layout, factor: FactorLevels, outcome: str
) -> list[Effect]:
    names = [other.name for other in layout.factors]
    points = [
        ({name: point.levels[name] for name in names if name in point.levels}, point.outcomes[outcome])
        for point in summary.points
    ]
    return effects(points, factor.name, factor.levels[0], factor.levels[-1])


def _tally(found: Sequence[Effect], places: dict[int, str], others: Sequence[FactorLevels]) -> str:
    """`rises at 9 of 10 connection counts, by a factor of 4.5 to 11, and is undecided at 1`."""
    parts = []
    of = f"of {len(found)} " + (f"levels of {others[0].name}" if len(others) == 1 else "combinations")
    for verdict, word in (("rises", "rises"), ("falls", "falls")):
        mine = [effect for effect in found if effect.change.verdict == verdict]
        ratios = sorted(e.change.ratio for e in mine if e.change.ratio is not None)
        if not mine:
            continue
        where = f"at all {len(found)} {of.split(' ', 2)[2]}" if len(mine) == len(found) else f"at {len(mine)} {of}"
        if len(found) == 1:
            where = ""
        spread = _ratio_words(ratios)
        parts.append(" ".join(filter(None, (word, where))) + (f", {spread}" if spread else ""))
    open_ones = [effect for effect in found if effect.change.verdict == "undecided"]
    if open_ones:
        listed = "" if len(found) == 1 else f" at {_listed([places[id(e)] for e in open_ones])}"
        parts.append(f"is undecided{listed}: the intervals overlap")
    return "; it ".join(parts) + "."


def _listed(places: Sequence[str]) -> str:
    if len(places) > 4:
        return f"{len(places)} of them"
    return ", ".join(places[:-1]) + (" and " if len(places) > 1 else "") + places[-1]


def _ratio_words(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    low, high = ratios[0], ratios[-1]
    if f"{low:.2g}" == f"{high:.2g}":
        return f"by a factor of {_times(low)}"
    return f"by a factor of {_times(low)} to {_times(high)}"


def _factor(step: Change) -> str:
    if step.ratio is None:
        return "no ratio"
    bounds = f" [{_times(step.low)}, {_times(step.high)}]" if step.low and step.high else ""
    return f"a factor of {_times(step.ratio)}{bounds}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else digits(ratio)


def _verb(step: Change) -> str:
    return step.verdict if step.verdict != "undecided" else "is undecided,"


def _step(first: PointSummary, last: PointSummary, outcome: str, along: FactorLevels) -> str:
    a, b = first.outcomes[outcome], last.outcomes[outcome]
    step = change(a, b)
    places = [place_name(point, [along]) for point in (first, last)]
    if step.verdict == "undecided":
        return f"does not clearly differ between {places[0]} ({_value(a)}) and {places[1]} ({_value(b)})"
    return f"{step.verdict} from {_value(a)} at {places[0]} to {_value(b)} at {places[1]}"


def _others_name(summary: CampaignSummary, effect: Effect, others: Sequence[FactorLevels]) -> str:
    for point in summary.points:
        if all(point.levels.get(name) == level for name, level in effect.others.items()):
            return place_name(point, others)
    return ""


def _opening(layout: Layout, name: str) -> str:
    if not layout.lines:
        return ""
    only = layout.lines[0].name
    return f"with {'message size ' if only == 'size' and len(layout.lines) == 1 else ''}{name}, "


def _value(found: Estimate) -> str:
    shown = between(found)
    for unit, words in _UNITS.items():
        shown = shown.replace(unit, words)
    return shown if found.estimate is not None else quantity(None, found.unit)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
