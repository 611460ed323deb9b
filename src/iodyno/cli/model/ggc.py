"""`iodyno model ggc`: several servers, arrivals and service of measured variation; bounds."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.ggc import ggc, waiting_bounds_s
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="ggc")
@options.servers
@options.service()
@options.squared_cv("--arrival-scv", "arrival_cv", "times between arrivals", default=1.0)
@options.squared_cv("--service-scv", "service_cv", "service times")
@options.open_load
@options.percentiles
@options.as_json
def command(
    servers: int,
    service_s: float,
    arrival_cv: float,
    service_cv: float,
    utilisations: Any,
    rates: Any,
    percents: Any,
    as_json: bool,
) -> None:
    """Several servers at one queue, from the measured variation of arrivals and of service: an approximation.

    Beside the approximate mean wait stand the least and the greatest one that these moments allow.

    \b
    Examples:
      iodyno model ggc --servers 8 --service 81us --service-scv 0 --utilisation .8
      iodyno model ggc --servers 4 --service 81us --service-scv 2.5 \\
        --arrival-scv .5 --rate 10k/s,40k/s --json
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s, servers)
    results = [ggc(load, service_s, servers, arrival_cv, service_cv) for load in loads]
    bounds = [waiting_bounds_s(load, service_s, servers, arrival_cv, service_cv) for load in loads]
    more = [{"waiting_least_s": low, "waiting_greatest_s": high} for low, high in bounds]
    show_stations(results, quantiles, as_json, more=more)
