"""When a load that moves nothing is given up: not in a pause that ends, soon where nothing shows that it would."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from iodyno.campaign import distributions
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level
from iodyno.hosts.access import Access, AgentStreams
from iodyno.session import wire
from iodyno.session.sent import SentRecord
from iodyno.session.session import Session
from iodyno.session.simulated import SimulatedAccess

INTERVAL_NS = 250_000_000


async def taken(moved: list[int], window: str = "measured", silence_s: float = 0.0) -> list[SentRecord]:
    """What a lab takes of an agent that moves so many bytes in each interval, where silence may last so long."""
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
        await session.result(0, found.append, silence_s=silence_s)
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


def test_silence_between_arrivals_is_no_stall_as_long_as_it_is_no_wonder() -> None:
    assert len(asyncio.run(taken([1000, *[0] * 20, 1000, 0, 0, 0], silence_s=5.5))) == 25
    assert len(asyncio.run(taken([0] * 8, silence_s=2.5))) == 8
    with pytest.raises(TrialError, match=r"no byte moved for 3\.0 s in 12 records"):
        asyncio.run(taken([1000, *[0] * 20], silence_s=3.0))
    with pytest.raises(TrialError, match="no byte moved"):
        asyncio.run(taken([0] * 8, silence_s=1.9))


def longest_silence_s(settings: dict[str, Level]) -> float:
    """What the lab allows a load of these settings, by the jobs of both ends."""
    pauses = [("think", "compute"), ("reader_think", "server_compute")]
    laws = [distributions.arrivals(settings, 1), None]
    return distributions.longest_silence_s(
        [
            {"arrivals": law, "think_ns": settings.get(think, 0), "compute_ns": settings.get(compute, 0)}
            for law, (think, compute) in zip(laws, pauses, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("settings", "longest_s"),
    [
        ({}, 0.0),
        ({"rate": 1000}, 0.002),
        ({"rate": 2, "arrivals": "poisson"}, 10.5),
        ({"rate": 100, "arrivals": "bursty", "burst_on": 500_000_000, "burst_off": 4_000_000_000}, 4.21),
    ],
)
def test_how_long_nothing_may_arrive_follows_from_the_law(
    settings: dict[str, Level], longest_s: float
) -> None:
    assert longest_silence_s(settings) == pytest.approx(longest_s)


@pytest.mark.parametrize(
    ("settings", "longest_s"),
    [
        ({"think": 700_000_000}, 1.4),
        ({"reader_think": 700_000_000}, 1.4),
        ({"compute": 300_000_000, "server_compute": 200_000_000}, 1.0),
        ({"think": 700_000_000, "rate": 2}, 2.4),
    ],
)
def test_a_load_may_be_silent_while_its_ends_pause(settings: dict[str, Level], longest_s: float) -> None:
    assert longest_silence_s(settings) == pytest.approx(longest_s)


def test_the_longest_gap_of_a_trace_is_no_stall(tmp_path: Path) -> None:
    (tmp_path / "gaps").write_text("100ms\n100ms\n3.8s\n")
    own: dict[str, Level] = {"arrivals": f"trace({tmp_path / 'gaps'})"}
    assert longest_silence_s(own) == pytest.approx(7.6)
    # Three in four seconds, told to be thirty.
    assert longest_silence_s({**own, "rate": 30}) == pytest.approx(0.19)
