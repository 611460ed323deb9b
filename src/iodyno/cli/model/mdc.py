"""`iodyno model mdc`: several servers of constant service at one queue."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mdc import mdc
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mdc")
@options.servers
@options.service("Constant service time, such as 81us.")
@options.open_load
@options.percentiles
@options.as_json
def command(
    servers: int, service_s: float, utilisations: Any, rates: Any, percents: Any, as_json: bool
) -> None:
    """Several servers of constant service at one shared queue: Poisson arrivals; up to 128 servers.

    \b
    Examples:
      iodyno model mdc --servers 8 --service 81us --utilisation .2:.8:.2
      iodyno model mdc --servers 8 --service 81us --rate 79k/s \\
        --percentiles 99,99.9 --json
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s, servers)
    show_stations([mdc(load, service_s, servers) for load in loads], quantiles, as_json)
