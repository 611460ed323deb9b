"""What signals mean to a campaign, tried on a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

HEAD = """
import asyncio, time
from iodyno.cli.signals import stopped_by_signals

async def campaign():
    with stopped_by_signals(asyncio.current_task()):
        try:
            print("begun", flush=True)
            {work}
        finally:
            await asyncio.sleep(0.2)
            print("cleaned up", flush=True)

try:
    asyncio.run(campaign())
except asyncio.CancelledError:
    print("stopped", flush=True)
"""
WAITED_S = 30


def started(work: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD.format(work=work)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_a_second_interrupt_ends_what_blocks_the_loop() -> None:
    with started("time.sleep(1000)") as process:
        until = time.monotonic() + WAITED_S
        while process.poll() is None and time.monotonic() < until:
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
        try:
            assert process.poll() == -signal.SIGINT
        finally:
            process.kill()


def test_signals_that_come_together_leave_the_time_to_clean_up() -> None:
    with started("await asyncio.sleep(1000)") as process:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process.send_signal(number)
        said, _ = process.communicate(timeout=WAITED_S)
        assert said == "cleaned up\nstopped\n"
        assert process.returncode == 0
