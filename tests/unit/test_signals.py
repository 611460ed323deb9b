"""What signals mean to a campaign, tried on a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import click
import pytest
from places import experiment

from iodyno import designs
from iodyno.cli import execute, main
from iodyno.core.errors import Interrupted

HEAD = """
import asyncio, time
from iodyno.cli.signals import stopped_by_signals

async def campaign():
    with stopped_by_signals(asyncio.current_task()):
        try:
            print("begun", flush=True)
            {work}
        finally:
            await asyncio.sleep({clearing_s})
            print("cleaned up", flush=True)

try:
    asyncio.run(campaign())
except asyncio.CancelledError:
    print("stopped", flush=True)
"""
WAITED_S = 30


def started(work: str, clearing_s: float = 0.2) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD.format(work=work, clearing_s=clearing_s)],
        stdout=subprocess.PIPE,
        text=True,
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


INTERRUPTED = """
import os, signal, sys, time
from iodyno.__main__ import main
from iodyno.cli import main as command

def interrupted(arguments=None):
    {work}

command.main = interrupted
main()
"""
SENT = "os.kill(os.getpid(), signal.SIGINT)"
TWICE_IN_CLEARING = f"""
    try:
        exec({SENT!r}, globals())
        time.sleep({WAITED_S})
    finally:
        {SENT}
        time.sleep(0.1)
        print("cleaned up", flush=True)
"""
LATE = f"""
    import atexit
    atexit.register(lambda: ({SENT}, print("ended", flush=True)))
    sys.exit(5)
"""


def test_an_interrupt_leaves_with_130_wherever_the_next_one_comes() -> None:
    # The first one comes within an `exec`, after which CPython would end by the signal.
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(work=TWICE_IN_CLEARING)], capture_output=True, text=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (130, "cleaned up\n", "")


def test_an_interrupt_while_python_ends_leaves_the_exit_code_as_it_is() -> None:
    found = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(work=LATE)], capture_output=True, text=True
    )
    assert (found.returncode, found.stdout, found.stderr) == (5, "ended\n", "")


def test_after_a_stop_the_way_out_takes_no_other_signal() -> None:
    end = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    script = (
        HEAD.format(work="await asyncio.sleep(1000)", clearing_s=0) + f"\n{end}\nprint('ended', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=WAITED_S)
    assert (process.returncode, said) == (0, "cleaned up\nstopped\nended\n")


def test_two_interrupts_within_a_second_are_one() -> None:
    with started("await asyncio.sleep(1000)", clearing_s=1.2) as process:
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=WAITED_S)
        assert (process.returncode, said) == (0, "cleaned up\nstopped\n")


def campaign_that(work: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def worked(*_: object, **__: object) -> None:
        await work()

    monkeypatch.setattr(execute, "run_campaign", worked)
    asked = experiment()
    execute.execute(asked, designs.plan(asked), Path("c"), resume=False, again="again")


def test_another_signal_than_ctrl_c_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def terminated() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(WAITED_S)

    with pytest.raises(Interrupted, match="stopped by SIGTERM; nothing was measured"):
        campaign_that(terminated, monkeypatch)


def test_what_no_signal_stopped_is_not_called_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a defect would look as if somebody had pressed Ctrl-C."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        campaign_that(cancelled, monkeypatch)


def test_a_stream_that_ends_within_a_command_is_not_called_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(name="check")
    def failing() -> None:
        raise EOFError("a frame is cut off")

    monkeypatch.setattr("iodyno.cli.check.command", failing)
    with pytest.raises(EOFError, match="a frame is cut off"):
        main.run(["check"])
