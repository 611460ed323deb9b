"""`iodyno tcp`: rate and cost of TCP, right now and without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iodyno import quick
from iodyno.cli import right_now
from iodyno.cli.form import verbose_option
from iodyno.cli.prove import proof_options
from iodyno.cli.right_now import level
from iodyno.core.expectation import Expectation
from iodyno.core.experiment import SensorLevel
from iodyno.core.workload import STREAM
from iodyno.report.form import Form


@click.command(name="tcp")
@level(STREAM, "--connections", "connections", "1")
@level(STREAM, "--size", "size")
@level(STREAM, "--direction", "direction", "forward")
@right_now.clients
@right_now.seconds
@level(STREAM, "--window", "window")
@level(STREAM, "--send-buffer", "send_buffer")
@level(STREAM, "--receive-buffer", "receive_buffer")
@level(STREAM, "--receive-low-water", "receive_low_water")
@level(STREAM, "--transport", "transport", "tcp")
@level(STREAM, "--engine", "engine")
@level(STREAM, "--syscalls", "syscalls")
@level(STREAM, "--batch", "batch")
@level(STREAM, "--receive", "receive")
@click.option("--nagle/--no-nagle", default=True, show_default=True, help="Nagle's algorithm.")
@level(STREAM, "--congestion-control", "congestion_control")
@right_now.socket_numbers(STREAM)
@level(STREAM, "--link-rate", "link_rate")
@level(STREAM, "--link-queue", "link_queue")
@level(STREAM, "--link-delay", "link_delay")
@right_now.repeat
@verbose_option
@right_now.gate
@proof_options
@right_now.common
def command(
    seconds: float,
    nagle: bool,
    to: str | None,
    clients: int,
    repeat: int | None,
    prove: str | None,
    profile: bool,
    sensors: SensorLevel,
    background_window: str | None,
    form: Form,
    verbose: bool,
    expect: tuple[Expectation, ...],
    junit: Path | None,
    into: Path,
    **levels: Any,
) -> None:
    """Measure rate and cost of TCP right now, without a file.

    Sends from this machine to HOST; without it, between two network namespaces of this
    machine (as root) or over loopback (otherwise). Without --size, messages have 64 KiB, over UDP 1400 bytes;
    without --engine, it is epoll; of 3 to 5 connections with 64 KiB and more round_robin; and threads where those
    cannot be. Prints
    rate and cost with their 95 % intervals: over the trials with --repeat, else over the intervals of the one trial.
    Names what limits the rate; with --prove it changes that a little in extra trials, and says by how much the rate
    follows. What was measured stays in a campaign's folder, with the experiment file that runs it again.

    \b
    Examples:
      iodyno tcp --connections 4 --size 64KiB --seconds 5
      iodyno tcp --connections 32 --size 1KiB --engine epoll --repeat 5
      iodyno tcp --receive-buffer 16KiB --prove
      iodyno tcp --transport unix --connections 4
      iodyno tcp --clients 4 --connections 8
      iodyno tcp --size 1KiB --syscalls batch --receive discard
      iodyno tcp --to me@server --connections 8 --window 256k --json
    """
    written = {name: value for name, value in levels.items() if value is not None}
    if "window" in written and ("send_buffer" in written or "receive_buffer" in written):
        raise click.UsageError(
            "--window cannot be used with a buffer: expected --window alone, or the two buffers"
        )
    if not nagle or written.get("transport") in (None, "tcp", "tls"):
        written["nagle"] = nagle  # it is on where it is not said, and other transports have none
    keys = quick.tcp(
        written,
        seconds=seconds,
        to=to,
        clients=clients,
        repeat=repeat,
        prove=prove,
        profile=profile,
        sensors=sensors,
        background_window=background_window,
    )
    right_now.measure_and_show(keys, into, form=form, verbose=verbose, expect=expect, junit=junit)
