"""`iodyno watch`: a campaign while it runs, or again when it is over, in the terminal and as a local page."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.cli.campaign_argument import complete_campaign, latest_campaign
from iodyno.core.errors import ExperimentError

if TYPE_CHECKING:
    from iodyno.watch.board import Board

_FRAME_S = 0.2
"""Least time between two frames (chosen: more is a flicker, and traffic over ssh)."""
_GRACE_S = 3.0
"""Time to wait for a lab to begin (chosen: `iodyno run` makes the folder moments before its feed)."""


@click.command(name="watch")
@click.argument("campaign", required=False, type=click.Path(path_type=Path), shell_complete=complete_campaign)
@click.option("--once", is_flag=True, help="Print one frame and leave.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print what comes as lines of JSON, until the campaign ends."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the page on loopback; default: a free one.",
)
@click.option("--no-page", is_flag=True, help="Serve no page.")
@click.option(
    "--open", "opened", type=click.Choice(["yes", "no"]), default="no", help="Open the page in a browser."
)
@click.option(
    "--until-end", is_flag=True, help="Leave when the campaign has ended, or nobody is at work on it."
)
@click.option("--grafana", is_flag=True, help="Print a dashboard file for Grafana and leave.")
def command(
    campaign: Path | None,
    once: bool,
    as_json: bool,
    port: int,
    no_page: bool,
    opened: str,
    until_end: bool,
    grafana: bool,
) -> None:
    """Look on while the campaign in the folder CAMPAIGN runs, or at one that is over.

    Shows progress, rates, CPU and latency in the terminal, and serves a page with charts a second on loopback, whose address
    it prints: by host, type, CPU, disk and latency band, with pause and scrub, back to the first trial. The address holds
    a secret; who has it may look. /metrics below it is for Prometheus, `--grafana` prints a dashboard that fits; a
    token that stays the same is taken from IODYNO_WATCH_TOKEN.

    Watching reaches no host and writes nothing: several may watch, and leave, at any time. Ctrl-C ends it.

    \b
    Examples:
      iodyno watch campaigns/NAME
      iodyno watch campaigns/NAME --once
      iodyno watch campaigns/NAME --json | head -3
      iodyno watch --grafana > dashboard.json
    """
    if grafana:
        from iodyno.watch.grafana import dashboard

        click.echo(json.dumps(dashboard(), indent=2))
        return
    campaign = latest_campaign(campaign)
    if once and as_json:
        raise click.UsageError("--once cannot be used with --json")
    # Imported here: `--grafana` needs none of it.
    from iodyno.cli.console import VisibleConsole
    from iodyno.watch.board import Board
    from iodyno.watch.terminal import WIDTH, ending, frame

    board = Board(campaign)
    # A kill ends it as Ctrl-C does, so that the terminal is left as it was.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if once:
            console = VisibleConsole()
            # On a pipe, where nobody knows a width, that of a frame.
            (console if console.is_terminal else VisibleConsole(width=WIDTH)).print(frame(board))
        elif as_json:
            with _refreshed(board):
                _stream(board)
        else:
            with _refreshed(board), _page(board, no_page, port, opened):
                _look_on(board, until_end)
            click.echo(f"iodyno: {ending(board)}", err=True)
    except KeyboardInterrupt:
        return  # how one stops looking on
    finally:
        signal.signal(signal.SIGTERM, before)
        board.close()


@contextmanager
def _refreshed(board: Board) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=board.run, args=(stop,), name="board", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@contextmanager
def _page(board: Board, no_page: bool, port: int, opened: str) -> Iterator[None]:
    if no_page:
        yield
        return
    from iodyno.watch.server import serve

    try:
        served = serve(board, port)
    except OSError as error:
        raise ExperimentError(
            f"port {port} cannot be had: {error.strerror or error}",
            where="--port",
            advice="name another port, or none for a free one",
        ) from error
    with served as address:
        click.echo(f"iodyno: page: {address}", err=True)
        if opened == "yes":
            webbrowser.open(address)
        yield


def _look_on(board: Board, until_end: bool) -> None:
    """Shows frames until Ctrl-C, or the end of the campaign where that is asked."""
    from rich.live import Live

    from iodyno.cli.console import VisibleConsole
    from iodyno.watch.terminal import ending, frame

    console, said = VisibleConsole(), False
    live = Live(console=console, auto_refresh=False, screen=False) if console.is_terminal else None
    if live:
        live.start()
    try:
        number, began_s = 0, time.monotonic()
        while True:
            over = _is_over(board, began_s)
            if live:
                live.update(frame(board), refresh=True)
            if over and until_end:
                return
            if over and not said:
                click.echo(f"iodyno: {ending(board)}; Ctrl-C ends watching", err=True)
            said = over
            time.sleep(_FRAME_S)
            number = max([number, *(message.number for message in board.after(number, 0.5))])
    finally:
        if live:
            live.stop()


def _stream(board: Board) -> None:
    """Messages as lines of JSON until the campaign has ended."""
    number, began_s = 0, time.monotonic()
    for message in board.greeting():
        _line(message.kind, message.text)
        number = message.number
    while not _is_over(board, began_s):
        for message in board.after(number, 0.5):
            _line(message.kind, message.text)
            number = message.number
    for message in board.after(number, 0):
        _line(message.kind, message.text)


def _is_over(board: Board, began_s: float) -> bool:
    """Tell whether the campaign has ended, or was left unfinished and nobody is at work on it."""
    phase = board.progress.phase
    return phase in ("ended", "over") or (phase == "waiting" and time.monotonic() - began_s > _GRACE_S)


def _line(kind: str, text: str) -> None:
    click.echo(f'{{"event":"{kind}","data":{text}}}')
    sys.stdout.flush()
