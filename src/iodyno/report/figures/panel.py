"""Contents of a figure, as values: panels with an axis each way and series of estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.analysis.summary import unit_of
from iodyno.core.factor import VARIANT
from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level
from iodyno.report.layout import figure_layout, line_name
from iodyno.report.numbers import Scale, between, scale_of
from iodyno.report.void import MARK, WHY, is_void

Kind = Literal["linear", "log", "category"]

# Chosen: from here on, equal distances on a linear axis hide the small end.
_LOG_FROM_X = 20
_LOG_FROM_Y = 30


@dataclass(frozen=True)
class Mark:
    """One estimate: position, value and interval in the units of the axes, and what a pointer is told. Nothing is claimed of
    one that is `void`."""

    x: float
    y: float
    low: float | None
    high: float | None
    hint: str
    void: bool = False


@dataclass(frozen=True)
class Series:
    """Marks of one colour, shape and dash (`style`, the same in all panels); joined by a line where x is a quantity."""

    label: str
    style: int
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Curve:
    """A calculated line, (x, y) in the units of the axes, and the (x, low, high) of a band about it. `style` as a series."""

    label: str
    style: int
    line: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()


@dataclass(frozen=True)
class Axis:
    """Title with unit, kind, and for x the places that have a label."""

    title: str
    kind: Kind
    places: tuple[tuple[float, str], ...] = ()

    @property
    def nominal(self) -> bool:
        """True where its places are names, in the order given: between two of them there is nothing, so no line joins them."""
        return self.kind == "category"


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `notes` are vertical rules with a text: what else changes from there on. `joined`: whether a line goes
    through the marks of a series; not where they differ in more than the axis shows."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    notes: tuple[tuple[float, str], ...] = ()
    joined: bool = field(default=True, kw_only=True)


@dataclass(frozen=True)
class CurvePanel(Panel):
    """A panel with calculated lines behind its marks, which are then not joined."""

    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class Figure:
    """Panels that share their y range, a title and a caption that names the intervals."""

    title: str
    caption: str
    panels: tuple[Panel, ...]


def estimates(summary: CampaignSummary, outcomes: dict[str, str], what: str) -> tuple[Panel, ...]:
    """A panel for each of `outcomes` (name to panel title), one line per combination of the other factors.

    All panels have one scale and one unit. Empty when there are fewer than two points with an estimate.
    """
    layout = figure_layout(summary)
    along = layout.along
    if along is None:
        return ()
    found = [
        (outcome, point, estimate)
        for outcome in outcomes
        for point in summary.points
        if (estimate := point.outcomes.get(outcome)) and estimate.estimate is not None
    ]
    if len(found) < 2:
        return ()
    highs = [max(e.estimate or 0.0, e.high or 0.0) for _, _, e in found]
    lows = [e.estimate or 0.0 for _, _, e in found]
    first = next(iter(outcomes))
    scale = scale_of(
        max(e.estimate or 0.0 for _, _, e in found), unit_of(first, (e for _, _, e in found)), first
    )
    kind: Kind = "log" if min(lows) > 0 and max(highs) / min(lows) > _LOG_FROM_Y else "linear"
    x_kind = _x_kind(along)
    shown = _shown(summary, along, outcomes)
    places = {level: _position(along, level, x_kind) for level in shown}
    names = list(dict.fromkeys(line_name(layout, point) if layout.lines else "" for point in summary.points))
    x = Axis(
        _x_title(along),
        x_kind,
        tuple((places[level], name) for level, name in _level_names(summary, along) if level in places),
    )
    panels = []
    for outcome, title in outcomes.items():
        lines: dict[str, list[Mark]] = {name: [] for name in names}
        for name, point, estimate in found:
            if name != outcome:
                continue
            line = line_name(layout, point) if layout.lines else ""
            where = ", ".join(f"{factor.name} {point.labels[factor.name]}" for factor in layout.factors)
            assert estimate.estimate is not None
            lines[line].append(
                Mark(
                    x=places[point.levels[along.name]],
                    y=estimate.estimate / scale.factor,
                    low=None if estimate.low is None else estimate.low / scale.factor,
                    high=None if estimate.high is None else estimate.high / scale.factor,
                    hint=f"{where}: {between(estimate, outcome, scale)}, n = {estimate.n}",
                    void=is_void(point, outcome),
                )
            )
        series = tuple(
            Series(name, names.index(name), tuple(sorted(marks, key=lambda mark: mark.x)))
            for name, marks in lines.items()
            if marks
        )
        y = Axis(f"{what}, {_unit_words(scale)}", kind)
        if series:
            notes = tuple(_changes(summary, along, places))
            panels.append(Panel(title, x, y, series, notes, joined=not layout.scattered))
    return tuple(panels)


def interval_note(summary: CampaignSummary, outcomes: Iterable[str], marks: str = "Bars are") -> str:
    """Which intervals the `marks` of a figure are, of which points nothing is claimed, and what is not shown."""
    outcomes = tuple(outcomes)
    methods = dict.fromkeys(
        estimate.method.split(";")[0].split(", lag-1")[0]
        for point in summary.points
        for outcome in outcomes
        if (estimate := point.outcomes.get(outcome)) and estimate.low is not None
    )
    said = f"{marks} 95 % intervals ({'; '.join(methods)})." if methods else "No intervals: too few trials."
    void = any(is_void(point, outcome) for point in summary.points for outcome in outcomes)
    return " ".join([said, *([f"{MARK}: {WHY}."] if void else []), *_left_out(summary, outcomes)])


def _shown(summary: CampaignSummary, along: FactorLevels, outcomes: Iterable[str]) -> tuple[Level, ...]:
    """The levels along the axis: of names, those at which there is an estimate, since an empty row says nothing."""
    if along.numeric:
        return along.levels
    found = {
        point.levels[along.name]
        for point in summary.points
        for outcome in outcomes
        if (estimate := point.outcomes.get(outcome)) and estimate.estimate is not None
    }
    return tuple(level for level in along.levels if level in found)


def _left_out(summary: CampaignSummary, outcomes: Iterable[str]) -> Iterator[str]:
    """Which names have no row, and which combinations of the others no line: the reason of their first point."""
    layout, outcomes = figure_layout(summary), tuple(outcomes)
    if layout.scattered:
        names = " and ".join(factor_title(factor) for factor in layout.scattered)
        yield f"No line joins the points, as they differ in {names}, too."
    if layout.along is not None and not layout.along.numeric:
        along = layout.along.name
        yield from _without("row", summary, outcomes, lambda point: point.labels[along])
    if layout.along is not None and layout.lines:
        yield from _without("line", summary, outcomes, lambda point: line_name(layout, point))


def _without(
    what: str, summary: CampaignSummary, outcomes: Sequence[str], name_of: Callable[[PointSummary], str]
) -> Iterator[str]:
    estimates: dict[str, list[Estimate]] = {}
    for point in summary.points:
        found = [point.outcomes[outcome] for outcome in outcomes if outcome in point.outcomes]
        estimates.setdefault(name_of(point), []).extend(found)
    why: dict[str, list[str]] = {}
    for name, found in estimates.items():
        missing = [one.missing for one in found if one.missing]
        if missing and all(one.estimate is None for one in found):
            why.setdefault(missing[0], []).append(name)
    for reason, names in why.items():
        yield f"Without a {what}: {', '.join(names)} ({reason})."


def _changes(
    summary: CampaignSummary, along: FactorLevels, places: dict[int | bool | str, float]
) -> Iterable[tuple[float, str]]:
    """Yield the places where a parameter that is set together with the main factor takes another level."""
    if not along.numeric:
        # Between two names there is no place for a rule: the names say it themselves.
        return
    by_level = {point.levels[along.name]: point for point in summary.points}
    for name in along.together:
        before = None
        for level in along.levels:
            point = by_level.get(level)
            now = point.labels.get(name) if point else None
            if now is not None and before is not None and now != before[1]:
                middle = (places[before[0]] * places[level]) ** 0.5 if min(places.values()) > 0 else None
                if _x_kind(along) != "log" or middle is None:
                    middle = (places[before[0]] + places[level]) / 2
                yield middle, f"{name} {before[1]} | {now}"
            before = (level, now) if now is not None else before


def _level_names(summary: CampaignSummary, along: FactorLevels) -> list[tuple[Level, str]]:
    """The levels as the axis has them: names with what is set together with them, but for a variant, which names just that."""
    labels = summary.factor_labels[along.name]
    if along.numeric or along.name == VARIANT:
        return list(zip(along.levels, labels, strict=True))
    by_level = {point.levels[along.name]: point.labels for point in summary.points}
    beside = (
        ", ".join(
            f"{name} {by_level[level][name]}" for name in along.together if name in by_level.get(level, {})
        )
        for level in along.levels
    )
    return [
        (level, f"{label} ({more})" if more else label)
        for level, label, more in zip(along.levels, labels, beside, strict=True)
    ]


def _x_kind(along: FactorLevels) -> Kind:
    if not along.numeric:
        return "category"
    numbers = [float(level) for level in along.levels]
    return "log" if min(numbers) > 0 and max(numbers) / min(numbers) >= _LOG_FROM_X else "linear"


def _position(along: FactorLevels, level: int | bool | str, kind: Kind) -> float:
    return float(along.levels.index(level)) if kind == "category" else float(level)


def factor_title(along: FactorLevels) -> str:
    """A factor as the title of an axis."""
    return "message size" if along.name == "size" else along.name.replace("_", " ")


def _x_title(along: FactorLevels) -> str:
    name = factor_title(along)
    return f"{name} (logarithmic)" if _x_kind(along) == "log" else name


def _unit_words(scale: Scale) -> str:
    return {"cycles/KiB": "cycles per KiB", "ns/KiB": "ns per KiB"}.get(scale.unit, scale.unit)
