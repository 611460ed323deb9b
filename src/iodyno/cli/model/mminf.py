"""`iodyno model mminf`: a server for everyone: a delay."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mminf import mminf
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mminf")
@options.service()
@click.option("--rate", "rates", callback=options.numbers("rate"), required=True, metavar="LIST",
              help="Arrivals per second: 20k/s, or 1000:9000:1000.")  # fmt: skip
@options.percentiles
@options.as_json
def command(service_s: float, rates: Any, percents: Any, as_json: bool) -> None:
    """A server for everyone: nobody waits, and what is under way is Poisson. A network path, a thinking client.

    \b
    Examples:
      iodyno model mminf --service 10ms --rate 1000,5000
      iodyno model mminf --service 10ms --rate 20k/s --json
    """
    quantiles = options.quantiles(percents)
    show_stations([mminf(float(rate), service_s) for rate in rates], quantiles, as_json)
