"""`iodyno model mmcn`: a finite population of clients that think between requests."""

from __future__ import annotations

from typing import Any

import click

from iodyno.analysis.queueing.laws import saturation_population
from iodyno.analysis.queueing.mmcn import mmcn
from iodyno.cli.model import options
from iodyno.cli.model.rows import show_stations


@click.command(name="mmcn")
@options.servers
@options.service()
@options.think
@options.population
@options.percentiles
@options.as_json
def command(
    servers: int, service_s: float, think_s: float, population: Any, percents: Any, as_json: bool
) -> None:
    """A closed loop: clients that think, ask one of several servers, wait and think again (machine repair).

    Under the table stands N*, the number of clients where the asymptotes of the rate meet.

    \b
    Examples:
      iodyno model mmcn --servers 8 --service 127us --think 1ms \\
        --population 1,10,50:500:50
      iodyno model mmcn --servers 1 --service 40us --population 1:64:1 --json
    """
    quantiles = options.quantiles(percents)
    clients = options.whole(population, "--population")
    results = [mmcn(number, think_s, service_s, servers) for number in clients]
    more = [{"population": number} for number in clients]
    meet = saturation_population(service_s + think_s, service_s / servers)
    note = f"N* = {meet:.4g} clients: (service + think time) / (service time / servers)."
    show_stations(results, quantiles, as_json, first=more, notes=[note])
