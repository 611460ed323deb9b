"""`iodyno model queue`: one queue in Kendall's notation, by its formula or by simulation."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from iodyno.cli.form import format_option
from iodyno.cli.given import given
from iodyno.cli.model import options
from iodyno.cli.model.notation import Kind, Queue, complete_notation, forms_text, queue_of
from iodyno.cli.model.options import numbers, seconds
from iodyno.cli.number import NUMBER, SEED
from iodyno.cli.workers import cluster_option
from iodyno.core.errors import ExperimentError
from iodyno.report.form import Form

_ALWAYS = {"queue", "services", "percents", "simulate", "form"}


def _each_in_seconds(
    ctx: click.Context, option: click.Parameter, written: tuple[str, ...]
) -> tuple[float, ...]:
    return tuple(found for each in written if (found := seconds(ctx, option, each)) is not None)


def _queue(ctx: click.Context, argument: click.Parameter, written: str) -> Queue:
    return queue_of(written)


HELP = f"""Calculate one queue: NOTATION is arrivals/service/servers, such as M/M/8.

M is memoryless (Poisson arrivals, exponential times), D constant, G any law of which the variation is known. Places and
clients may follow, as in M/M/8/20 or M/M/8//64. First come, first served. What has no formula is simulated.

{forms_text()}
"""


@click.command(name="queue", help=HELP)
# Eager: a notation that is none is told before the options that it lacks.
@click.argument("queue", metavar="NOTATION", is_eager=True, callback=_queue, shell_complete=complete_notation)
@click.option("--service", "services", callback=_each_in_seconds, multiple=True, required=True, metavar="TIME",
              help="Mean service time, such as 127us; of a tandem once for each station.")  # fmt: skip
@options.open_load
@click.option("--population", callback=numbers(), metavar="LIST",
              help="The N of M/M/c/K/N, as a list or a range: 1,2,4 or 10:100:10.")  # fmt: skip
@click.option("--think", "think_s", callback=seconds, default="0s", show_default=True, metavar="TIME",
              help="Mean time between an answer and the next request.")  # fmt: skip
@click.option("--service-scv", type=NUMBER, metavar="X", help="Variance / mean^2 of service times, for G.")
@click.option("--arrival-scv", type=NUMBER, metavar="X", default=1.0, show_default=True,
              help="Variance / mean^2 of times between arrivals, for G.")  # fmt: skip
@click.option(
    "--quorum",
    type=int,
    metavar="M",
    help="Answers that fork-join waits for; one request at a time, no queue.",
)
@click.option("--round-trip", "round_trip_s", callback=seconds, metavar="TIME",
              help="From the end of a frame to the return of its credit.")  # fmt: skip
@click.option("--distance", "distance_km", type=NUMBER, metavar="KM",
              help="Kilometres of fibre, instead: 5 us each way for each.")  # fmt: skip
@options.percentiles
@click.option("--simulate", is_flag=True, help="Simulate it, each load by itself, with 95 % intervals.")
@click.option("--service-law", metavar="LAW",
              help="For G: constant, exponential, erlang(4), hyperexponential(4), lognormal(2).")  # fmt: skip
@click.option("--arrival-law", metavar="LAW", help="For G: the law of times between arrivals, one of those.")
@click.option("--precision", metavar="P%", default="2%", show_default=True,
              help="Half-width of the simulated mean response time's interval.")  # fmt: skip
@click.option("--seed", type=SEED, default=1, show_default=True, help="The same seed gives the same numbers.")
@cluster_option
@format_option()
@click.pass_context
def command(
    ctx: click.Context,
    /,
    queue: Queue,
    services: tuple[float, ...],
    percents: tuple[Fraction, ...],
    simulate: bool,
    form: Form,
    **asked: Any,
) -> None:
    """Calculate one queue, or simulate it."""
    kind = queue.kind(closed=asked["population"] is not None, simulated=simulate)
    _refuse_others(ctx, kind, simulate)
    quantiles = options.quantiles(percents)
    if queue.name != "tandem" and len(services) != 1:
        raise ExperimentError(
            f"invalid value: {len(services)} times for one station; expected one", where="--service"
        )
    # Imported here: scipy and numpy are slow to load, and `--help` needs neither.
    if simulate:
        from iodyno.cli.model.simulated import show_simulated

        show_simulated(queue, services, quantiles, form, asked)
    else:
        from iodyno.cli.model.calculated import show_calculated

        show_calculated(queue, kind, services[0], quantiles, form, asked)


def _refuse_others(ctx: click.Context, kind: Kind, simulate: bool) -> None:
    """Raises ExperimentError for an option that does not go with the kind."""
    words = {each.name: each.opts[0] for each in ctx.command.params}
    allowed = (*kind.options, *(("--precision", "--seed", "--cluster") if simulate else ()))
    for name in sorted(given(ctx) - _ALWAYS):
        if words[name] not in allowed:
            raise ExperimentError(
                f"cannot be used with {kind.written}{' --simulate' if simulate else ''}: expected "
                f"{', '.join(allowed)}",
                where=words[name],
            )
