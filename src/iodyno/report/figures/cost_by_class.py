"""CPU time of a KiB: its cost by class, stacked, against the main factor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iodyno.analysis.cpu_classes import NAMES
from iodyno.analysis.results import CampaignSummary, HostSummary, PointSummary
from iodyno.loads.base.report import load_of
from iodyno.report.figures.panel import factor_title, interval_note
from iodyno.report.figures.stacks import REST, Layer, Stack, StackFigure, StackPanel
from iodyno.report.layout import Layout, figure_layout, line_name, place_name
from iodyno.report.numbers import between
from iodyno.report.void import is_void

ORDER = ("usr", "sys", "softirq", "irq", "other")
"""From below: what the load asked for, then what came of it. The place is the style."""
TOTAL = "cpu_ns_per_kib"
_REST_LEAST = 0.005
"""Share of the total that no class accounts for, from which it is drawn (chosen: a pixel of a bar)."""
_ONE_SCALE = 4.0
"""Panels of different message sizes share a scale up to this ratio of their largest totals (chosen: a bar of a quarter of
the height still shows its layers)."""
_LINES_MOST = 12
"""Chosen: more rows of panels than that are not looked at."""


def figure(summary: CampaignSummary) -> StackFigure | None:
    """A panel for each host and each line of the other figures; one panel with both hosts when nothing varies."""
    return load_of(summary).by_class(summary, _figure)


def _figure(summary: CampaignSummary) -> StackFigure | None:
    layout = figure_layout(summary)
    hosts = [host for host in summary.hosts if any(_known(point, host) for point in summary.points)]
    if not hosts:
        return None
    if layout.along is None:
        rows = [[_of_hosts(summary, hosts)]]
        left_out = 0
    else:
        lines: dict[str, list[PointSummary]] = {}
        for point in summary.points:
            lines.setdefault(line_name(layout, point) if layout.lines else "", []).append(point)
        shown = dict(list(lines.items())[:_LINES_MOST])
        left_out = len(lines) - len(shown)
        rows = [
            [_of_line(layout, host, name, points) for host in hosts if any(_known(p, host) for p in points)]
            for name, points in shown.items()
        ]
    # A line whose cost is not known of any host, as that of a path that this machine cannot have, has no panel.
    rows = [row for row in rows if row]
    tops = [_top(row) for row in rows]
    if not rows:
        return None
    one_scale = max(tops) <= _ONE_SCALE * min(tops)
    lines_name = " and ".join(_called(factor.name) for factor in layout.lines) or "panel"
    panels = tuple(
        replace(p, top=max(tops) if one_scale else top)
        for row, top in zip(rows, tops, strict=True)
        for p in row
    )
    return StackFigure(
        "CPU time of a KiB by class", _caption(summary, hosts, lines_name, one_scale, left_out), panels
    )


def _caption(
    summary: CampaignSummary, hosts: Sequence[HostSummary], lines: str, one_scale: bool, left_out: int
) -> str:
    totals = [f"{host.name}.{TOTAL}" for host in hosts]
    trials = sorted({p.outcomes[t].n for p in summary.points for t in totals if p.outcomes[t].n})
    counted = "–".join(map(str, dict.fromkeys([trials[0], trials[-1]])))
    tier_notes = {
        "bpf": "Classes are timed at every switch in the kernel (tier bpf); user and system are the load's own.",
        "irq_time": "Classes are those of /proc/stat (tier irq_time): user and system hold all tasks and are sampled, "
        "so that the layers need not reach the total.",
        "tick": "Classes are those of /proc/stat (tier tick), sampled at the timer tick, hard interrupts unseen, so that "
        "the layers need not reach the total.",
    }[summary.accounting.tier]
    parts = [
        interval_note(summary, totals, "Marks with caps on the bars are the totals'"),
        f"n = {counted} trial{'' if counted == '1' else 's'} a bar.",
        "The background of each class is subtracted.",
        tier_notes,
        _of_others(summary, hosts),
        ""
        if one_scale
        else f"Mind the scales: each {lines} has its own{', both hosts the same' * (len(hosts) > 1)}.",
        f"{left_out} more combination{'' if left_out == 1 else 's'} of the factors in the tables."
        if left_out
        else "",
        "Lower is better.",
    ]
    return " ".join(filter(None, parts))


def _of_others(summary: CampaignSummary, hosts: Sequence[HostSummary]) -> str:
    """Name the time left out of the bars. The tables have the roles' time: a total without it must not be taken for theirs."""
    if not _without_others(summary, hosts):
        return ""
    roles = [f"{host.name}.cpu_{role}_us_per_io" for host in hosts for role in ("server", "client_daemon")]
    if any(point.knows(name) for point in summary.points for name in roles):
        return (
            "Other tasks gave way to the load and are left out, and with them the server and the clients' daemons: "
            "what these take is in the tables."
        )
    return "Other tasks gave way to the load and are left out."


def _called(factor: str) -> str:
    return "message size" if factor == "size" else factor.replace("_", " ")


def _without_others(summary: CampaignSummary, hosts: Sequence[HostSummary]) -> bool:
    names = [f"{host.name}.cpu_other_ns_per_kib" for host in hosts]
    others = [point.outcomes[name] for point in summary.points for name in names if name in point.outcomes]
    return any("gave way" in (found.missing or "") for found in others)


def _of_line(layout: Layout, host: HostSummary, name: str, points: Sequence[PointSummary]) -> StackPanel:
    along = layout.along
    assert along is not None
    ordered = sorted(points, key=lambda point: along.levels.index(point.levels[along.name]))
    shown = [point for point in ordered if _known(point, host)]
    stacks = tuple(
        _stack(point, host, point.labels[along.name], place_name(point, layout.factors)) for point in shown
    )
    what = (
        f", {name} messages" if layout.lines and [f.name for f in layout.lines] == ["size"] else f", {name}"
    )
    notes = []
    for together in along.together if along.numeric else ():
        texts = [point.labels.get(together) for point in shown]
        for number in range(1, len(texts)):
            if texts[number] != texts[number - 1]:
                notes.append((number, f"{together} {texts[number - 1]} | {texts[number]}"))
    return StackPanel(
        f"{_host_name(host)}{what if name else ''}",
        factor_title(along),
        _Y,
        stacks,
        0.0,
        tuple(notes),
        named=not along.numeric,
    )


def _of_hosts(summary: CampaignSummary, hosts: Sequence[HostSummary]) -> StackPanel:
    point = next(point for point in summary.points if any(_known(point, host) for host in hosts))
    stacks = tuple(_stack(point, host, _host_name(host), host.name) for host in hosts if _known(point, host))
    return StackPanel("both hosts" if len(stacks) > 1 else hosts[0].name, "", _Y, stacks, 0.0, named=True)


_Y = "CPU time, ns per KiB"


def _stack(point: PointSummary, host: HostSummary, label: str, place: str) -> Stack:
    total = point.outcomes[f"{host.name}.{TOTAL}"]
    assert total.estimate is not None
    layers = []
    for style, kind in enumerate(ORDER):
        part = point.outcomes.get(f"{host.name}.cpu_{kind}_ns_per_kib")
        if part is None or part.estimate is None:
            continue
        share = f" ({100 * part.estimate / total.estimate:.0f} % of the total)" if total.estimate > 0 else ""
        layers.append(
            Layer(NAMES[kind], style, part.estimate, f"{NAMES[kind]}: {between(part)}{share}, {place}")
        )
    rest = total.estimate - sum(layer.y for layer in layers)
    if rest > _REST_LEAST * total.estimate:
        layers.append(Layer("in no class", REST, rest, f"in no class: {rest:.3g} {total.unit}, {place}"))
    hint = f"in all: {between(total)}, {place}, n = {total.n}"
    void = is_void(point, f"{host.name}.{TOTAL}")
    return Stack(label, tuple(layers), total.estimate, total.low, total.high, hint, void)


def _top(panels: Sequence[StackPanel]) -> float:
    """End of an axis that holds all bars, and the intervals that are not much longer than they."""
    stacks = [stack for panel in panels for stack in panel.stacks]
    bars = max(max(stack.total, sum(max(0.0, layer.y) for layer in stack.layers)) for stack in stacks)
    ends = max(stack.high or stack.total for stack in stacks)
    return max(bars, min(ends, 1.5 * bars)) * 1.04 or 1.0


def _host_name(host: HostSummary) -> str:
    ends = {"send": "sends", "receive": "receives"}
    return f"{host.name} ({ends[host.role]})" if host.role in ends else host.name


def _known(point: PointSummary, host: HostSummary) -> bool:
    """Tell whether the total and at least one class are known."""
    names = [f"{host.name}.{TOTAL}"]
    classes = [f"{host.name}.cpu_{kind}_ns_per_kib" for kind in ORDER]
    has = [name for name in (*names, *classes) if (e := point.outcomes.get(name)) and e.estimate is not None]
    return len(has) > 1 and has[0] == names[0]
