"""`iodyno search`: the largest rate that meets a goal, right now and without a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from iodyno import quick
from iodyno.cli import right_now
from iodyno.cli.number import NumberRange
from iodyno.cli.right_now import level
from iodyno.cli.share import PRECISION
from iodyno.core.errors import TrialError
from iodyno.core.experiment import SensorLevel
from iodyno.core.search import parse_goal
from iodyno.core.workload import REQUEST_RESPONSE


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
    sensors: SensorLevel,
    background_window: str | None,
    as_json: bool,
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
        sensors=sensors,
        background_window=background_window,
    )
    experiment = right_now.experiment_of(keys)
    _show(right_now.measure(experiment, into), as_json=as_json)


def _show(folder: Path, *, as_json: bool) -> None:
    """Show what was found, with the rates that were tried; the campaign's folder on the last line."""
    # Imported here: slow, and not needed while the load is on.
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse
    from iodyno.report.search import search_json, search_sentences

    summary = analyse(read_dataset(folder))
    (found,) = summary.found or (None,)
    if as_json:
        assert summary.search is not None
        factor = summary.search.factor
        tried = [
            {"levels": dict(p.levels), "trials": p.finished}
            for p in sorted(summary.points, key=lambda p: p.levels[factor])
        ]
        warnings = [{"code": d.code, "text": d.text, "where": d.where} for d in summary.warnings]
        values = {**search_json(summary), "tried": tried, "warnings": warnings}
        click.echo(json.dumps({"campaign": str(folder), **values}, indent=2))
    else:
        for sentence in search_sentences(summary):
            click.echo(sentence)
        click.echo(str(folder))
    if found is None or found.ended == "failed" or not found.known:
        raise TrialError(
            f"the search has no answer: {(found and found.warning) or 'no trial told anything'}",
            where=str(folder),
            advice="see why its trials failed: iodyno report shows each",
        )
