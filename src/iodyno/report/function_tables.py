"""Tables of cost by function: at one point, from one point to another, and the mechanisms beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.analysis.compare import OutcomeChange, leaves_out_one
from iodyno.analysis.function_change import FunctionChange, ProfileChange, Verdict
from iodyno.analysis.functions import FunctionCost, Part, Per, PointProfile
from iodyno.analysis.mechanisms import Mechanism, MechanismChange
from iodyno.analysis.results import PointSummary
from iodyno.analysis.stacks import UNKNOWN, Function, Reach
from iodyno.core.experiment import Experiment
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.report.numbers import Scale, digits, scale_of, with_interval
from iodyno.report.tables import Cell, Column, Table, outcome_name
from iodyno.report.void import MARK, WHY, is_void

TIME_WORDS: Mapping[Reach, str] = {
    "all": "CPU time",
    "own": "CPU time of the load",
    "user": "user time",
}
"""Time that the costs of a profile are of, by what was sampled."""
WHOLE_WORDS: Mapping[Reach, str] = {
    "all": "all busy time",
    "own": "all time of the load",
    "user": "all user time",
}
"""Time that is the whole width of a flame graph, by what was sampled."""
OWNER_WORDS = {"app": "load", "other": "other tasks", "idle": "interrupts on an idle CPU"}
WORK_WORDS: Mapping[Per, str] = {"KiB": "KiB delivered", "operation": "operation"}
"""Work that costs are of, in words."""
NO_END = "no end"
"""Stands for the upper bound of a ratio where what it is over may be nothing."""
TOP_BRIEF = 6
"""Functions in a table beside an answer (chosen: the answer stays on a screen of 24 lines)."""
_NAME_MOST = 36
"""Characters of a function's name in such a table (chosen: with its numbers it fits 100 columns)."""
_SHARE = "share_ratio"


def function_table(profile: PointProfile, top: int | None = None, by: Part = "exclusive") -> Table:
    """Tabulate the cost of a KiB or an operation by function, the costliest first."""
    whole = profile.reach == "all"
    columns = (
        Column("function"),
        Column("where", hint="kernel, or the kernel module or program that holds it"),
        Column("%", "itself", "share of the samples of busy CPUs" if whole else "share of what was sampled"),
        Column(
            profile.unit,
            "itself",
            f"share x {'exact busy time' if whole else 'the time sampled'} per {WORK_WORDS[profile.per]}",
        ),
        Column("%", "with all that it calls"),
        Column(profile.unit, "with all that it calls"),
        Column("on whose time", hint="whose task was on the CPU, by inclusive samples"),
    )
    return Table(
        "Cost by function",
        columns,
        tuple(_function_row(each) for each in profile.functions(by, top)),
    )


def brief_function_table(profile: PointProfile, top: int | None, by: Part) -> Table:
    """The same beside an answer: TOP_BRIEF functions where `top` is None, each with what it costs."""
    whole = function_table(profile, top or TOP_BRIEF, by)
    return _only(whole, (0, 2, 3, 4))


def _only(table: Table, columns: Sequence[int]) -> Table:
    """These columns of a table, long names of functions cut."""
    rows = []
    for row in table.rows:
        name = row[0].text
        cut = name if len(name) <= _NAME_MOST else f"{name[: _NAME_MOST - 1]}…"
        rows.append((Cell(cut), *(row[at] for at in columns[1:])))
    return Table(table.title, tuple(table.columns[at] for at in columns), tuple(rows))


def class_table(profile: PointProfile) -> Table:
    """Whose task was on the CPU, and whether it ran user code or the kernel."""
    rows = tuple(
        (
            Cell(f"{OWNER_WORDS[each.owner]}, {'user code' if each.mode == 'user' else 'kernel'}"),
            _cell(each.ratio, _SHARE),
            _cell(each.ns_per_kib),
        )
        for each in profile.classes()
    )
    title = "Whose time" if profile.reach == "all" else "Whose time, of what was sampled"
    return Table(title, (Column("task, mode"), Column("%"), Column(profile.unit)), rows)


def layer_table(profile: PointProfile) -> Table:
    """Tabulate the time of the layers of the path, each by itself."""
    rows = tuple(
        (Cell(each.layer), _cell(each.ratio, _SHARE), _cell(each.ns_per_kib)) for each in profile.layers()
    )
    hint = "a stack is that of its innermost function with a layer: a copy within a send is copy"
    return Table("By layer", (Column("layer", hint=hint), Column("%"), Column(profile.unit)), rows)


def change_table(change: ProfileChange, top: int | None = None, by: Part = "exclusive") -> Table:
    """The source's table: which functions explain the difference, with their ratios normalised to bandwidth."""
    per, unit = change.second.per, change.second.unit
    rate = "bandwidth" if per == "KiB" else "rate"
    hint = f"CPU per {per} at B over that at A: the ratio of CPU shares, normalised to {rate}"
    columns = (
        Column("function"),
        Column("explains", hint="part of the whole difference, by the function's own code"),
        Column("verdict", hint="of the ratio by itself; ?: may be chance among so many functions"),
        Column(f"A {unit}", "itself"),
        Column(f"B {unit}", "itself"),
        Column("ratio B/A", "itself", hint),
        Column(f"A {unit}", "with all that it calls"),
        Column(f"B {unit}", "with all that it calls"),
        Column("ratio B/A", "with all that it calls", hint),
        Column("verdict", "with all that it calls"),
    )
    return Table(
        "Difference by function",
        columns,
        tuple(_change_row(each) for each in change.ranked(by, top)),
    )


def brief_change_table(change: ProfileChange, top: int | None, by: Part) -> Table:
    """The same beside an answer: TOP_BRIEF functions where `top` is None, by what they are ranked by."""
    whole = change_table(change, top or TOP_BRIEF, by)
    return _only(whole, (0, 1, 2, 3, 4, 5) if by == "exclusive" else (0, 1, 6, 7, 8, 9))


def mechanism_table(found: Sequence[Mechanism]) -> Table:
    """The mechanisms of one point that were measured, hosts beside each other."""
    hosts = list(dict.fromkeys(each.host for each in found))
    kinds = {each.kind.name: each.kind for each in found if each.value.estimate is not None}
    values = {(each.kind.name, each.host): each.value for each in found}
    rows = tuple(
        (
            Cell(kind.title, kind.help),
            *(
                _cell(values[name, host], name, unit=True) if (name, host) in values else Cell("")
                for host in hosts
            ),
        )
        for name, kind in kinds.items()
    )
    return Table("Mechanisms", (Column("mechanism"), *(Column(host) for host in hosts)), rows)


def mechanism_change_table(changes: Sequence[MechanismChange]) -> Table:
    """The mechanisms of two points that were measured at both, with their ratio."""
    rows = []
    for each in changes:
        if each.first.estimate is None or each.second.estimate is None:
            continue
        largest = max(abs(each.first.estimate), abs(each.second.estimate))
        scale = scale_of(largest, each.kind.unit, each.kind.name)
        rows.append(
            (
                Cell(each.kind.title, each.kind.help),
                Cell(each.host),
                _cell(each.first, each.kind.name, scale, unit=True),
                _cell(each.second, each.kind.name, scale, unit=True),
                _ratio_cell(each.ratio),
                Cell(direction(each.ratio)),
            )
        )
    columns = [Column(title) for title in ("mechanism", "host", "A", "B", "ratio B/A", "verdict")]
    return Table("Mechanisms", tuple(columns), tuple(rows))


def not_measured(found: Sequence[Mechanism | MechanismChange]) -> list[str]:
    """Mechanisms that are missing, by reason: `system calls per MiB, packets per poll: sensor ... was not read`."""
    titles: dict[str, list[str]] = {}
    for each in found:
        values = [each.value] if isinstance(each, Mechanism) else [each.first, each.second]
        reason = next((value.missing for value in values if value.estimate is None), None)
        if reason:
            titles.setdefault(reason.replace(f" on {each.host}", ""), []).append(each.kind.title)
    return [f"{', '.join(dict.fromkeys(names))}: {reason}" for reason, names in titles.items()]


def outcome_change_table(
    title: str, changes: Sequence[OutcomeChange], points: Sequence[PointSummary] = ()
) -> Table:
    """Outcomes at two points, or of one point in two campaigns: `points`, whose costs may be such that nothing is claimed."""
    rows = []
    for each in changes:
        void = [is_void(point, each.outcome) for point in points] or [False, False]
        host, _, outcome = each.outcome.rpartition(".")
        largest = max(abs(e.estimate or 0.0) for e in (each.first, each.second))
        scale = scale_of(largest, each.first.unit, each.outcome)
        name = f"{host + ': ' if host else ''}{outcome_name(outcome)}"
        unit = f", {scale.unit}" if scale.unit else ""
        rows.append(
            (
                Cell(name + unit, each.outcome),
                _marked(_cell(each.first, each.outcome, scale), void[0]),
                _marked(_cell(each.second, each.outcome, scale), void[1]),
                _ratio_cell(each.ratio),
                Cell("–", WHY) if any(void) else Cell(direction(each.ratio)),
            )
        )
    columns = [Column(text) for text in ("outcome", "A", "B", "ratio B/A", "verdict")]
    return Table(title, tuple(columns), tuple(rows))


def _marked(cell: Cell, void: bool) -> Cell:
    return Cell(f"{cell.text}{MARK}", WHY) if void else cell


def direction(ratio: Estimate) -> str:
    """`rises` or `falls` where the interval leaves out 1; else `undecided`: that nothing changed is not known, either."""
    if ratio.low is None or ratio.high is None or ratio.estimate is None:
        return "–"
    if not leaves_out_one(ratio):
        return "undecided"
    return "rises" if ratio.estimate > 1 else "falls"


def comparison_note(change: ProfileChange) -> str:
    """Explain the ratios of the table, and how much of them may be chance."""
    open_ended = any(one.ratio.estimate is not None and one.ratio.high is None for one in change.functions)
    end = f"; a ratio has {NO_END} where the cost at A may be nothing" if open_ended else ""
    few = (
        f" Left out: {counted(change.too_few, 'function')} with fewer than 10 samples."
        if change.too_few
        else ""
    )
    return (
        f"Ratios are CPU per {change.second.per} at B over that at A, which is the ratio of CPU shares normalised to "
        f"{'bandwidth' if change.second.per == 'KiB' else 'rate'}. "
        f"Brackets and ± are 95 % intervals{end}. Unchanged: the interval of the ratio spans 1, as that of the difference spans "
        f"0, so that no change can be told. {change.compared} functions were "
        f"compared, so that one in twenty of the unchanged would seem to change; those marked ? do not stand when "
        f"the intervals are widened for that (Bonferroni).{few}"
    )


def basis_note(profile: PointProfile) -> str:
    """State how the samples were taken, and the basis of the costs."""
    taken = profile.sampling
    reader = (
        f"; reading them took {100 * taken.reader_ratio:.2g} % of a CPU"
        if taken.reader_ratio is not None
        else ""
    )
    lost = f", {taken.lost} lost" if taken.lost else ""
    fewer = (
        f", rather than {Experiment.profile_hz}, because the timer's interrupts are costly here"
        if taken.event == "cpu-clock" and taken.hz < Experiment.profile_hz
        else ""
    )
    by_class = "of each class (tasks, hard and soft interrupts) " if profile.by_class else ""
    return (
        f"{taken.samples} samples of {'user code' if profile.reach == 'user' else 'busy CPUs'}{lost}, asked for at {taken.hz} "
        f"Hz ({taken.event}{fewer}){reader}. Cost = share of the samples {by_class}x {_stands_for(profile)}. "
        f"Intervals: {profile.method}.{_folded(profile)}"
    )


def _folded(profile: PointProfile) -> str:
    if not profile.folded:
        return ""
    one = len(profile.folded) == 1
    verbs = ("calls", "is") if one else ("call", "are")
    return (
        f" Of the load's own threads, {counted(len(profile.folded), 'function')} that only {verbs[0]} others {verbs[1]} left out"
        " where functions are ranked with all that they call."
    )


def _stands_for(profile: PointProfile) -> str:
    """The time that the samples of a profile are shares of, and what is not in it."""
    if profile.reach == "user":
        return f"user time, which is {profile.basis}; what the kernel took is not in it"
    if profile.with_programs:
        others = "other programs are in it, as some of them serve the load, and so is the background"
    else:
        share = f"{100 * profile.foreign_ratio:.2g} % of the time"
        others = f"other programs ({share}) are left out, other background is in it"
    of = "its exact part of " if profile.by_class else ""
    return f"{of}busy time, which is {profile.basis}; {others if profile.reach == 'all' else 'other tasks were not sampled'}"


def scope_note(profile: PointProfile) -> str:
    """Return the addition to the title of a profile that has user code only; empty: none."""
    return ", user code of the load only" if profile.reach == "user" else ""


def place_of_function(function: Function) -> str:
    """Name the place of a function: the kernel, one of its modules, or a program."""
    if function.module == "kernel":
        return "kernel"
    return f"{function.module} (module)" if function.space == "kernel" else function.module


def _function_row(each: FunctionCost) -> tuple[Cell, ...]:
    owners = sorted(each.owners.items(), key=lambda pair: -pair[1])
    whose = ", ".join(
        OWNER_WORDS[owner] + (f" {100 * share:.0f} %" if len(owners) > 1 else "") for owner, share in owners
    )
    return (
        _function_cell(each.function),
        Cell(place_of_function(each.function)),
        _cell(each.exclusive_ratio, _SHARE),
        _cell(each.exclusive_ns_per_kib),
        _cell(each.inclusive_ratio, _SHARE),
        _cell(each.inclusive_ns_per_kib),
        Cell(whose),
    )


def _change_row(each: FunctionChange) -> tuple[Cell, ...]:
    return (
        _function_cell(each.function),
        _cell(each.explains, _SHARE, unit=True),
        Cell(_verdict(each.verdict, each.certain)),
        _cell(each.exclusive[0]),
        _cell(each.exclusive[1]),
        _ratio_cell(each.ratio),
        _cell(each.inclusive[0]),
        _cell(each.inclusive[1]),
        _ratio_cell(each.inclusive_ratio),
        Cell(_verdict(each.inclusive_verdict, each.inclusive_certain)),
    )  # fmt: skip


def _function_cell(function: Function) -> Cell:
    """Names of generic code are long: a page cuts them, and tells the rest to a pointer."""
    name = f"{UNKNOWN} in {function.module}" if function.name == UNKNOWN else function.name
    return Cell(name, name if len(name) > 24 else "")


def _verdict(verdict: Verdict, certain: bool) -> str:
    return verdict if certain or verdict == "unchanged" else f"{verdict}?"


def _cell(found: Estimate, name: str = "", scale: Scale | None = None, *, unit: bool = False) -> Cell:
    if found.estimate is None:
        return Cell("–", found.missing or "")
    if found.estimate == 0:
        return Cell("0")
    # Costs keep their unit in the heading, so that a column can be read down.
    scale = scale or (Scale(1.0, found.unit) if found.unit in ("ns/KiB", "ns/operation") else None)
    # How the intervals are made is said once, below the table: a page has thousands of these cells.
    return Cell(with_interval(found, name, scale, unit=unit))


def _ratio_cell(found: Estimate) -> Cell:
    if found.estimate is None:
        least = f"> {digits(found.low)}" if found.low else "–"
        return Cell(least if found.missing == "not seen at the first point" else "–", found.missing or "")
    if found.low is None:
        return Cell(_times(found.estimate), found.method)
    high = NO_END if found.high is None else _times(found.high)
    return Cell(f"{_times(found.estimate)} [{_times(found.low)}, {high}]")


def _times(ratio: float) -> str:
    """A ratio: 1.68, 0.042, 640."""
    return f"{ratio:.2f}" if 0.1 <= ratio < 10 else "0" if ratio == 0 else digits(ratio)
