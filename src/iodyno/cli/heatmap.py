"""`iodyno heatmap`: what averages hide, of a trace that a person brings or of a campaign's trials."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.number import NumberRange
from iodyno.cli.workers import ProgressLine, cluster_option, workers
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid

if TYPE_CHECKING:
    from iodyno.cli.heatmap_output import Output
    from iodyno.cluster import Each
    from iodyno.core.grid import Grid

TIME_UNITS = ("s", "ms", "us", "ns")
FORM_OPTION = "--format"
FORMS = (
    *(
        "pcap",
        "hdr-log",
        "iosnoop",
        "biosnoop",
        "blkparse",
        "perf-trace",
        "tcpdump",
        "strace",
        "perf-script",
        "fio",
        "biolatency",
        "fio-histograms",
        "quantize",
    ),
    *("json-lines", "csv", "two-column"),
)
"""Forms of traces that `tools/heat` reads (`FORMS` in `tools/heat/src/formats/mod.rs`)."""
_CAMPAIGN_ONLY = {
    "point": "--point", "trial": "--trial", "clock": "--clock", "by": "--by", "syscall": "--syscall",
}  # fmt: skip
_TRACE_ONLY = {
    "form": FORM_OPTION, "time_unit": "--time-unit", "value_unit": "--value-unit", "time_column": "--time-column",
    "value_column": "--value-column", "quantity": "--quantity", "process": "--process", "device": "--device",
    "sub_second": "--sub-second", "strict": "--strict", "truncated": "--truncated", "outliers": "--outliers",
    "row_step": "--row-step", "high_quantile": "--max-quantile", "cluster": "--cluster",
}  # fmt: skip


@click.command(name="heatmap")
@click.argument("sources", nargs=-1, metavar="TRACE...|-|CAMPAIGN")
@click.option(
    "-o", "--output", "written", metavar="FILE", help="Write a .svg, .html or .png (default: the terminal)."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object: every count, and what was found."
)
@click.option("--title", help="Title (default: the quantity and the trace).")
@click.option("--label", help="Name of the value axis (default: the quantity).")
@click.option(
    "--time-unit", type=click.Choice(TIME_UNITS), help="Unit of the trace's times (default: its format's)."
)
@click.option(
    "--value-unit", metavar="UNIT", help="Unit of the trace's values: us, ms, ns, s, KiB, bytes, count, ..."
)
@click.option("--time-column", metavar="COLUMN", help="Column of the time: its number from 1, or its name.")
@click.option("--value-column", metavar="COLUMN", help="Column of the value.")
@click.option(
    FORM_OPTION,
    "form",
    metavar="FORM",
    help=f"How to read the trace (default: recognised by its content): {', '.join(FORMS)}.",
)
@click.option(
    "--quantity",
    metavar="NAME",
    help="What the rows are: latency, size, offset, queue-depth, utilisation, ...",
)
@click.option("--operation", metavar="NAME", help="Only this operation: read, write, or a word of the trace.")
@click.option("--process", metavar="NAME", help="Only this process, by name or number.")
@click.option("--device", metavar="NAME", help="Only this device, of a trace or a recording.")
@click.option("--syscall", metavar="KIND", help="Of a recording: system calls that read, write, sync, ...")
@click.option(
    "--min", "low", metavar="VALUE", help="Lower edge of the rows, in the value unit, or with its own: 50us."
)
@click.option(
    "--max",
    "high",
    metavar="VALUE",
    help="Upper edge of the rows (default: round, above the 99.9th percentile).",
)
@click.option(
    "--max-quantile",
    "high_quantile",
    type=NumberRange(0, 1, min_open=True),
    help="Share of values that the rows reach.",
)
@click.option("--rows", type=click.IntRange(1, 1000), help="How many rows (default: 50).")
@click.option("--row-step", metavar="VALUE", help="Height of a row, instead of how many.")
@click.option(
    "--scale",
    type=click.Choice(["linear", "log"]),
    help="Rows in equal steps or in equal ratios (default: steps; ratios where most values would be in one row).",
)
@click.option(
    "--column", "--seconds-per-column", "column", metavar="SECONDS", help="Width of a column: 1, 0.1, 100ms."
)
@click.option(
    "--max-columns", type=click.IntRange(1, 100_000), help="Columns at most; one error where there are more."
)
@click.option(
    "--from",
    "begin",
    metavar="SECONDS",
    help="Only events from then on, after the first; @SECONDS: on the trace's clock.",
)
@click.option("--to", "end", metavar="SECONDS", help="Only events before then.")
@click.option("--sub-second", is_flag=True, help="Rows are offsets within the second, columns whole seconds.")
@click.option("--strict", is_flag=True, help="End at the first line that cannot be read.")
@click.option("--truncated", is_flag=True, help="A trace that breaks off is no error.")
@click.option(
    "--colour",
    "--color",
    "colour",
    type=click.Choice(["log", "linear", "rank"]),
    default="log",
    show_default=True,
    help="How counts become colours.",
)
@click.option(
    "--lines",
    default="p50,p99",
    show_default=True,
    metavar="NAMES",
    help="Lines that are on at first: p50, p99, p99.9, max; none.",
)
@click.option("--grid", is_flag=True, help="Lines at the ticks.")
@click.option("--box-size", type=NumberRange(1, 64), help="Side of a cell, instead of a picture 900 wide.")
@click.option(
    "--cumulative", is_flag=True, help="Print the percentiles from 50 to 99.9999, with the events above each."
)
@click.option(
    "--outliers", metavar="LOW[:HIGH]", help="Print the trace's own lines with values in this region instead."
)
@click.option("--limit", type=click.IntRange(min=1), help="Lines that --outliers prints at most.")
@click.option("--minus", metavar="TRACE|CAMPAIGN", help="Draw the difference: the first minus this one.")
@click.option("--point", help="Of a campaign: the point, such as connections=32,size=1KiB; or p07.")
@click.option("--trial", help="Of a campaign: one trial (default: all of the point together).")
@click.option(
    "--clock",
    type=click.Choice(["service", "response"]),
    help="Of a campaign: by this clock (default: every one).",
)
@click.option("--by", metavar="FACTOR", help="Of a campaign: a map for each level of a factor.")
@cluster_option
def command(sources: tuple[str, ...], written: str | None, as_json: bool, **options: Any) -> None:
    """Draw how a quantity is distributed over time, and say what is in it.

    Reads traces of any size, plain or compressed, from files or a pipe, by content: two columns (time, value), iosnoop, biosnoop,
    blkparse, fio logs, strace, perf, pcap, HdrHistogram logs, CSV, JSON lines; or the folder of a campaign. Every event is
    accounted for: in a cell, below, above, outside of the time, or unreadable.

    \b
    Examples:
      iodyno heatmap trace.txt --time-unit us --value-unit us
      awk '{ print $2, $3 }' out.iosnoop | iodyno heatmap - --time-unit us \\
        --value-unit us --max 2000 --grid -o heat.svg
      iodyno heatmap out.iosnoop -o heat.html
      iodyno heatmap traces/*.gz --cluster local -o heat.html
      iodyno heatmap out.iosnoop --outliers 50ms --limit 20
      iodyno heatmap after.txt --minus before.txt -o difference.svg
      iodyno heatmap CAMPAIGN --operation write -o heat.png
      iodyno heatmap CAMPAIGN --by connections -o by-connections.svg
    """
    # Imported here, so that --help does not wait for it.
    from iodyno.cli.heatmap_output import Output, checked_file
    from iodyno.report.heat_map.layout import Look

    started = time.perf_counter()
    paths = _paths(sources)
    look = Look(
        title=options.pop("title") or "",
        label=options.pop("label") or "",
        box=options.pop("box_size"),
        colour_scale=options.pop("colour"),
        grid=options.pop("grid"),
        shown=_lines(options.pop("lines")),
    )
    output = Output(checked_file(written), as_json, look, options.pop("cumulative"), started)
    campaigns = [path for path in paths if _is_campaign(path)]
    if campaigns:
        if len(paths) > 1:
            raise ExperimentError(
                "a campaign is drawn alone", where=campaigns[0], advice="--minus CAMPAIGN draws a difference"
            )
        of_trace = {
            name: option for name, option in _TRACE_ONLY.items() if name not in ("device", "quantity")
        }
        _refuse(options, of_trace, "of a trace, and this is a campaign")
        from iodyno.cli.heatmap_campaign import show_campaign

        show_campaign(Path(paths[0]), options, output)
        return
    _refuse(options, _CAMPAIGN_ONLY, "of a campaign, and this is a trace")
    _show_trace(paths, options, output)


def _show_trace(paths: Sequence[str], options: dict[str, Any], output: Output) -> None:
    from iodyno.cli.heatmap_output import Map, show_difference, show_maps

    region, limit, other, place = (options.pop(name) for name in ("outliers", "limit", "minus", "cluster"))
    for name in _CAMPAIGN_ONLY:
        options.pop(name)
    if region is not None:
        if place is not None:
            raise ExperimentError("cannot be used with --outliers", where="--cluster")
        _list_outliers(paths, region, limit, options)
        return
    if limit is not None:
        raise ExperimentError("belongs to --outliers", where="--limit", advice="--outliers 50ms --limit 20")
    with nullcontext() if place is None else workers(place) as each:
        grid = _reduced(paths, dict(options), each)
        title = output.look.title or _title(grid, paths)
        if other is None:
            show_maps([Map(title, grid)], output)
            return
        if (other == "-" and "-" in paths) or _is_campaign(other):
            what = "is a campaign" if _is_campaign(other) else "standard input can be read once"
            raise ExperimentError(f"{what}: no second trace", where="--minus", advice="--minus other.txt")
        same = options | _frame_options(grid)
        second = replace(_reduced([other], same, each), begin_ns=grid.begin_ns)
    if second.edges != grid.edges:
        second = _same_edges(second, grid, other)
    names = (Path(paths[0]).name, Path(other).name)
    if names[0] == names[1]:
        names = (paths[0], other)
    show_difference(Map(names[0], grid), Map(names[1], second), replace(output, look=output.look))


def _frame_options(grid: Grid) -> dict[str, Any]:
    """The rows and columns of a grid, as options for another one."""
    suffix = {"ns": "ns", "bytes": "bytes"}.get(grid.unit, "")
    return {
        "low": f"{grid.edges[0]:.17g}{suffix}",
        "high": f"{grid.edges[-1]:.17g}{suffix}",
        "rows": grid.rows,
        "row_step": None,
        "scale": grid.scale,
        "column": grid.column_ns,
        "quantity": grid.quantity or None,
    }


def _same_edges(second: Grid, first: Grid, where: str) -> Grid:
    """With the very edges of the first, where only rounding tells them apart. Raises ExperimentError where they are others."""
    alike = second.rows == first.rows and second.unit == first.unit and second.quantity == first.quantity
    if not alike or any(
        abs(a - b) > 1e-9 * max(abs(a), abs(b)) for a, b in zip(second.edges, first.edges, strict=True)
    ):
        raise ExperimentError(
            f"it has {second.quantity or 'values'} in {second.unit or 'no unit'}, the first one {first.quantity or 'values'}"
            f" in {first.unit or 'no unit'}: nothing to subtract",
            where=where,
            advice="--quantity and --value-unit say what both are",
        )
    return replace(second, edges=first.edges)


def _reduced(paths: Sequence[str], options: dict[str, Any], each: Each | None) -> Grid:
    from iodyno.session.reduce import reduce

    column = options.pop("column")
    width_ns = column if column is None or isinstance(column, int) else _width_ns(column)
    line = ProgressLine()
    progress = line.read if line.wanted else None
    try:
        return reduce(list(paths), column_ns=width_ns, progress=progress, each=each, **options)
    finally:
        line.clear()


def _width_ns(written: str) -> int:
    """The width of a column: seconds, or a duration with its unit. Raises ExperimentError."""
    from iodyno.core.quantity import parse_exact

    try:
        text = written.strip()
        width = round(
            parse_exact("duration", f"{text}s" if text[-1:].isdigit() or text[-1:] == "." else text)
        )
        if width < 1:
            raise ValueError(invalid(written, "1 ns or more"))
    except ValueError as error:
        raise ExperimentError(
            str(error), where="--column", advice="--column 0.1, or --column 100ms"
        ) from None
    return width


def _list_outliers(paths: Sequence[str], region: str, limit: int | None, options: dict[str, Any]) -> None:
    from iodyno.session.reduce import list_region

    known = (
        "form", "time_unit", "value_unit", "time_column", "value_column", "quantity", "operation", "process", "device",
        "begin", "end",
    )  # fmt: skip
    sys.stdout.flush()
    left_out = list_region(list(paths), region, limit=limit, **{name: options[name] for name in known})
    if left_out:
        click.echo(f"iodyno: {left_out}", err=True)


def _title(grid: Grid, paths: Sequence[str]) -> str:
    from iodyno.report.heat_map.layout import default_title

    names = [Path(path).name for path in paths if path != "-"]
    return f"{default_title(grid)}{': ' + ', '.join(names) if names else ''}"


def _paths(sources: Sequence[str]) -> list[str]:
    if sources:
        return list(sources)
    if sys.stdin.isatty():
        raise ExperimentError(
            "no trace is named", where="TRACE", advice="iodyno heatmap trace.txt, or - to read standard input"
        )
    return ["-"]


def _is_campaign(path: str) -> bool:
    """Tell whether a folder is meant: a trace is a file."""
    return path != "-" and Path(path).is_dir()


def _refuse(options: dict[str, Any], names: dict[str, str], why: str) -> None:
    for name, option in names.items():
        if options.get(name) not in (None, False):
            raise ExperimentError(f"is an option {why}", where=option, advice=f"leave {option} out")


def _lines(written: str) -> tuple[str, ...]:
    from iodyno.report.heat_map.layout import OVERLAYS

    names = tuple(name.strip() for name in written.split(",") if name.strip())
    if names == ("none",):
        return ()
    wrong = [name for name in names if name not in OVERLAYS]
    if wrong:
        raise ExperimentError(
            invalid(wrong[0], f"{', '.join(OVERLAYS)}, none"),
            where="--lines",
            advice="--lines p50,max",
        )
    return names
