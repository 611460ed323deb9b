"""`iodyno model mmc`: several servers at one queue, and beside it servers with a queue each."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.erlang import erlang_c
from iodyno.analysis.queueing.mmc import mmc, separate_queues
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mmc")
@options.servers
@options.service()
@options.open_load
@options.percentiles
@options.as_json
def command(
    servers: int, service_s: float, utilisations: Any, rates: Any, percents: Any, as_json: bool
) -> None:
    """Several servers at one shared queue: Poisson arrivals, exponential service.

    Beside it stands what the same servers do with a queue each (columns `separate`): a model of CPUs that share one
    queue says nothing of CPUs with queues of their own.

    \b
    Examples:
      iodyno model mmc --servers 8 --service 127us --utilisation 0,.2,.4,.6,.8 \\
        --percentiles 50,99
      iodyno model mmc --servers 8 --service 81us --rate 10k/s,60k/s,90k/s --json
    """
    quantiles = options.quantiles(percents)
    loads = options.arrivals_per_s(utilisations, rates, service_s, servers)
    results = [mmc(load, service_s, servers) for load in loads]
    apart = [separate_queues(load, service_s, servers) for load in loads]
    more = [
        {
            "waits_ratio": erlang_c(servers, load * service_s),
            "separate_response_time_s": one.response_time_s,
            **{f"separate_{name}_s": one.response_time_quantile_s(p) for name, p in quantiles.items()},
        }
        for load, one in zip(loads, apart, strict=True)
    ]
    show_stations(results, quantiles, as_json, more=more)
