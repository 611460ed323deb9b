"""`iodyno model md1`: one server of constant service, an infinite queue."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.md1 import md1
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="md1")
@options.service("Constant service time, such as 2.5us.")
@options.open_load
@options.percentiles
@options.as_json
def command(service_s: float, utilisations: Any, rates: Any, percents: Any, as_json: bool) -> None:
    """One server with an infinite queue: Poisson arrivals, constant service, such as frames of one size on a link.

    \b
    Examples:
      iodyno model md1 --service 2.5us --utilisation .9,.95
      iodyno model md1 --service 2.5us --rate 100k/s:390k/s:10k/s --json
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([md1(load, service_s) for load in loads], quantiles, as_json)
