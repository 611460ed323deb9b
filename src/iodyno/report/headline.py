"""The answer of a campaign of one point on a terminal: what was loaded, rate, times, costs and limiter, in at most ten lines."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary, PointSummary
from iodyno.core.limiter import UNKNOWN, Finding
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import WarningCode
from iodyno.loads.base.report import Row, load_of
from iodyno.report.limiter import name_of
from iodyno.report.numbers import Scale, digits, scale_of
from iodyno.report.void import MARK, is_void
from iodyno.report.warnings import grouped

NOTES = frozenset((WarningCode.ONE_TRIAL, WarningCode.FEW_REPLICATES, WarningCode.SHARED_CPUS))
"""Warnings that the first line tells already: how many trials there are, and that both hosts are this machine."""
_FIRST = (WarningCode.PHYSICS, WarningCode.COST_VOID, WarningCode.GENERATOR_LIMITED, WarningCode.BACKGROUND)
"""Those that change the reading most, which are told before others."""
_SCALES = {"ns/operation": ((1e6, "ms each"), (1e3, "us each"), (1, "ns each")), "us/IO": ((1, "us each"),)}
_LONGEST = 100
"""Characters of a warning or a reason that are shown (chosen: a line and a half); all of it with -v."""


def headline(summary: CampaignSummary, saved: str) -> list[str]:
    """Return the lines; `saved`: the campaign's folder."""
    point, load = summary.points[0], load_of(summary)
    lines = [f"{load.title(summary, point)}, {_trials(summary, point)}{_hosts(summary)}"]
    rows = [(row.label, _values(point, row)) for row in load.rows(summary)]
    rows.append(("Limited by", [limited_by(point.limiter)]))
    if told := _warning(summary):
        rows.append(("Warning", [told]))
    rows.append(("Saved", [f"{saved}   (iodyno report: tables, plots)"]))
    label = max(len(name) for name, _ in rows) + 2
    # Numbers stand below each other; sentences, and numbers behind a word, begin where these do.
    width = max((len(cells[0]) for _, cells in rows if len(cells) == 3), default=0)
    interval = max((len(cells[1]) for _, cells in rows if len(cells) == 3), default=0)
    for name, cells in rows:
        aligned = [f"{cells[0]:>{width}}", f"{cells[1]:<{interval}}", cells[2]] if len(cells) == 3 else cells
        lines.append(f"  {name:<{label}}{'   '.join(aligned)}".rstrip())
    return lines


def limited_by(finding: Finding) -> str:
    """Return the limiter, and how it is known: `receiver CPU (suspected; --prove tests it)`."""
    if not finding.verdict.trials:
        return "not known: no trial counts"
    if finding.name == UNKNOWN:
        first = finding.verdict.ranked[0] if finding.verdict.ranked else None
        nearest = f"; nearest: {_plain(first.name)}, in {first.held:.0%} of the intervals" if first else ""
        return f"not clear{nearest}"
    known = {"suspected": "suspected; --prove tests it"}.get(finding.status, finding.status.replace("_", " "))
    return f"{_plain(finding.name)} ({known})"


def _plain(limiter: str) -> str:
    return name_of(limiter).replace(": ", " ")


def _trials(summary: CampaignSummary, point: PointSummary) -> str:
    return f"{point.finished} x {summary.windows['measured_ns'] / 1e9:g} s"


def _hosts(summary: CampaignSummary) -> str:
    """Return `, client -> server (2 namespaces of this machine)`; nothing where this machine is the only host."""
    names = [host.name for host in summary.shown_hosts]
    (access, *others) = dict.fromkeys(host.access for host in summary.hosts)
    if access == "local" and not others:
        return ", over the loopback of this machine" if len(names) > 1 else ""
    where = f"{len(summary.hosts)} namespaces of this machine" if access == "netns" and not others else ""
    where = where or ", ".join(
        f"{host.name} {host.access}" for host in summary.shown_hosts if host.access != "local"
    )
    return f", {load_of(summary).between.replace('→', '->').join(names)} ({where})"


def _values(point: PointSummary, row: Row) -> list[str]:
    """Return value, interval and CPUs of one outcome; of several each with its word and interval in one text."""
    shown = [(word, name, point.outcomes[name]) for word, name in row.outcomes if name in point.outcomes]
    if not shown:
        return ["not reported"]
    if missing := next((found.missing for _, _, found in shown[:1] if found.estimate is None), None):
        return [_shortened(f"not reported: {missing}")]
    if len(shown) == 1:
        _, name, found = shown[0]
        value, interval = estimate_text(found, name)
        return [value + (MARK if is_void(point, name) else ""), interval, _cpus(point, row, found)]
    texts = []
    for word, name, found in shown:
        value, interval = estimate_text(found, name) if found.estimate is not None else ("–", "")
        texts.append(" ".join(filter(None, (word, value + (MARK if is_void(point, name) else ""), interval))))
    return ["   ".join(texts)]


def _cpus(point: PointSummary, row: Row, cost: Estimate) -> str:
    """Return `97 % of a core`: the cost of one times how many there were a second."""
    rate = point.outcomes[row.works_at].estimate if row.works_at in point.outcomes else None
    if rate is None or cost.estimate is None:
        return ""
    cores = cost.estimate * rate / row.unit / 1e9
    return f"{digits(cores)} cores" if cores >= 1.5 else f"{cores:.0%} of a core".replace("%", " %")


def estimate_text(found: Estimate, name: str = "") -> tuple[str, str]:
    """Return the estimate to three digits in a unit that people read, and its interval in the same unit.

    >>> estimate_text(Estimate(23.42e9, 23.11e9, 23.68e9, 3, "bit/s", "t"))
    ('23.4 Gbit/s', '[23.1, 23.7]')
    >>> estimate_text(Estimate(32_930.0, 31_000.0, 34_860.0, 10, "ns/operation", "t"))
    ('32.9 us each', '[31.0, 34.9]')
    """
    if found.estimate is None:
        return "–", f"({found.missing})"
    scale = _scale(found, name)
    value = f"{digits(found.estimate / scale.factor)} {scale.unit}".rstrip()
    if found.low is None or found.high is None:
        return value, ""
    low, high = (digits(bound / scale.factor) for bound in (found.low, found.high))
    return value, f"[{low}, {high}]"


def _scale(found: Estimate, name: str) -> Scale:
    if (scales := _SCALES.get(found.unit)) and found.estimate is not None:
        return next((Scale(*each) for each in scales if abs(found.estimate) >= each[0]), Scale(*scales[-1]))
    return scale_of(found.estimate or 0.0, found.unit, name)


def _warning(summary: CampaignSummary) -> str:
    """Return the warning that changes the reading most, and how many more kinds there are."""
    groups = [group for group in grouped(summary) if group.code not in NOTES]
    if not groups:
        return ""
    groups.sort(
        key=lambda group: _FIRST.index(WarningCode(group.code)) if group.code in _FIRST else len(_FIRST)
    )
    more = f"; {len(groups) - 1} more with -v" if len(groups) > 1 else ""
    return _shortened(groups[0].warnings[0].line) + more


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4].rsplit(' ', 1)[0]} ..."
