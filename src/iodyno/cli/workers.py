"""--cluster: workers that do the parts of a command, with a line on stderr that says how far they are."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import click

from iodyno import cluster
from iodyno.cli.encoding import Unescaped


def _checked(_ctx: click.Context, _option: click.Parameter, place: str | None) -> str | None:
    if place is not None:
        cluster.check(place)
    return place


cluster_option = click.option(
    "--cluster",
    metavar="local|ADDRESS",
    callback=_checked,
    help="Work on workers of Dask: one a CPU here (local:2: two), or those of the scheduler at tcp://HOST:PORT.",
)


@contextmanager
def workers(place: str | None) -> Iterator[cluster.Each]:
    """Give `each` on the workers at `place`, or in this process, and show meanwhile how many parts are done."""
    line = ProgressLine()
    try:
        with cluster.opened(place, line.parts) as each:
            yield partial(_shown, line, each)
    finally:
        line.clear()


def _shown(
    line: ProgressLine,
    each: cluster.Each,
    function: Callable[[cluster.Item], cluster.Found],
    items: Sequence[cluster.Item],
) -> Iterator[cluster.Found]:
    """Yield what `each` finds, with the line away meanwhile: it may be printed."""
    for found in each(function, items):
        line.clear()
        yield found


class ProgressLine:
    """Progress with the time left, on one line of stderr where that is a terminal that can go back in it. Nothing in the first
    second.
    """

    def __init__(self) -> None:
        self.wanted = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._began = self._first = time.monotonic()
        self._shown = False

    def parts(self, done: int, total: int) -> None:
        """Show how many parts are done; with none done another round begins."""
        if not done:
            self._first = time.monotonic()
        self._show(f"{done} of {total} parts{self._left(done, total)}")

    def read(self, done_bytes: int, total_bytes: int | None) -> None:
        """Show how much of a trace was read."""
        share = f"{done_bytes / total_bytes:.0%}" if total_bytes and done_bytes else ""
        self._show(f"reading: {share or f'{done_bytes / 1e6:,.0f} MB'}{self._left(done_bytes, total_bytes)}")

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            self._write("\r" + " " * 40 + "\r")
            self._shown = False

    def _left(self, done: int, total: int | None) -> str:
        if not done or not total:
            return ""
        return f", {max(0.0, (time.monotonic() - self._first) * (total / done - 1)):.0f} s left"

    def _show(self, text: str) -> None:
        if self.wanted and time.monotonic() - self._began >= 1:
            self._write(f"\r{text:<40}")
            self._shown = True

    def _write(self, text: str) -> None:
        Unescaped(sys.stderr).write(text)
        sys.stderr.flush()
