"""Arrivals that still waited at the end of a window: only those that waited for others say that too much was offered."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.analysis import arrivals
from iodyno.analysis.host_data import HostData
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record

WINDOW_NS = 1_000_000_000


def left(due: int, waiting: int, oldest_ns: int) -> list[str]:
    """What is said of a window of a second."""
    values = {
        ("arrivals.due", ""): due,
        ("arrivals.begun", ""): due - waiting,
        ("arrivals.backlog", ""): waiting,
        ("arrivals.oldest_wait_ns", ""): oldest_ns,
    }
    host = HostData("client", "alone", (0,), {})
    host.records = [Record(0, "measured", 0, WINDOW_NS, 4096 * due, due - waiting, 1, 0)]
    host.readings = {arrivals.SENSOR: {0: Reading(WINDOW_NS, 0, None, values)}}
    trial: Any = type("Trial", (), {"name": "00000-1", "end": lambda self, role: host})()
    return [warning.text for warning in arrivals.check(trial)]


@pytest.mark.parametrize(("due", "waiting", "oldest_ns"), [(5, 1, 0), (5, 1, 40_000), (1000, 100, 900_000)])
def test_who_was_due_at_the_very_end_waits_for_nobody(due: int, waiting: int, oldest_ns: int) -> None:
    assert left(due, waiting, oldest_ns) == []


def test_arrivals_that_others_passed_are_told_with_their_number() -> None:
    assert left(1000, 200, 300_000_000)[0].startswith("200 arrivals still waited when the measured window")
    assert left(5, 1, 300_000_000)[0].startswith("1 arrival still waited when the measured window ended, the")


@pytest.mark.parametrize(("missed", "expected"), [(0, 0.0), (250, 0.2), (1166, 1.0)])
def test_no_more_arrivals_of_the_window_are_missed_than_were_due_in_it(missed: int, expected: float) -> None:
    """Whoever falls so far behind that arrivals of the warm-up are missed too missed all of the window."""
    host = HostData("client", "send", (0,), {})
    host.records = [
        Record(index, window, index * WINDOW_NS, (index + 1) * WINDOW_NS, 0, 0, 1, 0)
        for index, window in enumerate(("warm_up", "measured", "drain"))
    ]
    due, last = {("arrivals.due", ""): 1000}, {("arrivals.due", ""): 50, ("arrivals.missed", ""): missed}
    host.readings = {
        arrivals.SENSOR: {
            index: Reading(WINDOW_NS, 0, None, each) for index, each in enumerate((due, due, last))
        }
    }
    trial: Any = type("Trial", (), {"name": "00000-1", "end": lambda self, role: host})()
    found = arrivals.missed_ratio(trial)
    assert found.value == expected
