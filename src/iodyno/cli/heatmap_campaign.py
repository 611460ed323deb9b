"""`iodyno heatmap CAMPAIGN`: maps from the histograms that a campaign's trials recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from iodyno.cli.campaign_argument import tell_lost
from iodyno.cli.heatmap_output import Map, Output, show_difference, show_maps
from iodyno.cli.heatmap_recording import is_recording, recorded, sizes
from iodyno.cli.point_choice import choose_point
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.grid import Grid
from iodyno.core.invalid import invalid

if TYPE_CHECKING:
    from iodyno.analysis.heat_map.stored import Range
    from iodyno.analysis.operation_times import OperationTimes
    from iodyno.analysis.results import CampaignSummary
    from iodyno.analysis.trial import Trial

COLUMNS_MOST = 200
"""Intervals are joined above it, as the reducer of traces does."""
MAPS_MOST = 12
"""Small multiples on one picture (chosen: a screen or two)."""
Titled: TypeAlias = "tuple[str, OperationTimes]"


def show_campaign(folder: Path, options: dict[str, Any], output: Output) -> None:
    """Draws the maps of the campaign in `folder` that the options choose."""
    if options["column"] is not None:
        raise ExperimentError(
            "a campaign's columns are its record intervals",
            where="--column",
            advice="record: interval of the experiment",
        )
    other = options["minus"]
    if options["quantity"] == "size" and is_recording(folder):
        found = sizes(folder, options, *_ends(options), most=COLUMNS_MOST, maps_most=MAPS_MOST)
        maps = [Map(_title(output, title, len(found)), grid) for title, grid in found]
        show_maps(maps, output)
        return
    one = _choose(folder, options, single=other is not None)
    shown = _range(options)
    if other is None:
        edges = _edges(one, shown, options)
        maps = [
            Map(_title(output, title, len(one)), _grid(times, edges, shown, options)) for title, times in one
        ]
        show_maps(maps, output)
        return
    if not Path(other).is_dir():
        raise ExperimentError("is a trace: no second campaign", where="--minus", advice="--minus CAMPAIGN")
    two = _choose(Path(other), options, single=True)
    edges = _edges([one[0], two[0]], shown, options)
    grids = [_grid(times, edges, shown, options) for _, times in (one[0], two[0])]
    names = [
        f"{Path(place).resolve().name} {title}"
        for place, (title, _) in zip((folder, other), (one[0], two[0]), strict=True)
    ]
    second = replace(grids[1], begin_ns=grids[0].begin_ns)
    if abs(second.column_ns - grids[0].column_ns) > 0.01 * second.column_ns:
        raise ExperimentError(
            f"its intervals are {second.column_ns / 1e9:.4g} s long, those of the first {grids[0].column_ns / 1e9:.4g} s",
            where=str(other),
            advice="compare campaigns of one record interval",
        )
    show_difference(
        Map(names[0], grids[0]), Map(names[1], replace(second, column_ns=grids[0].column_ns)), output
    )


def _ends(options: dict[str, Any]) -> tuple[float | None, float | None]:
    return _seconds(options["begin"], "--from"), _seconds(options["end"], "--to")


def _edges(each: Sequence[Titled], shown: Range, options: dict[str, Any]) -> tuple[int, ...]:
    """Edges of rows for what is shown of them; where that is nothing, for all there is, so that it can be said."""
    from iodyno.analysis.heat_map.stored import edges_for, within

    begin, end = _ends(options)
    times = [within(times, begin, end) for _, times in each]
    return edges_for(times, shown) or edges_for([times for _, times in each], shown)


def _grid(times: OperationTimes, edges: Sequence[int], shown: Range, options: dict[str, Any]) -> Grid:
    from iodyno.analysis.heat_map.stored import grid_of

    begin, end = _ends(options)
    return grid_of(times, edges, shown.scale, begin_s=begin, end_s=end)


def _title(output: Output, title: str, several: int) -> str:
    given = output.look.title
    return title if not given else given if several == 1 else f"{given}: {title}"


def _choose(folder: Path, options: dict[str, Any], *, single: bool) -> list[Titled]:
    """The operations asked for, with their titles; one only where a difference is drawn."""
    if is_recording(folder):
        begin, end = _ends(options)
        return recorded(folder, options, begin, end, most=COLUMNS_MOST, maps_most=MAPS_MOST, single=single)
    for option, of in (
        ("device", "a trace or a recording"),
        ("quantity", "a trace or a recording"),
        ("syscall", "a recording"),
    ):
        if options[option] is not None:
            raise ExperimentError(
                f"is an option of {of}, and this is a campaign",
                where=f"--{option}",
                advice=f"leave --{option} out",
            )
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.operation_times import joined
    from iodyno.analysis.summary import analyse

    dataset = read_dataset(folder)
    # Points and their names: no row is read for them.
    named = [replace(t, status="skipped", hosts={}, clients={}, bystanders={}) for t in dataset.trials]
    summary = analyse(replace(dataset, trials=named))
    trials = [trial for trial in dataset.trials if trial.finished]
    if not trials:
        raise StoreError(
            "no trial is finished", where=str(folder), advice="iodyno run --resume goes on with it"
        )
    trials = _of_trial(trials, options["trial"], folder)
    groups = _groups(summary, trials, options, single=single)
    if options["trial"] is None:
        point = options["point"] and choose_point(summary, options["point"], "--point").id
        tell_lost(folder, [trial for trial in dataset.trials if point in (None, trial.point)])
    found: list[Titled] = []
    for name, members in groups:
        with dataset.of_sensors():
            each = _operations(members, options, folder)
        for times in each:
            clock = "service time" if times.clock == "service" else "response time"
            beside = f" of the {times.beside}" if times.beside else ""
            found.append((f"{name}: {times.operation}{beside}, {clock}", joined(times, COLUMNS_MOST)))
    if single and len(found) > 1:
        found = [max(found, key=lambda each: each[1].count)]
    if len(found) > MAPS_MOST:
        raise ExperimentError(
            f"these are {len(found)} maps, and more than {MAPS_MOST} are no picture",
            where=str(folder),
            advice=f"--operation, --clock or --point, such as --point '{summary.name_of(summary.points[0])}'",
        )
    return found


def _of_trial(trials: Sequence[Trial], wanted: str | None, folder: Path) -> list[Trial]:
    if wanted is None:
        return list(trials)
    found = [trial for trial in trials if trial.name == wanted]
    if not found:
        names = ", ".join(trial.name for trial in trials[:4])
        raise ExperimentError(
            f"unknown trial {wanted!r}: finished trials are {names}{' ...' if len(trials) > 4 else ''}",
            where="--trial",
            advice=trials[0].name,
        )
    return found


def _groups(
    summary: CampaignSummary, trials: Sequence[Trial], options: dict[str, Any], *, single: bool
) -> list[tuple[str, list[Trial]]]:
    """Trials that are drawn together, with a name: where nobody chose, those of each point, if a picture has room for them."""
    if options["point"] is not None:
        chosen = choose_point(summary, options["point"], "--point")
        trials = [trial for trial in trials if trial.point == chosen.id]
    points = {point.id: point for point in summary.points}
    by = options["by"]
    if by is not None:
        names = [factor.name for factor in summary.factors]
        if by not in names:
            raise ExperimentError(
                f"unknown factor {by!r} of this campaign: expected {', '.join(names) or 'none'}",
                where="--by",
                advice=f"--by {names[0]}" if names else "leave --by out",
            )
        grouped: dict[Any, list[Trial]] = {}
        for trial in trials:
            if trial.point in points:
                grouped.setdefault(points[trial.point].levels[by], []).append(trial)
        # As the experiment has its levels.
        levels = next(factor.levels for factor in summary.factors if factor.name == by)
        return [
            (f"{by}={points[grouped[level][0].point].labels.get(by, level)}", grouped[level])
            for level in levels
            if level in grouped
        ]
    if options["trial"] is not None:
        return [(f"trial {trials[0].name}", list(trials))] if trials else []
    by_point: dict[str, list[Trial]] = {}
    for trial in trials:
        by_point.setdefault(trial.point, []).append(trial)
    if len(by_point) > (1 if single else MAPS_MOST):
        example = summary.name_of(summary.points[0])
        varying = [factor.name for factor in summary.factors if factor.varies]
        raise ExperimentError(
            f"the campaign has {len(by_point)} points: which one?",
            where="--point",
            advice=f"--point '{example}'" + (f", or --by {varying[0]}" if varying else ""),
        )
    # In the order of the design, not that in which they ran.
    ordered = sorted(
        by_point, key=lambda point: list(points).index(point) if point in points else len(points)
    )
    return [
        (summary.name_of(points[point]) if point in points else point, by_point[point]) for point in ordered
    ]


def _operations(trials: Sequence[Trial], options: dict[str, Any], folder: Path) -> list[OperationTimes]:
    from iodyno.analysis.operation_times import of_all, times_of

    by_key = {times.key: times for times in of_all(map(times_of, trials))}
    if not by_key:
        raise StoreError("its trials recorded no operation", where=str(folder), advice="another campaign")
    operation, clock = options["operation"], options["clock"]
    known = sorted({key[1] for key in by_key})
    if operation is not None and operation not in known:
        raise ExperimentError(
            invalid(operation, ", ".join(known)),
            where="--operation",
            advice=f"--operation {known[0]}",
        )
    kept = {
        key: each
        for key, each in by_key.items()
        if (operation is None or key[1] == operation) and (clock is None or key[2] == clock)
    }
    if not kept:
        raise ExperimentError(
            f"no operation has the {clock} clock: it belongs to an open loop",
            where="--clock",
            advice="--clock service",
        )
    return list(kept.values())


def _range(options: dict[str, Any]) -> Range:
    from iodyno.analysis.heat_map.stored import Range

    low, high = (
        _nanoseconds(options[name], option) for name, option in (("low", "--min"), ("high", "--max"))
    )
    if low is not None and high is not None and low >= high:
        raise ExperimentError("is not above --min", where="--max", advice="--min 10us --max 2ms")
    return Range(low, high, options["rows"] or Range().rows, options["scale"] or "log")


def _nanoseconds(written: str | None, where: str) -> float | None:
    """A time with its unit; a number alone is one of nanoseconds, as the store has them."""
    if written is None:
        return None
    try:
        return float(
            quantity.parse_exact("duration", written if not written.strip().isdecimal() else f"{written}ns")
        )
    except ValueError as error:
        raise ExperimentError(str(error), where=where, advice=f"{where} 2ms") from None


def _seconds(written: str | None, where: str) -> float | None:
    if written is None:
        return None
    try:
        return float(written)
    except ValueError:
        raise ExperimentError(
            invalid(written, "seconds after the begin of the trial"),
            where=where,
            advice=f"{where} 2.5",
        ) from None
