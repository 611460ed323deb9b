"""The trials of a report: a heat map of every point, and for every trial its panels and its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from markupsafe import Markup

from iodyno.analysis.heat_map.points import MapFindings
from iodyno.analysis.histogram import Histogram
from iodyno.analysis.operation_times import OperationTimes, joined
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.trial_views import TrialStudy, TrialView
from iodyno.report.heat_map.sentences import sentences
from iodyno.report.layout import layout_of, place_name
from iodyno.report.numbers import Scale, digits, quantity, scale_of
from iodyno.report.trial_panels import heat, histogram, strips
from iodyno.report.trial_panels.data import (
    Family,
    axis_of,
    columns_most,
    counted,
    families_of,
    packed,
    shortened,
)
from iodyno.report.trial_panels.frame import Frame, Shared

_SHARES = (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
_WINDOWS = {"warm_up": "warm-up", "measured": "measured", "drain": "drain"}
Families = Mapping[tuple[str, str], Family]


@dataclass(frozen=True)
class Head:
    """A column of a trial's table under a `group`. `kind`: `count`, a quantile of `of`, or the mean of a line; `factor` of its
    unit.
    """

    group: str
    title: str
    unit: str
    kind: str
    of: int
    factor: float = 1.0
    share: float = 0.0


@dataclass(frozen=True)
class Panels:
    """Panels of a trial, shown when it is opened."""

    maps: tuple[Markup, ...] = ()
    histograms: tuple[Markup, ...] = ()
    strips: tuple[Markup, ...] = ()
    heads: tuple[Head, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    packed: bool = False

    @property
    def drawn(self) -> Markup:
        """All drawings, each in a box of its own."""
        every = (*self.maps, *self.histograms, *self.strips)
        return Markup("").join(Markup("<div>{}</div>").format(drawing) for drawing in every)

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Heads above the heads, and how many columns each has."""
        return tuple((name, len(list(heads))) for name, heads in groupby(head.group for head in self.heads))


@dataclass(frozen=True)
class PointMap:
    """A point's heat maps, all of its trials together: the first operation by each of its clocks, then the others.

    `found`: what is in each map besides counts, in sentences.
    """

    id: str
    place: str
    caption: str
    main: tuple[Markup, ...]
    others: tuple[Markup, ...]
    found: tuple[tuple[str, tuple[str, ...]], ...]
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Trials:
    """All of it, with the data for the script; `ranges` says what the rows of each operation hold."""

    panels: Mapping[str, Panels] = field(default_factory=dict)
    points: tuple[PointMap, ...] = ()
    ranges: tuple[str, ...] = ()
    without: int = 0
    data: str = ""
    shared: Markup = field(default_factory=Markup)


class Drawings:
    """Everything that is drawn of the trials, each once, however often a page is made of it: panels of every trial, and heat maps
    of the points with what was `found` in them.
    """

    def __init__(
        self, summary: CampaignSummary, study: TrialStudy, found: Sequence[MapFindings] = ()
    ) -> None:
        chosen = [study.views[t.name] for t in summary.trials if t.name in study.views]
        most = columns_most(len(chosen))
        self._views = [shortened(view, most) for view in chosen]
        self._families = families_of(
            [times for view in chosen for times in view.times],
            [times for each in study.points.values() for times in each],
        )
        most = columns_most(len(study.points))
        points = {point: [joined(times, most) for times in each] for point, each in study.points.items()}
        self._counted = counted(self._views, self._families, points)
        self._shared = Shared()
        self._panels: dict[tuple[str, bool], Panels] = {}
        # Names of shared pieces are given in the order in which they are drawn.
        self._whole = [self._drawn(view, bare=False) for view in self._views]
        self._points = tuple(_points(summary, study, self._families, self._shared, found))
        finished = sum(trial.status == "finished" for trial in summary.trials)
        self._without = finished - len(self._views)

    def section(self, fits: Callable[[str, int], bool] = lambda _kind, _size: True) -> Trials:
        """Return the section for a page.

        `fits` says whether drawings of so many bytes have room in the page; of those that have none, axes and lines lie
        compressed in its data, and the script draws cells and histograms.
        """
        panels, packed_panels = {}, {}
        for view, whole in zip(self._views, self._whole, strict=True):
            each = whole
            if not fits("panels", len(whole.drawn)):
                each = self._drawn(view, bare=True)
                packed_panels[view.name] = str(each.drawn)
            panels[view.name] = each
        heads: dict[str, list[list[str | float]]] = {
            name: [[head.kind, head.of, head.factor, head.share] for head in each.heads]
            for name, each in panels.items()
        }
        return Trials(
            panels=panels,
            points=self._points,
            ranges=tuple(_range(key, family) for key, family in self._families.items()),
            without=self._without,
            data=packed(self._counted, heads, packed_panels),
            shared=Markup(heat.definitions(self._shared)),
        )

    def _drawn(self, view: TrialView, *, bare: bool) -> Panels:
        key = view.name, bare
        if key not in self._panels:
            self._panels[key] = _panels(
                view, self._families, self._shared, self._panels[view.name, False] if bare else None
            )
        return self._panels[key]


def drawings_of(
    summary: CampaignSummary, study: TrialStudy, found: Sequence[MapFindings] = ()
) -> Drawings | None:
    """Return the drawings of the trials; None when no trial has records."""
    return Drawings(summary, study, found) if study else None


def _range(key: tuple[str, str], family: Family) -> str:
    beside, operation = key
    edges = family.coarse.edges
    low, high = quantity(edges[0], "ns"), quantity(edges[-1], "ns")
    whose = f"the {beside}'s " if beside else ""
    return f"{whose}{operation} from {low} at the bottom to {high} at the top, a row {_wide(family)} high"


def _wide(family: Family) -> str:
    """State how much longer the top of a row is than its bottom, in per cent."""
    return f"{100 * (2 ** (1 / family.coarse.an_octave) - 1):.0f} %"


def _panels(view: TrialView, families: Families, shared: Shared, whole: Panels | None) -> Panels:
    """Those of a trial; of `whole` ones such without what the script can draw from the page's data."""
    bare = whole is not None
    frame = Frame(view.end_s, view.measured, shared)
    maps = [(number, each, families[each.beside, each.operation]) for number, each in enumerate(view.times)]
    drawn = tuple(
        Markup(heat.draw(each, f.coarse, frame, number=number, bare=bare)) for number, each, f in maps
    )
    histograms = tuple(
        Markup(histogram.draw(each, f.coarse, number, shared, bare=bare)) for number, each, f in maps
    )
    if whole is not None:
        return replace(whole, maps=drawn, histograms=histograms, packed=True)
    heads = tuple(_heads(view))
    return Panels(
        maps=drawn,
        histograms=histograms,
        strips=tuple(Markup(strips.draw(strip, frame)) for strip in view.strips),
        heads=heads,
        rows=tuple(_rows(view, heads)),
    )


def _heads(view: TrialView) -> list[Head]:
    heads = []
    for number, times in enumerate(view.times):
        name = f"{f'{times.beside} ' if times.beside else ''}{times.operation}, {times.clock}"
        every = [column.times for column in times.columns if column.times.count]
        scale = scale_of(max(h.quantile(0.5) or 0.0 for h in every), "ns") if every else Scale(1.0, "ns")
        group = f"{name} time, {scale.unit}"
        heads.append(Head(group, "n", "", "count", number))
        heads += [Head(group, label, "", "quantile", number, scale.factor, share) for label, share in _SHARES]
    place = 0
    for strip in view.strips:
        scale = strips.scale_for(strip)
        for name, line in zip(strip.labels, strip.lines, strict=True):
            if not line.values:
                continue
            # Quantiles are exact over a window; their means over intervals are none.
            if strip.kind != "log":
                title = strip.title if len(strip.lines) == 1 else f"{strip.title}: {name}"
                heads.append(Head("mean", title, scale.unit, "mean", place))
            place += 1
    return heads


def _rows(view: TrialView, heads: Sequence[Head]) -> list[tuple[str, ...]]:
    """A row for each window of the trial: exact counts and quantiles of it, means of lines over its intervals."""
    columns = axis_of(view)
    lines = [(strip, line) for strip in view.strips for line in strip.lines if line.values]
    found = []
    for window in dict.fromkeys(column.window for column in columns):
        mine = [column for column in columns if column.window == window]
        cells = [f"{_WINDOWS.get(window, window)}, {mine[0].begin_s:.2f} to {mine[-1].end_s:.2f} s"]
        merged = [times.within(window) for times in view.times]
        for head in heads:
            if head.kind == "mean":
                strip, line = lines[head.of]
                values = [v for v, w in zip(line.values, line.windows, strict=True) if w == window]
                factor = strips.scale_for(strip).factor
                cells.append(digits(sum(values) / len(values) / factor) if values else "–")
            else:
                cells.append(_of_times(merged[head.of], head))
        found.append(tuple(cells))
    return found


def _of_times(times: Histogram, head: Head) -> str:
    if head.kind == "count":
        return f"{times.count:,}".replace(",", " ")
    value = times.quantile(head.share)
    return "–" if value is None else digits(value / head.factor)


def _points(
    summary: CampaignSummary,
    study: TrialStudy,
    families: Families,
    shared: Shared,
    found: Sequence[MapFindings],
) -> Iterator[PointMap]:
    factors = layout_of(summary).factors
    most = columns_most(len(study.points))
    for point in summary.points:
        each = study.points.get(point.id)
        if not each:
            continue
        names = tuple(t.name for t in summary.trials if t.point == point.id and t.status == "finished")
        end_s = max(times.columns[-1].end_s for times in each)
        first = next(study.views[name] for name in names if name in study.views)
        frame = Frame(end_s, first.measured, shared)
        place = place_name(point, factors)
        maps = []
        for times in each:
            rows = families[times.beside, times.operation].coarse
            drawn = heat.draw(
                joined(times, most), rows, frame, of=f"{place or 'the only point'}, ", lines=True
            )
            maps.append((times.operation == each[0].operation and not times.beside, Markup(drawn)))
        yield PointMap(
            id=point.id,
            place=place,
            caption=_caption(each),
            main=tuple(drawn for main, drawn in maps if main),
            others=tuple(drawn for main, drawn in maps if not main),
            found=tuple(
                (_of_what(one), tuple(sentences(one.grid, one.found, zero_ns=0, absent=False)))
                for one in found
                if one.point == point.id
            ),
            trials=names,
        )


def _of_what(one: MapFindings) -> str:
    whose = f"{one.beside}'s " if one.beside else ""
    return f"{whose}{one.operation}, {one.clock} time"


def _caption(each: Sequence[OperationTimes]) -> str:
    """The first operation's median and 99th percentile in the measured window, by each clock."""
    parts = []
    for times in each:
        if times.operation != each[0].operation or times.beside != each[0].beside:
            continue
        within = times.within("measured")
        p50, p99 = within.quantile(0.5), within.quantile(0.99)
        if p50 is not None and p99 is not None:
            parts.append(f"{times.clock} time p50 {quantity(p50, 'ns')}, p99 {quantity(p99, 'ns')}")
    return "; ".join(parts)
