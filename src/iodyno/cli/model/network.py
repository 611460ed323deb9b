"""`iodyno model network`: a network of queues from a model file, at one load or over a range."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.analysis.queueing.networks.bounds import bounds
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.analysis.queueing.networks.solve import METHODS, How, solve, solve_sweep
from iodyno.cli.form import format_option, show
from iodyno.cli.given import given
from iodyno.cli.model.options import numbers
from iodyno.cli.model.own_file import OwnFile
from iodyno.cli.number import SEED
from iodyno.cli.workers import cluster_option, workers
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.network import Class, ClosedClass, Network
from iodyno.formats.given_file import read_given
from iodyno.formats.network_file import parse_network
from iodyno.report.form import Form
from iodyno.report.network import network_solved, network_swept

if TYPE_CHECKING:
    from iodyno.analysis.queueing.networks.simulated import Percentiles


def _whole_numbers(
    ctx: click.Context, option: click.Parameter, written: str | None
) -> tuple[int, ...] | None:
    """Numbers and ranges of jobs; a range of two bounds has steps of 1. Raises ExperimentError."""
    if written is None:
        return None
    parts = (f"{part}:1" if part.count(":") == 1 else part for part in written.split(","))
    found = numbers()(ctx, option, ",".join(parts))
    if any(n.denominator != 1 or n < 1 for n in found):
        raise ExperimentError(
            invalid(written, "whole numbers of 1 job or more"),
            where=option.opts[0],
            advice="1:100:10",
        )
    return tuple(int(n) for n in found)


@click.command(name="network")
@click.argument("file", type=OwnFile(), metavar="FILE")
@click.option(
    "--population", "populations", callback=_whole_numbers, metavar="LIST",
    help="Populations of a closed class to solve for: 1,10,100 or 1:100 or 1:100:10.",
)  # fmt: skip
@click.option(
    "--rate", "rates", callback=numbers("rate"), metavar="LIST",
    help="Rates of an open class to solve for, in 1/s: 10,20 or 10:100:10.",
)  # fmt: skip
@click.option(
    "--class", "of_class", metavar="NAME", help="The class that these are of, where there are several."
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="auto",
    show_default=True,
    help="exact; approximate (which is linearizer); auto is exact while that takes seconds.",
)
@click.option(
    "--simulate", is_flag=True, help="Add response times and their percentiles by simulation, with intervals."
)
@click.option(
    "--percentiles", "percents", callback=numbers(), default="50,99", show_default=True, metavar="LIST",
    help="Of the response time of each class, with --simulate.",
)  # fmt: skip
@click.option(
    "--seed",
    type=SEED,
    default=1,
    show_default=True,
    help="Of the simulation: the same seed gives the same numbers.",
)
@cluster_option
@format_option()
def command(
    file: Path,
    populations: tuple[int, ...] | None,
    rates: tuple[Fraction, ...] | None,
    of_class: str | None,
    method: How,
    simulate: bool,
    percents: tuple[Fraction, ...],
    seed: int,
    cluster: str | None,
    form: Form,
) -> None:
    """Solve a network of queues: throughput, response time, utilisation, queues, bounds.

    \b
    FILE is a model in YAML, with classes of work, stations, and the time that
    each class needs at each station:
      classes:
        browse: {population: 120, think: 2s}       closed: so many users
        api: {rate: 40/s}                          open: whatever comes
      stations:
        web: {servers: 4, discipline: ps}          fcfs, ps or lcfs-pr
        wan: {kind: delay}
      demands:
        browse: {web: {visits: 2, service: 5ms}, wan: 40ms}
        api: {web: 2ms}

    \b
    Examples:
      iodyno model network example:three-tier
      iodyno model network example:three-tier --population 20:400:20
      iodyno model network example:three-tier --class api \\
        --rate 10:200:10 --json
      iodyno model network example:three-tier --class api \\
        --rate 20:100:20 --simulate --cluster local
    """
    network = parse_network(_read(file), file=str(file), environment=os.environ)
    named = {"percents": "--percentiles", "seed": "--seed", "cluster": "--cluster"}
    unused = sorted(named.keys() & given(click.get_current_context()))
    if unused and not simulate:
        option = named[unused[0]]
        raise ExperimentError("it is for --simulate", where=option, advice=f"{option} with --simulate")
    if populations is None and rates is None:
        if of_class is not None:
            raise ExperimentError("can only be used with --population or --rate", where="--class")
        solution = solve(network, method)
        (simulated,) = _simulated([solution], percents if simulate else (), seed, cluster)
        show(network_solved(solution, bounds(network), simulated), form)
        return
    if populations is not None and rates is not None:
        raise ExperimentError("--population cannot be used with --rate", where="--rate")
    if populations is not None:
        swept = _chosen([c.name for c in network.closed_classes], of_class, "closed", "--population")
    else:
        swept = _chosen([c.name for c in network.open_classes], of_class, "open", "--rate")
    points = [_varied(network, swept, value) for value in populations or rates or ()]
    solutions = solve_sweep(points, method)
    every = _simulated(solutions, percents if simulate else (), seed, cluster)
    limits = [bounds(point) for point in points]
    show(network_swept(solutions, limits, every, swept, "population" if populations else "rate"), form)


def _read(file: Path) -> bytes:
    advice = "name a model file, such as example:three-tier (`iodyno studies`)"
    try:
        return read_given(file, 2**20, pipes=True)
    except OSError as problem:
        text = f"cannot be read: {problem.strerror}"
        raise ExperimentError(text, where=str(file), advice=advice) from None


def _simulated(
    solutions: Sequence[Solution], percents: Sequence[Fraction], seed: int, cluster: str | None
) -> list[tuple[Percentiles, ...]]:
    if not percents:
        return [()] * len(solutions)
    from iodyno.analysis.queueing.networks.simulated import percentiles

    part = partial(percentiles, wanted=[float(percent) for percent in percents], seed=seed)
    with workers(cluster) as each:
        return list(each(part, [solution.network for solution in solutions]))


def _chosen(names: Sequence[str], of_class: str | None, kind: str, option: str) -> str:
    if of_class is None and len(names) == 1:
        return names[0]
    if not names:
        raise ExperimentError(f"the model has no {kind} class to vary", where=option)
    if of_class is None:
        raise ExperimentError(
            f"invalid value: {len(names)} {kind} classes; expected --class with one of {', '.join(names)}",
            where=option,
        )
    if of_class not in names:
        raise ExperimentError(invalid(of_class, ", ".join(names)), where="--class")
    return of_class


def _varied(network: Network, name: str, value: int | Fraction) -> Network:
    """The network with another population, or another rate, of the class."""

    def changed(entry: Class) -> Class:
        if entry.name != name:
            return entry
        if isinstance(entry, ClosedClass):
            return replace(entry, population=int(value))
        try:
            return replace(entry, rate_per_s=float(value))
        except OverflowError:
            raise ExperimentError(
                "invalid value: a rate beyond 1e308/s; expected a finite one", where="--rate"
            ) from None

    return replace(network, classes=tuple(changed(c) for c in network.classes))
