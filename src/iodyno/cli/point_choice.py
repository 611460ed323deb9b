"""Points of a campaign as people name them on the command line: `connections=32,size=64KiB`, or `p07`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from iodyno.core.errors import ExperimentError, IodynoError
from iodyno.core.factor import parameter_of
from iodyno.core.invalid import for_key, invalid
from iodyno.core.workload import Level
from iodyno.loads.base.workloads import workload_of_stored

if TYPE_CHECKING:
    from iodyno.analysis.results import CampaignSummary, PointSummary

NEAREST = 3
"""Points that an error names (chosen: what fits into two lines)."""


def choose_point(summary: CampaignSummary, written: str, where: str) -> PointSummary:
    """The one point that `written` names. Raises ExperimentError with the nearest when it is none, or several."""
    by_id = next((point for point in summary.points if point.id == written.strip()), None)
    if by_id is not None:
        return by_id
    wanted = _levels(summary, written, where)
    found = [
        point for point in summary.points if all(point.levels[name] == at for name, at in wanted.items())
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        near = sorted(summary.points, key=lambda point: _distance(point.levels, wanted))[:NEAREST]
        raise ExperimentError(
            f"no point is {written!r}; the nearest: {' '.join(_quoted(summary, p) for p in near)}",
            where=where,
            advice=_quoted(summary, near[0]) if near else "`iodyno report` names the points",
        )
    open_factors = [f.name for f in summary.factors if len({point.levels.get(f.name) for point in found}) > 1]
    listed = " ".join(_quoted(summary, point) for point in found[:NEAREST])
    raise ExperimentError(
        f"{len(found)} points are {written!r}: {listed}{' ...' if len(found) > NEAREST else ''}",
        where=where,
        advice=f"name {' and '.join(open_factors) or 'the point by its id'} too",
    )


def complete_point(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The points of the campaign named before, for a shell."""
    names = list(_written(_header(ctx)))
    # What was typed may name the factors in another order, or only some of them.
    typed = {part for part in incomplete.split(",") if "=" in part}
    return [
        CompletionItem(name)
        for name in names
        if name.startswith(incomplete) or (typed and typed <= set(name.split(",")))
    ]


def complete_host(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The hosts of the campaign named before, for a shell."""
    return [CompletionItem(name) for name in _header(ctx).get("hosts", {}) if name.startswith(incomplete)]


def choose_host(summary: CampaignSummary, written: str | None) -> str:
    """The host named, or the sender. Raises ExperimentError with those that there are."""
    names = [host.name for host in summary.hosts]
    if written is None:
        sender = summary.host("send")
        return sender.name if sender else names[0]
    if written not in names:
        raise ExperimentError(invalid(written, ", ".join(names)), where="--host", advice=names[0])
    return written


def _levels(summary: CampaignSummary, written: str, where: str) -> dict[str, Level]:
    """`written` as levels in base units."""
    known = list(dict.fromkeys(name for point in summary.points for name in point.levels))
    workload = workload_of_stored(summary.workload)
    example = summary.name_of(summary.points[0]) if summary.points else "connections=32,size=64KiB"
    found: dict[str, Level] = {}
    for part in filter(None, (part.strip() for part in written.split(","))):
        name, equals, level = (text.strip() for text in part.partition("="))
        if not equals:
            raise ExperimentError(
                f"{part!r} is neither a point nor a level of a factor; points: {_ids(summary)}; factors: {', '.join(known)}",
                where=where,
                advice=example,
            )
        if name not in known:
            text = f"unknown factor {name!r} of this campaign: expected {', '.join(known)}"
            raise ExperimentError(text, where=where, advice=example)
        if name in found:
            raise ExperimentError(
                f"{name} is named twice, and a point has one level of it", where=where, advice=example
            )
        parameter = parameter_of(workload, name)
        try:
            found[name] = parameter.parse(level) if parameter else level
        except ValueError as error:
            raise ExperimentError(for_key(name, str(error)), where=where, advice=example) from None
    if not found:
        raise ExperimentError("names no factor", where=where, advice=example)
    return found


def _distance(levels: Mapping[str, Level], wanted: Mapping[str, Level]) -> tuple[int, float]:
    """Factors that differ, then how far apart the numbers are, in powers of two."""
    differ, apart = 0, 0.0
    for name, level in wanted.items():
        mine = levels.get(name)
        if mine == level:
            continue
        differ += 1
        numbers = isinstance(mine, int) and isinstance(level, int) and min(mine, level) > 0
        apart += abs(math.log2(int(mine) / int(level))) if numbers and mine is not None else 64.0
    return differ, apart


def _ids(summary: CampaignSummary) -> str:
    """The points by their ids: all, or the first and the last of many."""
    ids = [point.id for point in summary.points]
    return ", ".join(ids) if len(ids) <= 2 * NEAREST else f"{ids[0]} to {ids[-1]}"


def _quoted(summary: CampaignSummary, point: PointSummary) -> str:
    return f"'{summary.name_of(point)}'"


def _header(ctx: click.Context) -> Mapping[str, Any]:
    """Return the header of the campaign on the command line; nothing while it is not typed, or not there."""
    from iodyno.store.manifest import read_header

    given = ctx.params.get("campaigns") or ctx.params.get("campaign") or ctx.args
    # While the value of an option is being typed, the arguments before it are not yet taken as such.
    for folder in [given] if isinstance(given, (str, Path)) else reversed(given):
        try:
            return read_header(Path(str(folder)))
        except IodynoError:
            continue
    return {}


def _written(header: Mapping[str, Any]) -> Sequence[str]:
    """The points of a campaign as they are written, from its header alone: a shell waits for it."""
    experiment = header.get("experiment") or {}
    workload = workload_of_stored(experiment.get("workload") or {})
    factors = [f["name"] for f in experiment.get("factors") or () if len(set(map(str, f["levels"]))) > 1]
    found = []
    for point in (header.get("design") or {}).get("points") or ():
        levels = {name: level for name, level in point["levels"].items() if name in factors or not factors}
        shown = []
        for name, level in levels.items():
            parameter = parameter_of(workload, name)
            shown.append(f"{name}={parameter.show(level) if parameter else level}")
        found.append(",".join(shown))
    return found
