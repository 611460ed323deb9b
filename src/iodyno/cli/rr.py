"""`iodyno rr`: requests and answers, right now and without a file."""

from __future__ import annotations

from collections.abc import Mapping
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
from iodyno.core.submission import CLIENTS, SERVERS, Submission
from iodyno.core.workload import REQUEST_RESPONSE
from iodyno.report.form import Form

_OF_BLOCKS = 3
"""Version of the packet rings whose frames lie in blocks."""


@click.command(name="rr")
@level(REQUEST_RESPONSE, "--transport", "transport", "tcp")
@level(REQUEST_RESPONSE, "--connections", "connections")
@level(REQUEST_RESPONSE, "--size", "size")
@level(REQUEST_RESPONSE, "--response-size", "response_size", "64")
@right_now.clients
@right_now.seconds
@level(REQUEST_RESPONSE, "--queue-depth", "queue_depth")
@level(REQUEST_RESPONSE, "--sizes", "sizes")
@click.option(
    "--multiplexed",
    is_flag=True,
    help="Requests show identifiers, and answers come in any order (with --queue-depth).",
)
@level(REQUEST_RESPONSE, "--engine", "engine")
@level(REQUEST_RESPONSE, "--client-engine", "client_engine")
@level(REQUEST_RESPONSE, "--server-engine", "server_engine")
@level(REQUEST_RESPONSE, "--batch", "batch")
@level(REQUEST_RESPONSE, "--block-packets", "block_packets")
@level(REQUEST_RESPONSE, "--block-timeout", "block_timeout")
@right_now.socket_numbers(REQUEST_RESPONSE)
@click.option(
    "--connect", is_flag=True, help="Open a connection for each request, and close it after the answer."
)
@level(REQUEST_RESPONSE, "--rate", "rate")
@level(REQUEST_RESPONSE, "--arrivals", "arrivals")
@level(REQUEST_RESPONSE, "--busy-poll", "busy_poll")
@level(REQUEST_RESPONSE, "--busy-wait", "busy_wait")
@level(REQUEST_RESPONSE, "--server-compute", "server_compute")
@right_now.repeat
@verbose_option
@right_now.gate
@proof_options
@right_now.common
def command(
    seconds: float,
    connect: bool,
    multiplexed: bool,
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
    """Measure requests and answers right now, without a file.

    Each flow sends a request and waits for the whole answer, then sends the next (a closed loop). With --rate, requests are
    due at their own times whether or not answers have come (an open loop), and the latency from schedule counts from when a
    request was due. Without --connections there is 1, and 64 with --rate; without --size, requests have 64 bytes; without
    --engine, it is threads for 1 or 2 connections of TCP that wait for their answers, io_uring for 6 and more where both
    ends are here and the kernel lets it, and epoll else.
    Prints rate, times and cost with their 95 % intervals, and names what limits the rate.

    \b
    Examples:
      iodyno rr --connections 16
      iodyno rr --transport udp --connections 64 --size 512B \\
        --response-size 1024B --server-engine recvmmsg
      iodyno rr --transport udp --connections 64 --client-engine packet_v2 \\
        --server-engine io_uring
      iodyno rr --queue-depth 16 --multiplexed --sizes 'mix(64B: 7, 1500B: 1)'
      iodyno rr --transport tcp --rate 20000/s --arrivals poisson --seconds 10 \\
        --json
      iodyno rr --connect --connections 4 --to me@server
    """
    written = {name: value for name, value in levels.items() if value is not None}
    if "sizes" in written and "size" in written:
        raise click.UsageError("--sizes cannot be used with --size")
    if (idle := without_effect(written)) is not None:
        raise click.UsageError(idle)
    if multiplexed:
        written["multiplexed"] = True
    keys = quick.rr(
        written,
        connect=connect,
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


def without_effect(levels: Mapping[str, str]) -> str | None:
    """Return what is wrong where an option could change nothing: neither end makes its calls in the way that it is for.

    >>> without_effect({"batch": "8", "transport": "tcp", "engine": "epoll"})
    '--batch can only be used with calls that take several messages, such as --transport udp --server-engine recvmmsg'
    >>> without_effect({"batch": "8", "transport": "udp", "server_engine": "recvmmsg"})
    """
    both = Submission("", levels.get("engine", "threads"))
    ends = [
        CLIENTS.get(levels.get("client_engine", ""), both),
        SERVERS.get(levels.get("server_engine", ""), both),
    ]
    if "batch" in levels and not any(end.takes_several(levels["transport"]) for end in ends):
        return (
            "--batch can only be used with calls that take several messages, such as --transport "
            "udp --server-engine recvmmsg"
        )
    blocks = [f"--{name.replace('_', '-')}" for name in ("block_packets", "block_timeout") if name in levels]
    if blocks and not any(end.ring == _OF_BLOCKS for end in ends):
        return (
            f"{blocks[0]} can only be used with --transport udp --server-engine packet_v3, whose "
            "ring has blocks"
        )
    return None
