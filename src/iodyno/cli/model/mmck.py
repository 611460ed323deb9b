"""`iodyno model mmck`: several servers, finite buffers."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mmck import mmck
from iodyno.cli.model import options
from iodyno.cli.model.mm1k import COUNTED
from iodyno.cli.model.rows import show_stations


@click.command(name="mmck")
@options.servers
@options.buffers
@options.service()
@options.open_load
@options.percentiles
@options.as_json
def command(
    servers: int,
    buffers: int | None,
    waiting_room: int | None,
    service_s: float,
    utilisations: Any,
    rates: Any,
    percents: Any,
    as_json: bool,
) -> None:
    """Several servers at one queue with finite buffers: what finds them full is lost.

    With --waiting-room 0 nobody waits, and the loss is Erlang's B.

    \b
    Examples:
      iodyno model mmck --servers 8 --buffers 64 --service 127us \\
        --utilisation .6:1.2:.1
      iodyno model mmck --servers 512 --waiting-room 0 --service 1ms \\
        --rate 480k/s --json
    """
    quantiles = options.quantiles(percents)
    capacity = options.capacity_of(buffers, waiting_room, servers)
    loads = options.arrivals_per_s(utilisations, rates, service_s, servers)
    results = [mmck(load, service_s, servers, capacity) for load in loads]
    show_stations(results, quantiles, as_json, notes=[COUNTED])
