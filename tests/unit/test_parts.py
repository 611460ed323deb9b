"""Rates within a trial are known from more parts than its sensors have readings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from places import iodyno, saved

from iodyno.analysis import arrivals, goodput
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.readings import Reading, Values
from iodyno.analysis.records import Part, Record, parts_of, parts_together
from iodyno.loads.disk.analysis import classes

RECORD = Record(1, "measured", 1000, 1100, 50, 10, 1, 0)


def values(*ends: tuple[int, int, int]) -> Values:
    names = ("part.bytes", "part.operations", "part.end_ns")
    found = {
        (name, str(number)): amount
        for number, end in enumerate(ends)
        for name, amount in zip(names, end, strict=True)
    }
    return Reading(0, 0, None, found).values


def test_the_last_part_ends_with_its_record() -> None:
    found = parts_of(RECORD, values((10, 3, 40), (30, 4, 60)))
    assert found == (Part(10, 3, 40), Part(20, 1, 20), Part(20, 6, 40))
    assert parts_of(RECORD, values()) == (Part(50, 10, 100),)


@pytest.mark.parametrize("ends", [[(60, 3, 40)], [(10, 3, 100)], [(10, 3, 40), (9, 4, 60)]])
def test_parts_that_do_not_fit_their_record_are_none(ends: list[tuple[int, int, int]]) -> None:
    assert parts_of(RECORD, values(*ends)) == ()
    damaged = values((10, 3, 40))
    damaged.pop(("part.operations", "0"))
    assert parts_of(RECORD, damaged) == ()


def test_parts_of_several_hosts_are_added_where_they_were_cut_alike() -> None:
    one = replace(RECORD, parts=(Part(20, 4, 50), Part(30, 6, 50)))
    other = replace(RECORD, parts=(Part(1, 2, 49), Part(3, 4, 51)))
    assert parts_together([one, other]) == (Part(21, 6, 50), Part(33, 10, 50))
    assert parts_together([one, other], lambda part: part.operations * 100)[1] == Part(430, 10, 50)
    assert parts_together([one, RECORD]) == ()


@pytest.mark.root
@pytest.mark.parametrize("load", ["tcp", "rr", "disk --target null"])
def test_a_rate_is_over_fifty_parts_and_a_cost_over_ten_readings(load: str, tmp_path: Path) -> None:
    shown = iodyno(*load.split(), "--seconds", "1", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    *_, trial = read_dataset(tmp_path / saved(shown.stdout)).trials  # The first one may have had no CPU.
    rates = {"tcp": goodput.goodput, "rr": arrivals.operations}
    rate = rates.get(load, classes.operations_per_s)(trial)
    # A machine that is busy wakes the agent late, and two parts are one.
    assert 25 <= len(rate.intervals) <= 50
    for host in trial.hosts.values():
        assert sum(part.bytes for part in host.parts) == host.measured_bytes
        assert sum(part.operations for part in host.parts) == sum(r.operations for r in host.measured)
        assert sum(part.span_ns for part in host.parts) == host.measured_ns
