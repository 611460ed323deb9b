"""`iodyno model forkjoin`: a request that waits for all of several answers, or a quorum."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.fork_join import fork_join, quorum_of
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations
from iodyno.core.errors import ExperimentError


@click.command(name="forkjoin")
@options.servers
@click.option(
    "--quorum", type=int, metavar="M", help="Wait for M answers only; one request at a time, no queue."
)
@options.service()
@options.open_load
@options.percentiles
@options.as_json
def command(
    servers: int,
    quorum: int | None,
    service_s: float,
    utilisations: Any,
    rates: Any,
    percents: Any,
    as_json: bool,
) -> None:
    """A request that asks several servers at once and is complete with the last answer: striping, replication.

    With a load, each server has a queue, and the response is exact for two and approximate for more; percentiles are upper
    bounds. Without a load (one request at a time, no queue) everything is exact, also for a quorum of M answers.

    \b
    Examples:
      iodyno model forkjoin --servers 8 --service 1ms --utilisation .5:.9:.1
      iodyno model forkjoin --servers 3 --quorum 2 --service 1ms \\
        --percentiles 50,99,99.9
    """
    quantiles = options.quantiles(percents)
    if utilisations is None and rates is None:
        show_stations([quorum_of(servers, service_s, quorum)], quantiles, as_json)
        return
    if quorum is not None:
        raise ExperimentError(
            "found --quorum with a load: no formula is known for queues behind a quorum",
            where="--quorum",
            advice="leave out --utilisation and --rate, or simulate it",
        )
    # Every request asks all servers: each sees the whole rate.
    loads = options.arrivals_per_s(utilisations, rates, service_s)
    show_stations([fork_join(load, service_s, servers) for load in loads], quantiles, as_json)
