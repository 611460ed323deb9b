"""Ctrl-C for the whole of a command: those that come together are one.

Two come together where `timeout -s INT` sends to the process and to its group, and where somebody presses the keys twice. The
second one must not fall into the clearing away that the first one began, nor into the end of Python, which it would kill.
"""

from __future__ import annotations

import signal
import time
from types import FrameType

SAME_S = 2.0
"""Interrupts that come within this time after the first are one with it (chosen: to clear away takes over 1 s on a busy host)."""


class _Interrupted(KeyboardInterrupt):
    """Exception that SIGINT raises. CPython ends by the signal where a plain KeyboardInterrupt ever came out of an `exec` of
    text, as dataclasses are made of, even when it is caught further out (`unhandled_keyboard_interrupt` in `Python/pythonrun.c`).
    """


def interrupt_once() -> None:
    """From now on SIGINT raises KeyboardInterrupt, and then none for `SAME_S`. Where it is ignored, as by nohup, it stays so."""
    last: list[float] = []

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if last and now - last[-1] < SAME_S:
            return
        last.append(now)
        raise _Interrupted

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)


def no_more_interrupts() -> None:
    """From now on SIGINT does nothing: what there was to do is done, and Python ends within a moment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
