"""Parts of a work that test workers: they import this module."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from iodyno.core.errors import ExperimentError

FATAL = 3


def square_held(held: Path, number: int) -> tuple[int, int]:
    """The square, and who found it. The first who has the number `FATAL` says so in a file and waits to be killed."""
    if number == FATAL and not held.exists():
        held.with_suffix(".new").write_text(str(os.getpid()), encoding="ascii")
        held.with_suffix(".new").rename(held)
        time.sleep(3600)
    return number * number, os.getpid()


def refused(number: int) -> int:
    raise ExperimentError(f"no {number}", where="FILE", advice="another")


def fatal(_number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
