"""`iodyno model mg1`: one server, service times of a measured variation."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.mg1 import mg1
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mg1")
@options.service()
@options.squared_cv("--service-scv", "service_cv", "service times")
@options.open_load
@options.percentiles
@options.as_json
def command(
    service_s: float, service_cv: float, utilisations: Any, rates: Any, percents: Any, as_json: bool
) -> None:
    """One server with an infinite queue: Poisson arrivals, service times of which mean and variation were measured.

    Means are exact for every law with these two moments, percentiles for one such law, which is named.

    \b
    Examples:
      iodyno model mg1 --service 40us --service-scv 4 --utilisation .5:.9:.1
      iodyno model mg1 --service 40us --service-scv .25 --rate 10k/s \\
        --percentiles 50,99,99.9 --json
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([mg1(load, service_s, service_cv) for load in loads], quantiles, as_json)
