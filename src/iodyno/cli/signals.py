"""Signals to a campaign: one stops it cleanly; and, when that takes too long for who sent it, another ends it."""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from iodyno.cli.interrupts import SAME_S
from iodyno.core.errors import Interrupted

if TYPE_CHECKING:
    import asyncio

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopped_by_signals(task: asyncio.Task[object]) -> Iterator[list[int]]:
    """While it lasts, signals cancel the task, whose cleaning up then has all its time; but a second SIGINT ends the process,
    if it does not come so soon that it is one with the first. Gives the list of the signals that came.

    Handlers of the event loop would do nothing while something blocks it; these come between in any case. Where a signal has
    stopped the task they stay: the way out from here, with the event loop's end, is no place for another one.
    """
    import asyncio

    loop = asyncio.get_running_loop()
    first: list[float] = []
    came: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        came.append(number)
        if not first:
            loop.call_soon_threadsafe(task.cancel)
        elif number == signal.SIGINT and now - first[0] > SAME_S:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        first.append(now)

    # A signal that was ignored from the start, as nohup does it, stays ignored.
    before = {
        number: was for number in _STOPPING if (was := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    ended = False
    try:
        for number in before:
            signal.signal(number, stop)
        yield came
        ended = True
    finally:
        if ended or not first:
            for number, was in before.items():
                signal.signal(number, was)


def stopped_words(came: list[int]) -> str:
    """ "stopped", and by which signal where it was not Ctrl-C."""
    if came and came[0] != signal.SIGINT:
        return f"stopped by {signal.Signals(came[0]).name}"
    return "stopped"


@contextmanager
def named_when_stopped(folder: Path) -> Iterator[None]:
    """While a campaign that has ended is shown: Ctrl-C then says where it is. Raises Interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        advice = shlex.join(["iodyno", "report", str(folder)])
        raise Interrupted(
            "stopped; the campaign has ended and is kept", where=str(folder), advice=advice
        ) from None
