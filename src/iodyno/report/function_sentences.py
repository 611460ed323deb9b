"""Sentences on why one point costs more than another: which functions, and which mechanisms go with it.

Only what lies beyond noise is said: functions that stay changed when the interval is widened for all that were compared,
and mechanisms whose ratio leaves out 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from iodyno.analysis.compare import change as change_of
from iodyno.analysis.compare import leaves_out_one
from iodyno.analysis.function_change import FunctionChange, ProfileChange
from iodyno.analysis.functions import Part, PointProfile
from iodyno.analysis.mechanisms import MechanismChange
from iodyno.analysis.path_steps import StepChange, step_changes
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.report.function_tables import NO_END, TIME_WORDS
from iodyno.report.layout import place_of
from iodyno.report.numbers import between, digits, quantity
from iodyno.report.sentences import Sentence

NAMED_MOST = 3
"""Functions that a sentence names (chosen: more are read in the table)."""
MECHANISMS_MOST = 4
"""Mechanisms that a sentence names (chosen: as NAMED_MOST; one of them is the factor itself)."""
EXPLAINS_LEAST = 0.05
"""Part of the difference under which a function is not named (chosen: a twentieth explains little)."""
STEPS_MOST = 3
"""Steps of the path that a sentence takes apart (chosen: as NAMED_MOST)."""
MECHANISM_LEAST = 1.2
"""Ratio under which a mechanism is not named (chosen: a fifth is hardly why costs differ by a factor)."""
SAME_COST = 0.1
"""Costs that lie closer than this are alike: of two functions of one call chain one is enough, and a step whose cost is known to
have moved by less takes as long as before (chosen: a tenth, within the intervals of most)."""
STEADY_MOST = 2.0
"""Factor from 1 within which the interval of an unchanged function lies that is named (chosen: of one that may have doubled
little is known)."""
TIMER = "cpu-clock"
"""The event of samples that a timer makes, where no hardware counter does."""
OPENS_INTERRUPTS = frozenset({"handle_softirqs", "__do_softirq", "finish_task_switch"})
"""Functions of Linux that let interrupts in again and do work of their own (kernel/softirq.c, kernel/sched/core.c); time of
those that do none is their callers' (`stacks.LATE`)."""


def why(
    change: ProfileChange,
    mechanisms: Sequence[MechanismChange],
    factors: Sequence[str],
    together: Sequence[str] = (),
    costs: tuple[Estimate | None, Estimate | None] = (None, None),
) -> list[Sentence]:
    """Why the second point costs more or less than the first, on one host.

    `factors`: those that vary; `together`: what is set along with one of them. `costs`: what the tables have in the place of
    these costs (`cost_of`), which is said where it does not change as they do.
    """
    first, second = change.first, change.second
    host = second.host
    place = between_places(first.labels, second.labels, factors, together)
    time, work = TIME_WORDS[second.reach], "a KiB" if second.per == "KiB" else "an operation"
    taken = f"the {time} that {work} takes{_scope(first, second)}"
    a, b = first.cost.estimate or 0.0, second.cost.estimate or 0.0
    other = _said_otherwise(change, costs, work)
    # Two verdicts on one cost would contradict each other.
    verb = "goes" if other else "grows" if b > a else "falls"
    if not change.moved:
        text = f"On {host}, {place}, {taken} cannot be told apart: {_cost(first)} and {_cost(second)}"
        certain = [one for one in change.ranked() if one.certain][:NAMED_MOST]
        if certain:
            text += f"; of the functions, {_listed([f'{_part(one)} {one.verdict}' for one in certain])}"
        return [Sentence(f"{text}.{other}"), *_behind(mechanisms, host), *_not_whole(change)]
    # One unit says it for both where both have it.
    before = digits(a) if second.per == "KiB" else _cost(first)
    said = [
        f"On {host}, {place}, {taken} {verb} from {before} to {_cost(second)}, "
        f"{_times_of(change.total_ratio)}.{other}"
    ]
    named = [one for one in change.ranked() if _explains(one)]
    details = tuple(_in_full(one) for one in named)
    # Steps are counted for the bytes that are carried.
    steps = step_changes(change, mechanisms)[:STEPS_MOST] if second.per == "KiB" else []
    if named:
        shown = named[:NAMED_MOST]
        # Parts of one sum: their common part is theirs added up.
        explained = sum(one.explains.estimate or 0.0 for one in shown)
        said.append(
            f"{_listed([_part(one) for one in shown])} explain{'s' if len(shown) == 1 else ''} "
            f"{_percent(explained)} of that"
            + (
                f" ({_listed([_percent(one.explains.estimate or 0.0) for one in shown])})"
                if len(shown) > 1
                else ""
            )
            + "."
        )
    else:
        said.append("No single function explains it beyond noise.")
    callers = _callers(change, named)
    if callers:
        said.append(f"With all that they call, {_listed(callers)}.")
    if late := _late(change, named[:NAMED_MOST]):
        said.append(late)
    steady = _steady(change)
    if steady:
        said.append(f"Unchanged per {second.per}: {_listed(steady)}.")
    title = f"each function that explains {_percent(EXPLAINS_LEAST)} or more"
    return [
        Sentence(" ".join(said), details, title=title),
        *_step_by_step(steps),
        *_behind(mechanisms, host, {step.kind.mechanism for step in steps}),
        *_not_whole(change),
    ]


def takes_most(profile: PointProfile, title: str, by: Part) -> list[str]:
    """State what a KiB or an operation costs at a point, and which function and which layer take most of it."""
    work = "a KiB" if profile.per == "KiB" else "an operation"
    trials = counted(len(profile.rows), "trial")
    said = [f"{title}: {_cost(profile)} of {TIME_WORDS[profile.reach]} {work}, over {trials}."]
    ranked = profile.functions(by, 1)
    if not ranked:
        return said
    found = ranked[0].exclusive_ratio if by == "exclusive" else ranked[0].inclusive_ratio
    part = "by itself" if by == "exclusive" else "with all that it calls"
    text = f"Of the functions {ranked[0].function.title} takes most {part}: {between(found, 'share_ratio')}"
    layers = [each for each in profile.layers() if each.ratio.estimate is not None]
    if layers:
        largest = max(layers, key=lambda each: each.ratio.estimate or 0.0)
        text += f"; of the layers {largest.layer}: {between(largest.ratio, 'share_ratio')}"
    return [*said, f"{text}."]


def cost_of(profile: PointProfile, outcomes: Mapping[str, Estimate]) -> Estimate | None:
    """The cost that the tables have of what a profile takes apart; None where it is not known."""
    name = "cpu_us_per_io" if profile.per == "operation" else "cpu_ns_per_kib"
    found = outcomes.get(f"{profile.host}.{name}")
    return found if found is not None and found.estimate is not None else None


def _scope(first: PointProfile, second: PointProfile) -> str:
    """Name the parts of the time of both profiles that are not in the cost of the tables, and the other way round."""
    if (first.reach, second.reach) != ("all", "all"):
        # The words for such a time say it.
        return ""
    if first.with_programs and second.with_programs:
        return ", background included,"
    if first.with_programs or second.with_programs:
        without = first if second.with_programs else second
        return f", background included, other programs left out at {place_of(without.labels, list(without.labels))},"
    return ", background included and other programs left out,"


def _said_otherwise(change: ProfileChange, costs: tuple[Estimate | None, Estimate | None], work: str) -> str:
    """State the change of the cost of the tables, where it is not that of the sampled time; empty: they agree."""
    first, second = costs
    if first is None or second is None or change.first.reach != "all":
        return ""
    verdict = change_of(first, second).verdict
    rises = (change.total.estimate or 0.0) > 0
    if verdict == ("undecided" if not change.moved else "rises" if rises else "falls"):
        return ""
    said = f" The cost of {work} that the tables have goes from {between(first)} to {between(second)}"
    if not change.moved:
        return f"{said}: it {verdict}, and rests on no samples."
    if ((second.estimate or 0.0) > (first.estimate or 0.0)) is rises:
        return f"{said}: the same way, but by its intervals, which overlap, it may rise or fall."
    return (
        f"{said}, the other way: the background of the idle machine is subtracted from it, which samples cannot tell from the"
        " load."
    )


def _not_whole(change: ProfileChange) -> list[Sentence]:
    """Name the parts that the two profiles lack, and why."""
    lacks = dict.fromkeys(text for profile in (change.first, change.second) for text in profile.lacks)
    return [Sentence(f"Not all was sampled on {change.first.host}: {text}.") for text in lacks]


def _step_by_step(steps: Sequence[StepChange]) -> list[Sentence]:
    """State how much of it is that the path takes more steps, and how much that a step takes longer."""
    if not steps:
        return []
    host = steps[0].host
    return [Sentence(f"Step by step, a KiB has on {host} {'; '.join(_step(step) for step in steps)}.")]


def _step(step: StepChange) -> str:
    kind, (before, after) = step.kind, (quantity(each.estimate, "ns") for each in step.each)
    function = f"{step.change.function.title} and all that it calls"
    if leaves_out_one(step.count_ratio):
        many = f"{_times_of(step.count_ratio).removeprefix('× ').replace(']', '] times')} as many {kind.many}"
    elif _like(step.count_ratio):
        many = f"as many {kind.many} as before"
    else:
        many = f"a number of {kind.many} that cannot be told from that before ({_times_of(step.count_ratio)})"
    if leaves_out_one(step.each_ratio):
        return f"{many}, each of which takes {after} in {function} instead of {before} ({_times_of(step.each_ratio)})"
    if _like(step.each_ratio):
        return f"{many}, each of which takes as long as before in {function} ({before} and {after})"
    return (
        f"{many}, of which it cannot be told whether one takes longer or shorter in {function} ({before} and {after}, "
        f"{_times_of(step.each_ratio)})"
    )


def _like(ratio: Estimate) -> bool:
    """Tell whether a ratio is known to be that of two like values, which not being able to tell them apart does not say."""
    least = 1 - SAME_COST
    return ratio.low is not None and ratio.high is not None and least <= ratio.low <= ratio.high <= 1 / least


def _behind(
    changes: Sequence[MechanismChange], host: str, mentioned: Collection[str] = frozenset()
) -> list[Sentence]:
    """The mechanisms that go with it, if any change; those that were told are not told again."""
    found = _mechanisms([one for one in changes if one.host != host or one.kind.name not in mentioned], host)
    if not found:
        return []
    text = f"With it, {_listed(found[:MECHANISMS_MOST])}."
    rest = tuple(found[MECHANISMS_MOST:])
    return [
        Sentence(text, rest, title=f"{len(rest)} more that change{'s' if len(rest) == 1 else ''} with it")
    ]


def between_places(
    first: Mapping[str, str],
    second: Mapping[str, str],
    factors: Sequence[str],
    together: Sequence[str] = (),
) -> str:
    """Two points in a sentence: `from 64KiB messages to 1KiB messages at 32 connections`.

    What is set `together` with a factor is named where it differs, as it is a cause of its own. What only one of them has, as
    points of two campaigns may, has no level to come from or to go to.
    """
    moved = [
        name
        for name in dict.fromkeys((*factors, *together))
        if name in first and name in second and first[name] != second[name]
    ]
    held = [name for name in factors if first.get(name) == second.get(name) and name in first]
    at = f" at {place_of(first, held)}" if held else ""
    if not moved:
        return f"between the two{at}"
    return f"from {place_of(first, moved)} to {place_of(second, moved)}{at}"


def _explains(one: FunctionChange) -> bool:
    part = one.explains
    return one.certain and (part.estimate or 0.0) >= EXPLAINS_LEAST and (part.low or 0.0) > 0


def _part(one: FunctionChange) -> str:
    before, after = (digits(e.estimate or 0.0) for e in one.exclusive)
    return f"{one.function.title} ({before} to {after} ns, {_times_of(one.ratio)})"


def _in_full(one: FunctionChange) -> str:
    part = one.explains
    bounds = f" [{_percent(part.low or 0.0)}, {_percent(part.high or 0.0)}]" if part.high is not None else ""
    return f"{_part(one)}: {_percent(part.estimate or 0.0)}{bounds} of the difference"


def _callers(change: ProfileChange, named: Sequence[FunctionChange]) -> list[str]:
    """The functions that grow most with all that they call, by ratio, among those that matter; as the source has it."""
    whole = abs(change.total.estimate or 0.0)
    rising = (change.total.estimate or 0.0) > 0
    known = {one.function for one in named[:NAMED_MOST]}
    found = [
        one
        for one in change.functions
        if one.inclusive_certain
        and one.function.space == "kernel"
        and one.function not in known
        and one.inclusive_verdict == ("rises" if rising else "falls")
        and one.inclusive_ratio.estimate
        and abs((one.inclusive[1].estimate or 0.0) - (one.inclusive[0].estimate or 0.0)) >= 0.1 * whole
    ]
    found.sort(key=lambda one: -abs(math.log(one.inclusive_ratio.estimate or 1.0)))
    # Neighbours in one call chain say the same thing: one of those with like figures is enough.
    shown: list[FunctionChange] = []
    for one in found:
        if not any(_same_cost(one, other) for other in shown):
            shown.append(one)
    return [
        f"{one.function.title} goes from {digits(one.inclusive[0].estimate or 0.0)} to "
        f"{digits(one.inclusive[1].estimate or 0.0)} ns ({_times_of(one.inclusive_ratio)})"
        for one in shown[:NAMED_MOST]
    ]


def _same_cost(one: FunctionChange, other: FunctionChange) -> bool:
    return all(
        abs((a.estimate or 0.0) - (b.estimate or 0.0))
        <= SAME_COST * max(a.estimate or 0.0, b.estimate or 0.0)
        for a, b in zip(one.inclusive, other.inclusive, strict=True)
    )


def _late(change: ProfileChange, named: Sequence[FunctionChange]) -> str:
    """Which of the functions named stand for others, because a timer made the samples; empty: none."""
    if not any(TIMER in point.sampling.event for point in (change.first, change.second)):
        return ""
    # The compiler names a part that it split off `finish_task_switch.isra.0`.
    titles = [one.function.title for one in named if one.function.title.partition(".")[0] in OPENS_INTERRUPTS]
    if not titles:
        return ""
    return (
        f"What stands at {_listed(titles)} is also the time of code before {'it' if len(titles) == 1 else 'them'} "
        "that ran with interrupts off: the timer that makes the samples comes when they are on again."
    )


def _steady(change: ProfileChange) -> list[str]:
    """The costliest functions that do not change, each with how far it may have."""
    steady = [
        one
        for one in change.functions
        if one.verdict == "unchanged"
        and one.ratio.low is not None
        and one.ratio.high is not None
        and 1 / STEADY_MOST <= one.ratio.low <= one.ratio.high <= STEADY_MOST
        and (one.exclusive[1].estimate or 0.0) >= 0.05 * (change.second.cost.estimate or 0)
    ]
    steady.sort(key=lambda one: -(one.exclusive[1].estimate or 0.0))
    return [
        f"{one.function.title} ({digits(one.exclusive[0].estimate or 0.0)} and "
        f"{digits(one.exclusive[1].estimate or 0.0)} ns, {_times_of(one.ratio)})"
        for one in steady[:NAMED_MOST]
    ]  # fmt: skip


def _mechanisms(changes: Sequence[MechanismChange], host: str) -> list[str]:
    """Those that change: of the host itself first, in each group those that change most."""
    found = [
        one
        for one in changes
        if leaves_out_one(one.ratio)
        and one.ratio.estimate
        and max(one.ratio.estimate, 1 / one.ratio.estimate) >= MECHANISM_LEAST
    ]
    found.sort(key=lambda one: (one.host != host, -abs(math.log(one.ratio.estimate or 1.0))))
    return [
        f"{one.kind.title}{'' if one.kind.role else f' on {one.host}'} "
        f"go{'es' if _is_one(one.kind.title) else ''} from {_amount(one.first, one)} to {_amount(one.second, one)} "
        f"({_times_of(one.ratio)})"
        for one in found
    ]


def _is_one(title: str) -> bool:
    return title.startswith("waiting")


def _amount(found: Estimate, one: MechanismChange) -> str:
    if one.kind.unit in ("1", "1/MiB"):
        return digits(found.estimate or 0.0)
    return quantity(found.estimate, one.kind.unit)


def _times_of(ratio: Estimate) -> str:
    """A factor with its interval; a fall to a sixth is told as a sixth of it: × 0.17."""
    if ratio.estimate is None:
        return "not seen before" if ratio.low else "no ratio"
    if ratio.low is None:
        return f"× {_digits(ratio.estimate)}"
    high = NO_END if ratio.high is None else _digits(ratio.high)
    return f"× {_digits(ratio.estimate)} [{_digits(ratio.low)}, {high}]"


def _digits(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else digits(ratio)


def _cost(profile: PointProfile) -> str:
    """The time that a KiB takes, in ns as all tables have it, or an operation, in what its size asks for."""
    found = profile.cost.estimate or 0.0
    return f"{digits(found)} ns" if profile.per == "KiB" else quantity(found, "ns")


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _listed(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return ", ".join(parts[:-1]) + " and " + parts[-1]
