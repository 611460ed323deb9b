"""`iodyno search`: the largest rate that meets a goal, right now and without a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from iodyno import quick
from iodyno.cli import right_now
from iodyno.cli.form import show, verbose_option
from iodyno.cli.number import NumberRange
from iodyno.cli.right_now import level
from iodyno.cli.share import PRECISION
from iodyno.core.errors import TrialError
from iodyno.core.search import parse_goal
from iodyno.core.workload import REQUEST_RESPONSE
from iodyno.report.form import Form


def _goal(ctx: click.Context, _option: click.Parameter, written: str) -> str:
    try:
        parse_goal(written)
    except ValueError as problem:
        raise click.BadParameter(str(problem), ctx, param_hint="--goal") from None
    return written


@click.command(name="search")
@click.option(
    "--goal", required=True, callback=_goal, metavar="GOAL", help="Such as 'loss = 0' or 'p99 <= 1ms'."
)
@level(REQUEST_RESPONSE, "--transport", "transport", "tcp")
@level(REQUEST_RESPONSE, "--connections", "connections", "16")
@level(REQUEST_RESPONSE, "--size", "size", "64")
@level(REQUEST_RESPONSE, "--response-size", "response_size", "64")
@level(REQUEST_RESPONSE, "--engine", "engine", "epoll")
@level(REQUEST_RESPONSE, "--server-engine", "server_engine")
@level(REQUEST_RESPONSE, "--arrivals", "arrivals")
@click.option(
    "--low", type=click.IntRange(1, 10**9), default=100, show_default=True, help="Least rate to try."
)
@click.option("--high", type=click.IntRange(2, 10**9), default=5_000_000, show_default=True,
              help="Greatest rate to try.")  # fmt: skip
@click.option("--precision", type=PRECISION, default="5%", show_default=True,
              help="End when the 95 % interval is narrower than this share of the rate.")  # fmt: skip
@click.option("--seconds", type=NumberRange(0.1, 3600), default=1, show_default=True,
              help="Measured time of each trial.")  # fmt: skip
@click.option("--within", type=NumberRange(1, 86_400), default=75, show_default=True,
              help="End after so many seconds at the latest.")  # fmt: skip
@verbose_option
@right_now.common
def command(
    goal: str,
    low: int,
    high: int,
    precision: float,
    seconds: float,
    within: float,
    to: str | None,
    profile: bool,
    background_window: str | None,
    form: Form,
    verbose: bool,
    into: Path,
    **levels: Any,
) -> None:
    """Find the largest rate that meets a goal.

    For 'loss = 0' (RFC 2544) messages are sent one way at a constant rate, for a goal on the response time requests come
    as Poisson arrivals and are answered. The rate of each trial is chosen by what the trials before it said; a trial that
    was disturbed does not lead the search astray. Prints the rate with a 95 % interval, and the rate at which the goal
    was met three times in a row.

    \b
    Examples:
      iodyno search --transport udp --size 64B --goal 'loss = 0'
      iodyno search --transport tcp --goal 'p99 <= 1ms'
      iodyno search --transport udp --server-engine recvmmsg \\
        --goal 'p99 <= 200us' --precision 2% --json
    """
    written = {name: value for name, value in levels.items() if value is not None}
    if low >= high:
        raise click.UsageError(f"invalid value: --low {low} and --high {high}; expected a low below the high")
    search_for = {
        "goal": goal,
        "low": low,
        "high": high,
        "precision": precision,
        "time": f"{round(within * 1000)}ms",
    }
    keys = quick.search(
        written,
        search_for=search_for,
        seconds=seconds,
        to=to,
        profile=profile,
        background_window=background_window,
    )
    experiment = right_now.experiment_of(keys)
    _show(right_now.measure(experiment, into, quiet=not verbose), form, verbose=verbose)


def _show(folder: Path, form: Form, *, verbose: bool = False) -> None:
    """Show what was found, and whether it converged; with the rates that were tried."""
    # Imported here: slow, and not needed while the load is on.
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse
    from iodyno.report.search import search_shown

    summary = analyse(read_dataset(folder))
    (found,) = summary.found or (None,)
    show(search_shown(summary, str(folder), verbose=verbose), form)
    if found is None or found.ended == "failed" or not found.known:
        raise TrialError(
            f"the search has no answer: {(found and found.warning) or 'no trial told anything'}",
            where=str(folder),
            advice="see why its trials failed: iodyno report shows each",
        )
