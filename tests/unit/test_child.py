"""A child that ends by itself just when it is ended: its status is its own, and Python complains of nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable

import pytest

from iodyno.hosts.access import end_at_once
from iodyno.paths.command import answer_of
from iodyno.paths.tap import TapPath
from iodyno.paths.volumes import volume

OWN_END = signal.SIGUSR1


async def relay_removed(process: asyncio.subprocess.Process) -> None:
    path = TapPath({}, ())
    path._process = process
    path.remove()


async def command_stopped(process: asyncio.subprocess.Process) -> None:
    asking = asyncio.create_task(answer_of(process, ["sleep"]))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])


ENDED = {
    "volume, asked": volume.end,
    "volume, killed": lambda process: volume.end(process, ask=False),
    "relay": relay_removed,
    "command": command_stopped,
    "agent": end_at_once,
}


@pytest.mark.parametrize("name", ENDED)
def test_a_child_that_has_just_ended_keeps_its_status(name: str, caplog: pytest.LogCaptureFixture) -> None:
    end: Callable[[asyncio.subprocess.Process], Awaitable[None]] = ENDED[name]

    async def scenario() -> int:
        others = set(threading.enumerate())
        process = await asyncio.create_subprocess_exec("sleep", "60", stdout=asyncio.subprocess.PIPE)
        # From Python 3.12 on, the loop waits itself.
        waiting = {thread.native_id or 0 for thread in set(threading.enumerate()) - others}
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
        try:
            # The thread that waits for it comes to run only when all others leave it the CPU.
            for thread in waiting:
                os.sched_setaffinity(thread, {min(allowed)})
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
            os.kill(process.pid, OWN_END)
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            await end(process)
        finally:
            os.sched_setaffinity(0, allowed)
            busy.kill()
            busy.wait()
        return await process.wait()

    with caplog.at_level(logging.WARNING, "asyncio"):
        assert asyncio.run(scenario()) == -OWN_END
    assert not caplog.messages
