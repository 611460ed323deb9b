"""Tables of a load on disks: each column says what it is of."""

from __future__ import annotations

from dataclasses import replace

import made_summary
import pytest

from iodyno.report.storage import storage_tables
from iodyno.report.terminal import plain


@pytest.mark.parametrize("load_on", [["sut"], ["sut", "clients"]])
def test_several_machines_have_columns_that_say_over_whose_operations_they_are(load_on: list[str]) -> None:
    made = made_summary.single()
    cost = made_summary.around(20.0, "us")
    (point,) = made.points
    outcomes = {name: cost for host in ("sut", "clients") for name in (f"{host}.cpu_us_per_io",)}
    outcomes |= {f"{host}.cpu_busy_ratio": made_summary.around(0.5, "1") for host in ("sut", "clients")}
    workload = {"kind": "disk", "hosts": load_on, "settings": {"target": "/srv/work.dat"}}
    summary = replace(
        made, workload=workload, points=(replace(point, outcomes={**point.outcomes, **outcomes}),)
    )
    table = storage_tables(summary)[0]
    costs = [column for column in table.columns if "CPU/IO" in column.title]
    assert [column.group for column in costs] == ["sut", "clients"]
    own, other = costs
    assert own.title == "us of own CPU/IO"
    assert other.title == ("us of own CPU/IO" if "clients" in load_on else "us of CPU/IO of all")
    assert all("operations of" in column.hint for column in costs)
    heads = plain(table).splitlines()[1]
    assert "sut" in heads and "clients" in heads, "the host stands above its column"
