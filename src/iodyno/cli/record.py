"""`iodyno record`: what a host does, second by second, without a load."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.cli.form import format_option, show
from iodyno.cli.stderr import forgiven, to_stderr
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError, Interrupted, StoreError
from iodyno.core.experiment import SensorLevel
from iodyno.core.invalid import invalid
from iodyno.report.form import Form, Shown

if TYPE_CHECKING:
    from iodyno.campaign.recording import Progress, RecordingSpec
    from iodyno.core.experiment import HostSpec

_LEAST_EVERY_NS = 100_000_000
"""Chosen: below it the sensors take more of a CPU than a recorder may."""


@click.command(name="record")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    required=True,
    help="Folder of the recording; one that is there goes on.",
)
@click.option("--every", default="1s", show_default=True, metavar="DURATION", help="Length of an interval.")
@click.option("--for", "length", metavar="DURATION", help="End after so long.  [default: at Ctrl-C]")
@click.option(
    "--keep",
    default="1GiB",
    show_default=True,
    metavar="SIZE|DURATION",
    help="Keep so much, or go back so far: the oldest segment goes.",
)
@click.option(
    "--segment", default="10min", show_default=True, metavar="DURATION", help="Length of a segment, at most."
)
@click.option("--on", "to", metavar="[USER@]HOST", help="The host, by ssh.  [default: this machine]")
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="NAME",
    help="Show this device, such as sda; all are recorded. May be given several times.",
)
@click.option(
    "--sensors",
    type=click.Choice(["light", "full"]),
    default="light",
    show_default=True,
    help="full: with exact CPU time, which costs each switch of tasks.",
)
@click.option(
    "--syscalls", is_flag=True, help="System calls that read, write, sync, ... too: costs each call."
)
@format_option()
def command(
    into: Path,
    every: str,
    length: str | None,
    keep: str,
    segment: str,
    to: str | None,
    devices: tuple[str, ...],
    sensors: SensorLevel,
    syscalls: bool,
    form: Form,
) -> None:
    """Record what a host does, without a load.

    Programs in the kernel count each operation of every block device by time, size and kind (as root); beside them stand
    CPU time, memory, pressure, and the counters of disks and network. The folder is a campaign whose trials are segments:
    heatmap, report and watch read it, while it grows too. Ctrl-C ends it. What a recorder that was killed left of its last
    segment is put away when it goes on, or by --for 0s.

    \b
    Examples:
      iodyno record --into recording
      iodyno record --into recording --for 24h --keep 2GiB
      iodyno record --on root@server --into server --keep 168h
      iodyno heatmap recording --operation read
      iodyno record --into recording --syscalls
      iodyno heatmap recording --syscall write
    """
    # Imported here: slow, and not needed for `--help`.
    from iodyno.campaign.recording import Progress
    from iodyno.report import numbers

    spec = replace(_spec(every, length, keep, segment), devices=devices, sensors=sensors, syscalls=syscalls)
    host = _host(to)
    if to is None:
        _check_devices(devices)
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot be made: {error.strerror}", where=str(into), advice="name another folder"
        ) from error
    progress = Progress()
    _run(spec, host, into, progress)
    values = {"folder": str(into), **vars(progress)}
    size = numbers.quantity(progress.stored_bytes, "B")
    recovered = f", {progress.recovered} of a recorder that was killed" if progress.recovered else ""
    removed = f", {progress.removed} removed" if progress.removed else ""
    said = f"recorded {quantity.counted(progress.intervals, 'interval')} in {quantity.counted(progress.segments, 'segment')}"
    show(
        Shown(lambda: [f"{said}{recovered}{removed}; {into} has {size}"], lambda: values, lambda: [values]),
        form,
    )


def _run(spec: RecordingSpec, host: HostSpec, into: Path, progress: Progress) -> None:
    """Records until the end or a signal. Raises Interrupted where a signal came twice."""
    import asyncio

    from iodyno.campaign.recording import record
    from iodyno.cli.signals import stopped_by_signals

    signals: list[int] = []

    async def until_stopped() -> None:
        nonlocal signals
        task = asyncio.current_task()
        assert task is not None
        line = asyncio.create_task(_show(progress)) if sys.stderr.isatty() else None
        try:
            with stopped_by_signals(task) as signals:
                await record(spec, host, into, progress, _tell)
        finally:
            if line is not None:
                line.cancel()

    try:
        asyncio.run(until_stopped())
    except asyncio.CancelledError:
        if not signals:
            raise  # No signal came: this is a defect, and no user has stopped it.
    except KeyboardInterrupt:
        raise Interrupted("stopped; what was recorded is kept", where=str(into)) from None


def _tell(text: str) -> None:
    _clear()
    to_stderr(f"iodyno: {text}")


async def _show(progress: Progress) -> None:
    """A line on the terminal that says how far it is, once a second."""
    import asyncio

    from iodyno.report import numbers

    began_s = time.monotonic()
    try:
        while True:
            size = numbers.quantity(progress.stored_bytes, "B")
            text = f"recording for {time.monotonic() - began_s:.0f} s: {progress.segments} segments, {size}; Ctrl-C ends it"
            with forgiven():
                click.echo(f"\r{text:<70}", nl=False, err=True)
            await asyncio.sleep(1)
    finally:
        _clear()


def _clear() -> None:
    if sys.stderr.isatty():
        with forgiven():
            click.echo("\r" + " " * 78 + "\r", nl=False, err=True)


def _spec(every: str, length: str | None, keep: str, segment: str) -> RecordingSpec:
    """Read the options of lengths. Raises ExperimentError."""
    from iodyno.campaign.recording import RecordingSpec

    every_ns, segment_ns = _duration(every, "--every"), _duration(segment, "--segment")
    if every_ns < _LEAST_EVERY_NS:
        raise ExperimentError(invalid(every, "100ms or more"), where="--every", advice="--every 1s")
    if segment_ns < every_ns:
        raise ExperimentError(invalid(segment, f"--every ({every}) or more"), where="--segment")
    keep_bytes = keep_ns = None
    try:
        keep_bytes = quantity.parse("size", keep)
    except ValueError:
        try:
            keep_ns = quantity.parse("duration", keep)
        except ValueError:
            allowed = "a size such as 1GiB, or a duration such as 168h"
            raise ExperimentError(invalid(keep, allowed), where="--keep", advice="--keep 1GiB") from None
    length_ns = None if length is None else _duration(length, "--for")
    return RecordingSpec(every_ns, segment_ns, length_ns, keep_bytes, keep_ns)


def _duration(written: str, option: str) -> int:
    try:
        return quantity.parse("duration", written)
    except ValueError as error:
        raise ExperimentError(str(error), where=option, advice=f"{option} 10s") from None


def _host(to: str | None) -> HostSpec:
    """The host that `--on` names. Raises ExperimentError."""
    from iodyno import quick
    from iodyno.formats.experiment_file import experiment_text, parse_experiment

    levels = {"queue_depth": "1", "block": "4KiB", "target": "null"}
    keys = quick.disk(levels, seconds=1, to=to)
    found = parse_experiment(experiment_text(keys), file="iodyno record", environment={})
    return replace(next(iter(found.hosts.values())), name="host")


def _check_devices(devices: tuple[str, ...]) -> None:
    """Raises ExperimentError for one that this machine has not got."""
    for device in devices:
        if not Path("/sys/class/block", device).exists():
            known = ", ".join(sorted(path.name for path in Path("/sys/block").iterdir()))
            raise ExperimentError(invalid(device, known or "no device is there"), where="--device")
