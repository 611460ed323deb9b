"""Sentences about a campaign, derived from its numbers: nothing is said that the intervals do not carry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from iodyno.analysis.compare import Change, change, effects
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.factor import VARIANT
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.core.workload import Level
from iodyno.loads.base.report import load_of
from iodyno.report.block_size import block_size_sentences
from iodyno.report.bystander import bystander_sentences
from iodyno.report.class_sentences import busy_by_class, part_of, what_makes_it
from iodyno.report.cost_words import COSTS, cost_outcome, subject
from iodyno.report.decision import decision_sentence
from iodyno.report.fairness import fairness_sentences
from iodyno.report.finite_buffer import buffer_sentences
from iodyno.report.fit import fit_sentences
from iodyno.report.layout import Layout, layout_of, line_name, place_name
from iodyno.report.members import member_sentences
from iodyno.report.numbers import between, digits, quantity
from iodyno.report.peak import peak_sentences
from iodyno.report.placement import placement_sentences
from iodyno.report.search import search_sentences
from iodyno.report.sentence import About
from iodyno.report.sentence import Sentence as Sentence
from iodyno.report.tables import RATES, SPLIT, rate_outcome
from iodyno.report.void import costs_at, of_claimed, points_not_void, points_of_own_cost
from iodyno.report.wall import wall_sentences

Case = tuple[str, Change]
"""Place and the change there."""
_UNITS = {"cycles/KiB": "cycles", "ns/KiB": "ns of CPU", "ns/operation": "ns of CPU"}


def sentences(summary: CampaignSummary) -> list[Sentence]:
    """Return the findings of the campaign: cost, its change with every factor, rate, and where the CPU time goes."""
    return [*placement_sentences(summary), *load_of(summary).sentences(summary, layout_of(summary))]


def of_hosts(summary: CampaignSummary, layout: Layout) -> list[Sentence]:
    """Return the findings of a load between hosts."""
    cost = cost_outcome(summary)
    sources: tuple[tuple[About, Iterable[str]], ...] = (
        ("search", search_sentences(summary)),
        ("wall", wall_sentences(summary)),
        ("buffer", buffer_sentences(summary)),
        ("fit", fit_sentences(summary)),
    )
    found = [Sentence(text, about=about) for about, texts in sources for text in texts]
    found += _of_times(summary, layout)
    if summary.decision:
        found.insert(0, Sentence(decision_sentence(summary.decision), about="decision"))
    own = {
        host.name: replace(summary, points=points_of_own_cost(summary, host.name))
        for host in summary.shown_hosts
    }
    first, one = subject(summary), COSTS[cost].one
    for host in sorted(summary.shown_hosts, key=lambda host: first is None or host.name != first.name):
        name = f"{host.name}.{cost}"
        costs = range_sentences(own[host.name], layout, name, costs_at(summary, name, f"a {one}"))
        found += (replace(sentence, about="cost") for sentence in costs)
        found += void_sentences(summary, host.name)
    if first is not None:
        outcome, what = f"{first.name}.{cost}", f"the cost of a {one} on {first.name}"
        for factor in layout.lines:
            changes = _across(own[first.name], layout, factor, outcome, what, summary)
            found += (replace(sentence, about="change") for sentence in changes)
        if layout.along is not None:
            changes = _along(own[first.name], layout, outcome, what, summary)
            found += (replace(sentence, about="change") for sentence in changes)
    rate = rate_outcome(summary)
    word = RATES[rate]
    whole = "Goodput" if word == "goodput" else f"The {word}"
    # Of a closed loop of requests the wall says from which load on the rate no longer rises.
    found += () if summary.walls else peak_sentences(summary, layout, rate, whole)
    found += (
        replace(sentence, about="rate") for sentence in range_sentences(summary, layout, rate, f"{whole} is")
    )
    found += _how_fast(summary, layout) if not any(one.about == "times" for one in found) else ()
    for factor in (factor for factor in layout.lines if not factor.numeric):
        found += _across(summary, layout, factor, rate, whole[:1].lower() + whole[1:])
    if first is not None:
        found += _where_time_goes(summary, own[first.name], layout, f"{first.name}.{cost}")
    # By class it is told of a KiB only.
    for host in summary.shown_hosts if not load_of(summary).asks else ():
        ends = extremes(own[host.name], f"{host.name}.cpu_ns_per_kib")
        cost = "reliable cost" if of_claimed(summary, f"{host.name}.cpu_ns_per_kib") else "cost"
        found += map(Sentence, what_makes_it(layout, *ends, host.name, cost)) if ends else ()
    found += map(Sentence, member_sentences(summary))
    found += map(Sentence, fairness_sentences(summary))
    found += map(Sentence, block_size_sentences(summary, layout))
    found += bystander_sentences(summary)
    if not found:
        found.append(Sentence("No trial finished, so nothing can be said."))
    return found


_TIMES = {
    "mean": "mean {}",
    "p50": "median {}",
    "p99": "99th percentile of the {}",
    "p999": "99.9th percentile of the {}",
}
_KINDS = {"latency_from_schedule": "latency from schedule", "latency": "latency"}


def _of_times(summary: CampaignSummary, layout: Layout) -> Iterator[Sentence]:
    """Describe the times of requests, where one is the first outcome that the experiment names: its range, then its changes."""
    outcome = summary.asked[0] if summary.asked and load_of(summary).asks else ""
    kind, _, statistic = outcome.removesuffix("_ns").rpartition("_")
    if kind not in _KINDS or statistic not in _TIMES:
        return
    what = f"the {_TIMES[statistic].format(_KINDS[kind])} of a request"
    ranges = range_sentences(summary, layout, outcome, f"{what[:1].upper()}{what[1:]} is")
    yield from (replace(sentence, about="times") for sentence in ranges)
    changes = factor_sentences(summary, layout, outcome, what, summary)
    yield from (replace(sentence, about="change") for sentence in changes)


def time_of_requests(summary: CampaignSummary) -> str:
    """What the outcomes begin with that are the time of a request: from the schedule, where requests come at their own times."""
    names = ("latency_from_schedule", "latency") if load_of(summary).asks else ()
    known = (n for n in names if any(point.knows(f"{n}_p50_ns") for point in summary.points))
    return next(known, "")


def _how_fast(summary: CampaignSummary, layout: Layout) -> Iterator[Sentence]:
    """State how long requests take: median and 99th percentile of the one point that there is, or the range of the latter."""
    kind = time_of_requests(summary)
    if not kind:
        return
    half, rare = f"{kind}_p50_ns", f"{kind}_p99_ns"
    points = [point for point in summary.points if point.knows(half) and point.knows(rare)]
    if len(points) == 1 == len(summary.points):
        low, high = (_value(points[0].outcomes[name]) for name in (half, rare))
        since = ", from when it was due" if kind == "latency_from_schedule" else ""
        text = f"A request takes {low} at the median and {high} at the 99th percentile{since}."
        yield Sentence(text, about="latency")
        return
    what = f"The 99th percentile of the {_KINDS[kind]} of a request is"
    yield from (replace(one, about="latency") for one in range_sentences(summary, layout, rare, what))


def factor_sentences(
    summary: CampaignSummary, layout: Layout, outcome: str, what: str, every: CampaignSummary
) -> Iterator[Sentence]:
    """Describe the change of an outcome with every factor."""
    for factor in layout.lines:
        yield from _across(summary, layout, factor, outcome, what, every)
    if layout.along is not None:
        yield from _along(summary, layout, outcome, what, every)


def extremes(summary: CampaignSummary, outcome: str) -> tuple[PointSummary, PointSummary] | None:
    """The points with the smallest and with the largest estimate of an outcome."""
    known = [
        point
        for point in summary.points
        if (estimate := point.outcomes.get(outcome)) and estimate.estimate is not None
    ]
    if not known:
        return None
    known.sort(key=lambda point: point.outcomes[outcome].estimate or 0.0)
    return known[0], known[-1]


def void_sentences(summary: CampaignSummary, host: str) -> Iterator[Sentence]:
    """Yield the costs of which nothing is claimed."""
    claimed = points_not_void(summary, host)
    without = len(summary.points) - len(claimed)
    if without:
        of = f" at {without} of {len(summary.points)} points" if len(summary.points) > 1 else ""
        about: About = "more" if claimed else "cost"
        text = f"CPU cost of {host} is unreliable{of}: steal time > 1 %."
        yield Sentence(text, about=about, caveat=not claimed)


def range_sentences(
    summary: CampaignSummary, layout: Layout, outcome: str, opening: str
) -> Iterator[Sentence]:
    """The whole range of an outcome, with where it ends."""
    found = extremes(summary, outcome)
    if found is None:
        return
    low, high = (point.outcomes[outcome] for point in found)
    places = [place_name(point, layout.factors) for point in found]
    if found[0] is found[1]:
        # The one point that there is has no name; the only one of which it is known or claimed has.
        yield Sentence(f"{opening} {_value(low)}{f' ({places[0]})' if places[0] else ''}.")
        return
    step = change(low, high)
    if step.verdict != "rises" and _is_decided(summary, outcome, found[0].levels, found[1].levels):
        yield Sentence(f"{opening} from {_value(low)} ({places[0]}) to {_value(high)} ({places[1]}).")
        return
    if step.verdict != "rises":
        yield Sentence(
            f"{opening} from {_value(low)} ({places[0]}) to {_value(high)} ({places[1]}); "
            f"{_why_undecided(step, 'the intervals of these two overlap')}"
            f"{'' if step.pooled else ', so that they cannot be told'} apart."
        )
        return
    yield Sentence(
        f"{opening} {_value(low)} at the least ({places[0]}) and {_value(high)} at the most ({places[1]}): "
        f"{factor_of(step)}."
    )


def _across(
    summary: CampaignSummary,
    layout: Layout,
    factor: FactorLevels,
    outcome: str,
    what: str,
    every: CampaignSummary | None = None,
) -> Iterator[Sentence]:
    """Describe the change of an outcome from the first to the last level of a factor, or to each other name. `every`: the
    campaign with the points of which nothing is claimed, too.
    """
    others = [other for other in layout.factors if other is not factor]
    names = [other.name for other in layout.factors]
    points = [
        ({name: point.levels[name] for name in names if name in point.levels}, point.outcomes[outcome])
        for point in summary.points
    ]
    for level in factor.levels[-1:] if factor.numeric else factor.levels[1:]:
        found = effects(points, factor.name, factor.levels[0], level)
        cases = [(_place_of(summary, effect.others, others), effect.change) for effect in found]
        ends = ({factor.name: factor.levels[0]}, {factor.name: level})
        if not cases or (_undecided(cases) and _is_decided(summary, outcome, *ends)):
            continue
        details = tuple(f"{place}: {_in_full(step)}" for place, step in cases)
        opening = _from_to(summary, factor, factor.levels[0], level)
        there = _places(every or summary, others)
        yield Sentence(
            f"{opening}, {what} {_tally(cases, _many(others), there)}.",
            details if len(cases) > 1 else (),
            decided=_any_decided(cases),
        )


def _along(
    summary: CampaignSummary, layout: Layout, outcome: str, what: str, every: CampaignSummary
) -> Iterator[Sentence]:
    """Describe an outcome along the main factor: ends of every line, and where one is lowest in between."""
    along = layout.along
    assert along is not None
    lines: dict[str, list[PointSummary]] = {}
    for point in summary.points:
        if point.outcomes[outcome].estimate is not None:
            lines.setdefault(line_name(layout, point) if layout.lines else "", []).append(point)
    cases: list[Case] = []
    details, dips, elsewhere = [], [], 0
    for points in lines.values():
        points.sort(key=lambda point: along.levels.index(point.levels[along.name]))
    lines = {name: points for name, points in lines.items() if len(points) > 1}
    if not lines:
        return
    ends = _ends_of_most(lines.values(), along)
    for name, points in lines.items():
        first, last = points[0], points[-1]
        if _ends(points, along) != ends:
            # Of a line that begins or ends elsewhere it cannot be said what is said of the others.
            details.append(f"{name}: {_step(first, last, outcome, along)}")
            elsewhere += 1
            continue
        lowest = min(points, key=lambda point: point.outcomes[outcome].estimate or 0.0)
        place = place_name(first, layout.lines)
        cases.append((place, change(first.outcomes[outcome], last.outcomes[outcome])))
        text = _step(first, last, outcome, along)
        climbs = [change(lowest.outcomes[outcome], end.outcomes[outcome]).verdict for end in (first, last)]
        # Between two names there is nothing that an outcome could dip through.
        if along.numeric and climbs == ["rises", "rises"]:
            text = f"{_step(first, lowest, outcome, along)}, then {_step(lowest, last, outcome, along)}"
            dips.append(f"at {place_name(lowest, [along])}" + (f" ({name})" if name else ""))
        details.append(f"{name}: {text}" if name else text)
    decided = _is_decided(summary, outcome, *({along.name: level} for level in ends))
    if not dips and _undecided(cases) and decided:
        return
    dip = f" In between it is lower than at both ends: lowest {_listed(dips)}." if dips else ""
    there = _places(every, layout.lines)
    yield Sentence(
        f"{_from_to(summary, along, *ends)}, {what} {_tally(cases, _many(layout.lines), there)}.{dip}",
        tuple(details) if len(details) > 1 else (),
        title=_heading(len(cases), elsewhere),
        decided=bool(dips) or _any_decided(cases),
    )


def _heading(cases: int, elsewhere: int) -> str:
    """Title of single cases of which some go over another range than the sentence has; empty: none does."""
    if not elsewhere:
        return ""
    first = f"each of the {cases} cases" if cases > 1 else "this case"
    return f"{first}, and {counted(elsewhere, 'case')} over another range"


def _any_decided(cases: Sequence[Case]) -> bool:
    return any(step.verdict != "undecided" for _, step in cases)


def _undecided(cases: Sequence[Case]) -> bool:
    return any(step.verdict == "undecided" for _, step in cases)


def _is_decided(
    summary: CampaignSummary, outcome: str, first: Mapping[str, Level], second: Mapping[str, Level]
) -> bool:
    """Tell whether the rule for stopping has answered how the outcome, or a cost of the same host, differs between these levels.
    Its sequence compares trials within their blocks, and so knows more than two intervals set against each other.
    """
    rule, found = summary.until, summary.decision
    if rule is None or found is None or found.answer == "undecided" or rule.factor is None:
        return False
    wanted, own = (name.rpartition(".") for name in (rule.outcome, outcome))
    alike = wanted == own or (wanted[0] == own[0] and wanted[2] in COSTS and own[2] in COSTS)
    levels = {levels.get(rule.factor) for levels in (first, second)}
    return alike and levels == {rule.numerator, rule.denominator}


def _ends(points: Sequence[PointSummary], along: FactorLevels) -> tuple[Level, Level]:
    """The first and the last level of a line of which something is known."""
    return points[0].levels[along.name], points[-1].levels[along.name]


def _ends_of_most(lines: Iterable[Sequence[PointSummary]], along: FactorLevels) -> tuple[Level, Level]:
    """The ends that most lines have, of several the widest. What was skipped, or of what nothing is claimed, is no end."""
    found = Counter(_ends(points, along) for points in lines)

    def rank(ends: tuple[Level, Level]) -> tuple[int, int]:
        first, last = map(along.levels.index, ends)
        return found[ends], last - first

    return max(found, key=rank)


def _where_time_goes(
    every: CampaignSummary, summary: CampaignSummary, layout: Layout, outcome: str
) -> Iterator[Sentence]:
    found, host = extremes(summary, outcome), outcome.rpartition(".")[0]
    if found is None:
        return
    costliest = found[1]
    shares = [costliest.outcomes[f"{host}.{name}"].estimate for name in SPLIT]
    if any(share is None for share in shares):
        return
    usr, sys, intr, idle = (100 * (share or 0.0) for share in shares)
    stands_out = change(*(point.outcomes[outcome] for point in found)).verdict == "rises"
    place = place_name(costliest, layout.factors)
    cost = "reliable cost" if of_claimed(every, outcome) else "cost"
    opening = f"Where the {cost} is highest ({place}), " if stands_out else f"At {place}, " if place else ""
    unsure = any(d.code == "split_unreliable" and d.text.startswith(host) for d in costliest.warnings)
    if summary.accounting.tier == "bpf":
        yield Sentence(
            f"{opening}{host} is busy {100 - idle:.0f} % of its CPUs: {busy_by_class(costliest, host)}."
        )
        return
    most = max((("user code", usr), ("the kernel", sys), ("interrupts", intr)), key=lambda part: part[1])
    part = part_of(most[1] / (usr + sys + intr)) if usr + sys + intr else "most"
    yield Sentence(
        f"{opening}{host} is busy {100 - idle:.0f} % of its CPUs, {part} of it in {most[0]}: {usr:.0f} % user, "
        f"{sys:.0f} % system, {intr:.0f} % interrupts{' (this split is unreliable)' if unsure else ''}."
    )


def _tally(cases: Sequence[Case], many: str, there: int) -> str:
    """`rises at 9 of 10 numbers of connections, by a factor of 4.5 to 11; it may rise or fall at 32 connections`.

    `there`: how many cases the campaign has; what is said of some of them must not read as if it were said of all.
    """
    parts: list[str] = []
    alone, of_some = len(cases) == 1, len(cases) < there
    only = f" at {cases[0][0]}" if alone and of_some and cases[0][0] else ""
    compared = " that can be compared" if of_some else ""
    for verdict in ("rises", "falls"):
        mine = [step for _, step in cases if step.verdict == verdict]
        if not mine:
            continue
        count = _every(len(cases)) if len(mine) == len(cases) else f"{len(mine)} of {len(cases)}"
        where = only if alone else f" at {count} {many}{'' if parts else compared}"
        spread = _spread(sorted(_larger_over_smaller(step.ratio) for step in mine if step.ratio))
        parts.append(f"{verdict}{where}{spread}")
    undecided = [place for place, step in cases if step.verdict == "undecided"]
    if undecided:
        every = len(undecided) == len(cases)
        where = f" at {_every(len(cases))} {many}{compared}" if every else f" at {_listed(undecided)}"
        why = dict.fromkeys(
            _why_undecided(step, "the intervals overlap") for _, step in cases if step.verdict == "undecided"
        )
        parts.append(f"may rise or fall{only if alone else where}: {' or '.join(why)}")
    return "; it ".join(parts)


def _places(summary: CampaignSummary, factors: Sequence[FactorLevels]) -> int:
    """Combinations of the factors' levels that the campaign has and could have: without those that were skipped."""
    names = [factor.name for factor in factors]
    return len(
        {tuple(point.levels.get(name) for name in names) for point in summary.points if not point.skipped}
    )


def _why_undecided(step: Change, overlap: str) -> str:
    """Why it is not said whether the second is more than the first: `overlap`, or that an interval is not there."""
    if step.pooled:
        return "trials spread by too much to tell"
    ends = (step.first, step.second)
    lacking = sum(end.low is None or end.high is None for end in ends)
    return {0: overlap, 1: "one of the two has no interval", 2: "neither has an interval"}[lacking]


def _every(count: int) -> str:
    return "both" if count == 2 else f"all {count}"


def _from_to(summary: CampaignSummary, factor: FactorLevels, before: Level, level: Level) -> str:
    labels = summary.factor_labels[factor.name]
    first, last = (labels[factor.levels.index(each)] for each in (before, level))
    name = "message size" if factor.name == "size" else factor.name.replace("_", " ")
    change = (
        f"From {name} {first} to {last}" if factor.numeric else f"With {name} {last} in the place of {first}"
    )
    if factor.name == "connections":
        change = f"From {first} to {last} connections"
    ends = [
        next((p.labels for p in summary.points if p.levels.get(factor.name) == each), {})
        for each in (before, level)
    ]
    besides = [
        f"{each.replace('_', ' ')} from {a} to {b}"
        for each in factor.together
        if factor.name != VARIANT and (a := ends[0].get(each)) != (b := ends[1].get(each))
    ]
    return f"{change}, and {_listed(besides)} with it" if besides else change


def _many(others: Sequence[FactorLevels]) -> str:
    """Name the cases that are counted when the others vary."""
    names = {"connections": "numbers of connections", "size": "message sizes"}
    if len(others) == 1:
        return names.get(others[0].name, f"levels of {others[0].name.replace('_', ' ')}")
    return "combinations of the other factors"


def _place_of(summary: CampaignSummary, levels: Mapping[str, Level], factors: Sequence[FactorLevels]) -> str:
    for point in summary.points:
        if all(point.levels.get(name) == level for name, level in levels.items()):
            return place_name(point, factors)
    return ""


def _listed(places: Sequence[str]) -> str:
    if len(places) > 4:
        return f"{len(places)} of them"
    return ", ".join(places[:-1]) + (" and " if len(places) > 1 else "") + places[-1]


def _spread(ratios: Sequence[float]) -> str:
    if not ratios:
        return ""
    low, high = _times(ratios[0]), _times(ratios[-1])
    return f", by a factor of {low}" if low == high else f", by a factor of {low} to {high}"


def factor_of(step: Change) -> str:
    """State the ratio of the larger to the smaller, with what is known of it: both bounds, or the least."""
    if not step.ratio:
        return "no ratio"
    ratio, low, high = step.ratio, step.low, step.high
    if step.verdict == "falls":
        ratio, low, high = 1 / ratio, 1 / high if high else None, 1 / low if low else None
    bounds = f" [{_times(low)}, {_times(high)}]" if low and high else ""
    less, more = (step.second, step.first) if step.verdict == "falls" else (step.first, step.second)
    if not bounds and step.verdict != "undecided" and less.high and more.low:
        # The smaller of the two may be nothing: then there is no most.
        bounds = f", {_times(more.low / less.high)} at the least"
    return f"a factor of {_times(ratio)}{bounds}"


def _larger_over_smaller(ratio: float) -> float:
    """A fall to a sixth is told as a factor of 6, as people say it."""
    return max(ratio, 1 / ratio)


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else digits(ratio)


def _in_full(step: Change) -> str:
    verb = "may rise or fall" if step.verdict == "undecided" else step.verdict
    return f"{verb}, from {_value(step.first)} to {_value(step.second)}, {factor_of(step)}"


def _step(first: PointSummary, last: PointSummary, outcome: str, along: FactorLevels) -> str:
    a, b = first.outcomes[outcome], last.outcomes[outcome]
    step = change(a, b)
    places = [place_name(point, [along]) for point in (first, last)]
    if step.verdict == "undecided":
        return f"does not clearly differ between {places[0]} ({_value(a)}) and {places[1]} ({_value(b)})"
    return f"{step.verdict} from {_value(a)} at {places[0]} to {_value(b)} at {places[1]}"


def _value(found: Estimate) -> str:
    shown = between(found)
    for unit, words in _UNITS.items():
        shown = shown.replace(unit, words)
    return shown if found.estimate is not None else quantity(None, found.unit)
