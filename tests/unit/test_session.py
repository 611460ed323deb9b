"""One agent that does not answer: every wait ends, and nobody waits on for what another one is to hear."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from places import PROGRAM

from iodyno.campaign import observed
from iodyno.core.errors import IodynoError, TrialError
from iodyno.hosts import access
from iodyno.hosts.access import Access, spawn
from iodyno.session import session as module
from iodyno.session import wire
from iodyno.session.session import Session
from iodyno.session.simulated import SimulatedAccess

_BEATS = """
import sys, time, json, zlib
sys.path.insert(0, sys.argv[1])
from iodyno.session import wire
for number in range(10_000):
    sys.stdout.buffer.write(wire.encode(number, {"type": "heartbeat"}))
    sys.stdout.buffer.flush()
    time.sleep(0.05)
"""


class _Host:
    name = "client"


async def _prepared(argv: list[str], job_bytes: int) -> tuple[str, IodynoError | None]:
    streams = await spawn(argv)
    session = Session(cast(Access, _Host()), streams)
    session._tasks.append(asyncio.create_task(session._beat()))
    try:
        async with asyncio.timeout(30):
            await session.prepare({"replay": "x" * job_bytes})
            await session.ready(0.2)
    except TrialError as error:
        return error.what, session._ended
    finally:
        streams.process.kill()
        await streams.process.wait()
        for task in session._tasks:
            task.cancel()
        await asyncio.gather(*session._tasks, return_exceptions=True)
    raise AssertionError("it was ready")


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOST_AFTER_S", 0.6)
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.1)


def test_an_agent_that_reads_nothing_is_given_up_also_with_a_large_job(soon: None) -> None:
    """300 kB do not fit into the pipe, so that the lab waits in the middle of its own word."""
    what, ended = asyncio.run(_prepared(["sleep", "60"], 300_000))
    assert "nothing was heard of the agent" in str(ended) or "has taken nothing" in what


def test_an_agent_that_speaks_and_does_not_read_is_given_up(soon: None) -> None:
    source = next(path for path in sys.path if path.endswith("src"))
    what, _ = asyncio.run(_prepared([sys.executable, "-c", _BEATS, source], 300_000))
    assert "has taken nothing for" in what


def test_an_agent_that_is_killed_in_the_middle_of_a_frame_is_gone() -> None:
    """As a command whose words end anywhere: it is no stream that something else writes into."""

    async def ended() -> IodynoError | None:
        frame = wire.encode(0, {"type": "heartbeat"})
        cut = f"import os, sys; sys.stdout.buffer.write({frame + frame[:5]!r}); sys.stdout.flush(); os.kill(os.getpid(), 9)"
        session = Session(cast(Access, _Host()), await spawn([sys.executable, "-c", cut]))
        session.hello = {"host": {}}
        await asyncio.wait_for(session._tasks[0], 30)
        return session._ended

    lost = asyncio.run(ended())
    assert isinstance(lost, TrialError) and lost.code == "agent_lost"
    assert lost.what.startswith("the agent is gone: killed by signal 9") and "end of a frame" in lost.what


class _Scripted(Session):
    """A session whose agent says what it is told to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._messages = asyncio.Queue()
        self._ended = None
        self._closing = False

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "abort":
            asyncio.get_running_loop().call_later(0.01, self._messages.put_nowait, {"type": "aborted"})


def test_an_observer_is_ready_for_the_next_trial_when_a_load_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def failed_load() -> bool:
        monkeypatch.setattr("iodyno.campaign.testbed._GRACE_S", 0.05)
        inside, outside = _Scripted("client"), _Scripted("client")
        inside._messages.put_nowait(
            {"type": "error", "code": "transport", "what": "reset", "try": "", "where": ""}
        )
        with pytest.raises(TrialError, match="reset"):
            await observed.result(inside, outside, 10**9, lambda _: None, None)
        return await outside.abort("the trial failed")

    monkeypatch.setattr(module, "RESPONSE_TIMEOUT_S", 1.0)
    assert asyncio.run(failed_load())


class _Unkillable:
    """A process in a call that no signal ends, as a read of a volume whose server is gone."""

    returncode = None

    def kill(self) -> None:
        return None

    async def wait(self) -> int:
        await asyncio.Event().wait()
        raise AssertionError("it never ends")


class _Broken:
    """A way to an agent that is gone."""

    transport = SimpleNamespace(get_write_buffer_size=lambda: 0)

    def write(self, data: bytes) -> None:
        return None

    def close(self) -> None:
        return None

    async def drain(self) -> None:
        raise ConnectionResetError("Connection lost")


def test_a_question_to_an_agent_that_ends_fails_once(caplog: pytest.LogCaptureFixture) -> None:
    async def asked() -> None:
        streams = await spawn(["sleep", "0.2"])
        session = Session(cast(Access, _Host()), replace(streams, writer=_Broken()))
        session.hello = {"type": "hello"}
        with pytest.raises(TrialError, match="the agent is gone"):
            await session.probe_clock()
        await session.close()
        gc.collect()

    asyncio.run(asked())
    assert not caplog.records, "what nobody took is complained of when it is forgotten"


def test_a_simulated_agent_that_has_nothing_to_do_is_heard_of(soon: None) -> None:
    """Of a thousand hosts the last one has its clock looked at when the first have waited for long."""

    async def waited() -> None:
        session = await Session.start(SimulatedAccess("client"), PROGRAM)
        await asyncio.sleep(1.0)
        assert session.alive
        await session.close()

    asyncio.run(waited())


def test_an_agent_that_the_kernel_does_not_let_go_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_KILLED_WITHIN_S", 0.05)

    async def closed() -> None:
        streams = await spawn(["sleep", "60"])
        real = streams.process
        session = Session(cast(Access, _Host()), replace(streams, process=cast(Any, _Unkillable())))
        try:
            async with asyncio.timeout(10):
                await session.close()
        finally:
            real.kill()
            await real.wait()

    asyncio.run(closed())
