"""`iodyno model engset`: a finite population, and servers without a queue."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mmcn import engset
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="engset")
@options.servers
@options.service()
@options.think
@options.population
@options.integer("--waiting-room", "waiting_room", "Places to wait.", default=0)
@options.percentiles
@options.as_json
def command(
    servers: int,
    service_s: float,
    think_s: float,
    population: Any,
    waiting_room: int,
    percents: Any,
    as_json: bool,
) -> None:
    """Clients that think, ask, and are turned away when all servers (and places to wait) are taken.

    Who is turned away thinks again. `lost` is the share of attempts; Erlang's B is its limit for many clients.

    \b
    Examples:
      iodyno model engset --servers 8 --service 1ms --think 4ms \\
        --population 10:100:10
      iodyno model engset --servers 4 --waiting-room 4 --service 1ms \\
        --think 9ms --population 64 --json
    """
    quantiles = options.quantiles(percents)
    clients = options.whole(population, "--population")
    places = options.capacity_of(None, waiting_room, servers)
    results = [engset(number, think_s, service_s, servers, places) for number in clients]
    more = [{"population": number} for number in clients]
    show_stations(results, quantiles, as_json, first=more)
