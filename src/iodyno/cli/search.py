"""`iodyno search`: the largest rate that meets each goal, right now and without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iodyno import quick
from iodyno.cli import right_now
from iodyno.cli.form import show, verbose_option
from iodyno.cli.number import Seconds
from iodyno.cli.right_now import level
from iodyno.cli.share import EXCEED, WIDTH
from iodyno.core.experiment import SensorLevel
from iodyno.core.search import TRIALS, parse_goal
from iodyno.core.workload import REQUEST_RESPONSE
from iodyno.report.form import Form


def _goals(ctx: click.Context, _option: click.Parameter, written: tuple[str, ...]) -> tuple[str, ...]:
    try:
        kinds = {parse_goal(each).outcome == "loss_ratio" for each in written}
    except ValueError as problem:
        raise click.BadParameter(str(problem), ctx, param_hint="--goal") from None
    if len(kinds) > 1:
        text = "invalid value: a goal on loss and one on the response time, which are of different loads; expected one kind"
        raise click.BadParameter(text, ctx, param_hint="--goal")
    return written


@click.command(name="search")
@click.option(
    "--goal",
    "goals",
    required=True,
    multiple=True,
    callback=_goals,
    metavar="GOAL",
    help="Such as 'loss = 0' or 'p99 <= 1ms'; each one that is given is searched for.",
)
@level(REQUEST_RESPONSE, "--transport", "transport", quick.SEARCHED["transport"])
@level(REQUEST_RESPONSE, "--connections", "connections", quick.SEARCHED["connections"])
@level(REQUEST_RESPONSE, "--size", "size", quick.SEARCHED["size"])
@level(REQUEST_RESPONSE, "--response-size", "response_size", quick.SEARCHED["response_size"])
@level(REQUEST_RESPONSE, "--engine", "engine", quick.SEARCHED["engine"])
@level(REQUEST_RESPONSE, "--server-engine", "server_engine")
@level(REQUEST_RESPONSE, "--arrivals", "arrivals")
@click.option(
    "--min-load",
    type=click.IntRange(1, 10**9),
    default=quick.SEARCH_LOADS[0],
    show_default=True,
    help="Least rate to try.",
)
@click.option("--max-load", type=click.IntRange(2, 10**9), default=quick.SEARCH_LOADS[1], show_default=True,
              help="Greatest rate to try.")  # fmt: skip
@click.option("--width", type=WIDTH, default=quick.SEARCH_WIDTH, show_default=True,
              help="Goal width: end when the relevant bounds are so near to each other.")  # fmt: skip
@click.option("--exceed-ratio", type=EXCEED, default="50%", show_default=True,
              help="Goal exceed ratio: share of the trials at a rate that may miss the goal.")  # fmt: skip
@click.option("--initial-trial-duration", type=Seconds(0.1, 3600), metavar="SECONDS",
              help="Measured time of the first trial at a rate (default: the final one).")  # fmt: skip
@click.option("--final-trial-duration", type=Seconds(0.1, 3600), default=1, show_default=True,
              metavar="SECONDS", help="Measured time of each other trial.")  # fmt: skip
@click.option("--duration-sum", type=Seconds(0.1, 36_000), metavar="SECONDS",
              help=f"Goal duration sum: time of the trials that settle what a rate is (default: {TRIALS} trials).")  # fmt: skip
@click.option("--search-duration", type=Seconds(1, 86_400), default=quick.SEARCH_DURATION_S, show_default=True,
              metavar="SECONDS", help="End after so many seconds at the latest.")  # fmt: skip
@verbose_option
@right_now.common
def command(
    goals: tuple[str, ...],
    min_load: int,
    max_load: int,
    width: float,
    exceed_ratio: float,
    initial_trial_duration: float | None,
    final_trial_duration: float,
    duration_sum: float | None,
    search_duration: float,
    to: str | None,
    profile: bool,
    sensors: SensorLevel,
    background_window: str | None,
    form: Form,
    verbose: bool,
    into: Path,
    **levels: Any,
) -> None:
    """Find the largest rate that meets a goal, or several goals, by RFC 9971 (MLRsearch).

    For 'loss = 0' (RFC 2544) messages are sent one way at a constant rate, for a goal on the response time requests come
    as Poisson arrivals and are answered. The rate of each trial is chosen by what the trials before it said; a trial that
    was disturbed does not lead the search astray. Prints for each goal its relevant bounds, with the trials that settled
    them, the conditional throughput, and a 95 % interval of the rate.

    \b
    Examples:
      iodyno search --transport udp --goal 'loss = 0' --goal 'loss <= 0.5 %'
      iodyno search --transport tcp --goal 'p99 <= 1ms'
      iodyno search --transport udp --server-engine recvmmsg \\
        --goal 'p99 <= 200us' --width 2% --json
    """
    written = {name: value for name, value in levels.items() if value is not None}
    if min_load >= max_load:
        raise click.UsageError(
            f"invalid value: --min-load {min_load} and --max-load {max_load}; expected a min-load below the max-load"
        )
    search_for = {
        "goals": list(goals),
        "min_load": min_load,
        "max_load": max_load,
        "width": width,
        "exceed_ratio": exceed_ratio,
        "search_duration": _milliseconds(search_duration),
    }
    for key, seconds in (("initial_trial_duration", initial_trial_duration), ("duration_sum", duration_sum)):
        if seconds is not None:
            search_for[key] = _milliseconds(seconds)
    keys = quick.search(
        written,
        search_for=search_for,
        seconds=final_trial_duration,
        to=to,
        profile=profile,
        sensors=sensors,
        background_window=background_window,
    )
    experiment = right_now.experiment_of(keys)
    _show(right_now.measure(experiment, into, quiet=not verbose), form, verbose=verbose)


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _show(folder: Path, form: Form, *, verbose: bool = False) -> None:
    """Show what was found, and whether it converged; with the rates that were tried."""
    # Imported here: slow, and not needed while the load is on.
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse
    from iodyno.cli.execute import raise_without_answer
    from iodyno.report.search import search_shown

    summary = analyse(read_dataset(folder))
    show(search_shown(summary, str(folder), verbose=verbose), form)
    raise_without_answer(summary.goal_results, folder)
