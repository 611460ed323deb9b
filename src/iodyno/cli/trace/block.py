"""`iodyno trace block`: every operation of the block devices of this machine, a line each."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from iodyno.cli.number import Seconds
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.invalid import invalid


@click.command(name="block")
@click.option("-o", "--output", "written", metavar="FILE", help="Write to a file (default: standard output).")
@click.option("--seconds", type=Seconds(min=0, min_open=True), help="End after so long (default: at Ctrl-C).")
@click.option("--device", metavar="NAME", help="Only this device, such as sda (default: all).")
@click.option(
    "--least", "least_us", type=click.IntRange(min=0), default=0, metavar="US",
    help="Only operations that take so many microseconds or more.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object of what was traced (with -o).")
def command(
    written: str | None, seconds: float | None, device: str | None, least_us: int, as_json: bool
) -> None:
    """Trace every operation of the block devices: when it was queued, how long it took, who began it.

    Columns are iosnoop's: STIME and TIME (queued, complete; microseconds of the monotonic clock), DELTA between them,
    DTIME on the device, BLOCK in sectors of 512 bytes (-1: it has no place, as a flush), SIZE in bytes. Programs in the
    kernel write down each operation (as root); nothing is left when the trace ends. Operations that could not be told are
    counted and said.

    \b
    Examples:
      iodyno trace block --seconds 5 -o block.trace &&
        iodyno heatmap block.trace -o block.svg
      iodyno trace block --device sda --least 10000   # slow ones only
    """
    from iodyno.session.block_trace import trace_block

    if device is not None and not Path("/sys/class/block", device).exists():
        known = sorted(path.name for path in Path("/sys/block").iterdir())
        raise ExperimentError(invalid(device, ", ".join(known) or "no device is there"), where="--device")
    if as_json and written is None:
        raise ExperimentError("the trace itself is on standard output", where="--json", advice="-o FILE")
    try:
        opened = nullcontext(sys.stdout.buffer) if written is None else Path(written).open("wb")  # noqa: SIM115
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror}", where=str(written)) from None
    with opened as out:
        traced = trace_block(out, seconds=seconds, device=device, least_us=least_us)
    if as_json:
        click.echo(json.dumps(asdict(traced)))
        return
    lost = f", {traced.no_room} more had no room" if traced.no_room else ""
    lost += f", the end of {traced.unseen} more was not seen" if traced.unseen else ""
    click.echo(f"iodyno: {traced.operations} operations{lost}", err=True)
