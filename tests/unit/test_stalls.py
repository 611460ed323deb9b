"""When a load that moves nothing is given up: not in a pause that ends, soon where nothing shows that it would."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from iodyno.core.errors import TrialError
from iodyno.hosts.access import Access, AgentStreams
from iodyno.session import wire
from iodyno.session.sent import SentRecord
from iodyno.session.session import Session
from iodyno.session.simulated import SimulatedAccess

INTERVAL_NS = 250_000_000


async def taken(moved: list[int], window: str = "measured") -> list[SentRecord]:
    """What a lab takes of an agent that moves so many bytes in each interval."""
    reader = asyncio.StreamReader()
    # Nothing is sent to this agent, and nobody asks for its process.
    session = Session(
        cast(Access, SimulatedAccess("client")), AgentStreams(reader, cast(Any, None), cast(Any, None))
    )
    messages: list[dict[str, Any]] = []
    for index, count in enumerate(moved):
        times = {"begin_ns": index * INTERVAL_NS, "end_ns": (index + 1) * INTERVAL_NS}
        messages += [
            {"type": "progress", "window": window, "bytes": count, **times},
            {"type": "record", "index": index},
        ]
    for number, message in enumerate([*messages, {"type": "result", "records": len(moved)}]):
        reader.feed_data(wire.encode(number, message))
    found: list[SentRecord] = []
    try:
        await session.result(0, found.append)
    finally:
        session._tasks[0].cancel()
    return found


def test_a_pause_that_ends_is_part_of_the_trial() -> None:
    moved = [1000, 1000, *[0] * 7, 1000]
    assert len(asyncio.run(taken(moved))) == len(moved)


def test_a_load_that_moves_nothing_for_long_is_given_up_before_its_end() -> None:
    with pytest.raises(TrialError, match=r"no byte moved for 2\.0 s in 8 records"):
        asyncio.run(taken([1000, *[0] * 20, 1000]))


def test_a_load_that_moves_nothing_at_its_end_has_stalled() -> None:
    assert len(asyncio.run(taken([1000, 1000, 0]))) == 3
    with pytest.raises(TrialError, match=r"no byte moved for 0\.5 s in 2 records"):
        asyncio.run(taken([1000, 1000, 0, 0]))


def test_a_load_that_never_moved_anything_has_stalled() -> None:
    with pytest.raises(TrialError, match="no byte moved in the measured window"):
        asyncio.run(taken([0]))
    with pytest.raises(TrialError, match="no byte moved in the measured window"):
        asyncio.run(taken([1000], window="warm_up"))
