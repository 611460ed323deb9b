"""Signals to child processes of the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal


def send_signal(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a child that may have ended. `Process.send_signal` and `Process.kill` look first whether it has, and so
    may take its status from the thread that waits for it, which then gives 255 and complains to whoever reads stderr.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)
