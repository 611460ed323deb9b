"""`iodyno model mm1k`: one server, finite buffers."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mmck import mm1k
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations

COUNTED = "Buffers count all in the system: one in service keeps its buffer until it is done. Times are of those not lost."


@click.command(name="mm1k")
@options.buffers
@options.service()
@options.open_load
@options.percentiles
@options.as_json
def command(
    buffers: int | None,
    waiting_room: int | None,
    service_s: float,
    utilisations: Any,
    rates: Any,
    percents: Any,
    as_json: bool,
) -> None:
    """One server with finite buffers: what finds them full is lost. Poisson arrivals, exponential service.

    --buffers is the K of M/M/1/K and counts what is in service too; --waiting-room counts only what waits (K - 1).
    `offered` is the load before, `utilisation` after the loss.

    \b
    Examples:
      iodyno model mm1k --buffers 8 --service 2.5us --utilisation .9
      iodyno model mm1k --waiting-room 31 --service 2.5us \\
        --utilisation 0.5:1.2:.1 --json
    """
    quantiles = options.quantiles(percents)
    capacity = options.capacity_of(buffers, waiting_room, 1)
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([mm1k(load, service_s, capacity) for load in loads], quantiles, as_json, notes=[COUNTED])
