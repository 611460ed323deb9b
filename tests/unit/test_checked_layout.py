"""Which part of a target is to carry checks, and what cannot carry them."""

from __future__ import annotations

from typing import Any

import pytest

from iodyno.core.errors import CERTAIN, PreflightError, TrialError
from iodyno.hosts.target import Checks
from iodyno.loads.disk.campaign import clients as alone
from iodyno.loads.disk.campaign.checked_layout import parts_of
from iodyno.loads.disk.campaign.jobs import CHECK_SEED

MIB = 1 << 20


def point(**more: Any) -> dict[str, Any]:
    return {"target": "v.dat", "working_set": 8 * MIB, "block": 4096, "verify": "read", **more}


def test_the_part_is_all_that_points_with_checks_use() -> None:
    points = [point(), point(verify="write", offset=4 * MIB, read=0), point(verify="off", block=512)]
    assert parts_of(points) == {("v.dat", None): Checks(0, 12 * MIB, 4096, CHECK_SEED)}


def test_drawn_blocks_have_the_unit_that_the_agent_takes() -> None:
    drawn = point(block="mix(4KiB: 7, 64KiB: 1)")
    assert parts_of([drawn])["v.dat", None].unit_bytes == 512
    assert parts_of([drawn | {"align": 4096}])["v.dat", None].unit_bytes == 4096


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([{"block": 8192}], "units of 4096, 8192 bytes"),
        ([{"verify": "off", "read": 500_000}], "written without checks"),
        ([{"working_set": None}], "need a working set"),
        ([{"offset": 512}], "not whole units"),
    ],
)
def test_reads_that_would_not_find_their_checks_are_refused(others: list[dict[str, Any]], said: str) -> None:
    points = [point(), *({k: v for k, v in point(**other).items() if v is not None} for other in others)]
    with pytest.raises(PreflightError, match=said):
        parts_of(points)


def test_what_is_only_written_and_would_not_stay_is_left_out() -> None:
    written = point(verify="write", read=0)
    assert parts_of([written, written | {"block": 8192}]) == {}
    assert parts_of([written, point(verify="off", read=0)]) == {}
    assert parts_of([written | {"pattern": "append"}]) == {}


def test_wrong_data_is_certain() -> None:
    found = alone.classified(TrialError("wrong data at offset 4096 of it: expected", code="target"))
    assert found.code == alone.WRONG_DATA and found.code in CERTAIN
    assert alone.classified(TrialError("it is gone", code="target")).code == "target"
