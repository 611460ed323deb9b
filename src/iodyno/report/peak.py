"""Peak of a rate along the main factor, in sentences: a level, with those that trials cannot tell from it.

What lies between levels is not told here: a curve through them is fitted by `analysis.fitting`. A level cannot be told from the
greatest where the comparison of the two is undecided (`analysis.compare`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iodyno.analysis.compare import change
from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.report.layout import Layout, line_name, place_of
from iodyno.report.numbers import between
from iodyno.report.sentence import About, Sentence

LEVELS_LEAST = 3
"""Of two levels the greater is all that there is to say."""
LINES_MOST = 4
"""Lines whose peaks one sentence names (chosen: as many as are read at one go)."""


@dataclass(frozen=True)
class Peak:
    """The greatest rate of a line. `points`: all that are known, in order along the factor; `near`: those that cannot be told
    from `top`, with it.
    """

    line: str
    along: str
    outcome: str
    points: tuple[PointSummary, ...]
    top: PointSummary
    near: tuple[PointSummary, ...]

    @property
    def known(self) -> bool:
        """True where any level is surely less than the greatest."""
        return len(self.near) < len(self.points)

    @property
    def passed(self) -> bool:
        """True where the rate has fallen again at the last level."""
        return self.points[-1] is not self.near[-1]

    def value(self, point: PointSummary) -> str:
        """The rate at a level."""
        return between(point.outcomes[self.outcome])

    def place(self, point: PointSummary) -> str:
        """A level in words."""
        return place_of(point.labels, [self.along])

    @property
    def apart(self) -> str:
        """The levels that cannot be told apart; nothing where the greatest stands alone."""
        ends = [point.labels[self.along] for point in (self.near[0], self.near[-1])]
        if len(self.near) < 2:
            return ""
        return f"{place_of({self.along: ' to '.join(ends)}, [self.along])} cannot be told apart"


def peak_sentences(summary: CampaignSummary, layout: Layout, outcome: str, what: str) -> Iterator[Sentence]:
    """State where `what` is greatest along the main factor, with every line as a case. Nothing where that is no quantity, or is
    the rate that is offered.
    """
    along = layout.along
    if along is None or not along.numeric or along.name == "rate":
        return
    found = list(_peaks(summary, layout, along.name, outcome))
    if not found:
        return
    # Where a rate goes on rising, from what to what it rises says more.
    about: About = "peak" if any(peak.known and peak.passed for peak in found) else "more"
    if len(found) == 1:
        where = f" ({found[0].line})" if found[0].line else ""
        yield Sentence(f"{what}{where} {_described(found[0])}.", about=about)
        return
    details = tuple(f"{peak.line}: it {_described(peak)}" for peak in found)
    yield Sentence(f"{what} {_of_all(found)}.", details, about=about)


def _peaks(summary: CampaignSummary, layout: Layout, along: str, outcome: str) -> Iterator[Peak]:
    levels = next(factor.levels for factor in layout.factors if factor.name == along)
    lines: dict[str, list[PointSummary]] = {}
    for point in summary.points:
        if point.knows(outcome):
            lines.setdefault(line_name(layout, point) if layout.lines else "", []).append(point)
    for name, points in lines.items():
        if len(points) < LEVELS_LEAST:
            continue
        points.sort(key=lambda point: levels.index(point.levels[along]))
        top = max(points, key=lambda point: point.outcomes[outcome].estimate or 0.0)
        near = tuple(
            point
            for point in points
            if point is top or change(point.outcomes[outcome], top.outcomes[outcome]).verdict != "rises"
        )
        yield Peak(name, along, outcome, tuple(points), top, near)


def _described(peak: Peak) -> str:
    """Describe the peak of one line, after the name of what is greatest."""
    at = f"at {peak.place(peak.top)}, with {peak.value(peak.top)}"
    if not peak.known:
        return f"is highest {at}, but no level is surely less: where it peaks is not known"
    unsure = f" ({peak.apart})" if peak.apart else ""
    last = peak.points[-1]
    if peak.passed:
        return f"peaks {at}{unsure}, and is {peak.value(last)} at {peak.place(last)}"
    return f"is highest {at}{unsure}; its peak may lie beyond {peak.place(last)}, the last level"


def _of_all(found: Sequence[Peak]) -> str:
    """Describe the peaks of several lines."""
    passed = [peak for peak in found if peak.known and peak.passed]
    further = [peak for peak in found if peak.known and not peak.passed]
    unknown = [peak.line for peak in found if not peak.known]
    if len(found) <= LINES_MOST:
        clauses = (
            (passed, f"peaks at {_named(passed)}"),
            (further, f"is highest at {_named(further)}, and may peak beyond the last level"),
            (unknown, f"has no peak that can be told ({', '.join(unknown)})"),
        )
    else:
        of = f"of {len(found)} lines"
        clauses = (
            (passed, f"peaks before the last level on {len(passed)} {of}"),
            (further, f"is highest at levels up to the last on {len(further)} {of}, and may peak beyond"),
            (unknown, f"has no peak that can be told on {len(unknown)} {of}"),
        )
    return "; it ".join(text for some, text in clauses if some)


def _named(peaks: Sequence[Peak]) -> str:
    """`4 connections (zone; 2 to 8 connections cannot be told apart)`."""
    places = [
        f"{peak.place(peak.top)} ({'; '.join(filter(None, (peak.line, peak.apart)))})" for peak in peaks
    ]
    return " and ".join(filter(None, (", ".join(places[:-1]), *places[-1:])))
