"""A host that stands still for a while: the trial counts, and the report says for how long."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from places import MS, Notes, experiment, namespaces_of, processes_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode
from iodyno.hosts.access import AgentProgram

WINDOWS = Windows(100 * MS, 4000 * MS, 50 * MS, 500 * MS)
LONG_S = 1.0


def agent_of(host: str, program: AgentProgram) -> int:
    """The agent in the namespace of a host."""
    (name,) = [name for name in namespaces_of(os.getpid()) if name.endswith(f"-{host}")]
    inode = Path(f"/run/netns/{name}").stat().st_ino
    (pid,) = [pid for pid in processes_of(program.path) if Path(f"/proc/{pid}/ns/net").stat().st_ino == inode]
    return pid


async def measured(frozen: str, program: AgentProgram, folder: Path) -> Path:
    """A campaign of one trial of a stream, in the middle of which a host is frozen; "": none is."""
    notes = Notes()
    asked = experiment("netns", factors=(Factor("connections", (1,)),), windows=WINDOWS)
    task: asyncio.Task[Any] = asyncio.create_task(run(asked, folder, notes=notes, program=program))
    # Both hosts have told of the warm-up and of the window's first interval.
    while notes.records < 4 and not task.done():
        await asyncio.sleep(0.02)
    if frozen and not task.done():
        pid = agent_of(frozen, program)
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(LONG_S)
        finally:
            os.kill(pid, signal.SIGCONT)
    outcome = await task
    assert outcome.finished == 1, outcome
    return Path(outcome.folder)


@pytest.mark.root
@pytest.mark.parametrize("frozen", ["server", "client", ""])
def test_a_load_that_stood_still_within_its_window_is_told(
    frozen: str, program: AgentProgram, tmp_path: Path
) -> None:
    summary = analyse(read_dataset(asyncio.run(measured(frozen, program, tmp_path / "campaigns"))))
    warnings = [warning for warning in summary.warnings if warning.code is WarningCode.STALLED]
    gap_ns = summary.points[0].outcomes["longest_gap_ns"].estimate
    assert gap_ns is not None
    if frozen:
        (warning,) = warnings
        assert warning.text.startswith(f"server: no byte and no operation for {gap_ns / 1e9:.2f} s of the ")
        # The kernel's buffers are filled, or emptied, meanwhile.
        assert gap_ns > LONG_S * 1e9 / 2
    else:
        # A machine that is busy enough may keep a load from its CPUs, which is then said, too.
        assert not warnings or gap_ns > 200 * MS


@pytest.mark.root
def test_a_load_that_pauses_for_longer_than_its_window_is_not_given_up(
    program: AgentProgram, tmp_path: Path
) -> None:
    # The first write is in the warm-up, and the pause outlasts the two seconds after which silence is a stall.
    windows = Windows(100 * MS, 2200 * MS, 50 * MS, 200 * MS)
    asked = experiment("netns", factors=(Factor("think", (3000 * MS,)),), windows=windows)
    outcome = asyncio.run(run(asked, tmp_path / "campaigns", program=program))
    assert outcome.finished == 1, outcome
