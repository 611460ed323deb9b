"""`iodyno model mm1`: one server, an infinite queue."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mm1 import mm1
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mm1")
@options.service()
@options.open_load
@options.percentiles
@options.as_json
def command(service_s: float, utilisations: Any, rates: Any, percents: Any, as_json: bool) -> None:
    """One server with an infinite queue: Poisson arrivals, exponential service.

    \b
    Examples:
      iodyno model mm1 --service 2.5us --utilisation .9,.95
      iodyno model mm1 --service 1ms --rate 100:900:100 --percentiles 50,99,99.9
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([mm1(load, service_s) for load in loads], quantiles, as_json)
