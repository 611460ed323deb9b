"""`iodyno model md1k`: one server of constant service, finite buffers."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.md1 import md1k
from iodyno.cli.model import options
from iodyno.cli.model.mm1k import COUNTED
from iodyno.cli.model.rows import show_stations


@click.command(name="md1k")
@options.buffers
@options.service("Constant service time, such as 2.5us.")
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
    """One server of constant service with finite buffers: what finds them full is lost. Poisson arrivals.

    A port with frames of one size; a token bucket of one frame with a limit of q frames is --waiting-room q, and its delay
    is the waiting time.

    \b
    Examples:
      iodyno model md1k --buffers 8 --service 2.5us --utilisation .5:1.2:.1
      iodyno model md1k --waiting-room 4 --service 1ms --utilisation .8,.95,1.2 \\
        --json
    """
    quantiles = options.quantiles(percents)
    capacity = options.capacity_of(buffers, waiting_room, 1)
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([md1k(load, service_s, capacity) for load in loads], quantiles, as_json, notes=[COUNTED])
