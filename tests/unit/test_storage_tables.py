"""Tables of a load on disks: each column says what it is of."""

from __future__ import annotations

from dataclasses import replace

import made_summary
import pytest

from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.summary import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.answer import answer
from iodyno.report.sentences import sentences
from iodyno.report.storage import storage_tables
from iodyno.report.text_table import plain


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


def of_synchronous_writes(half_ns: float, mean_ns: float) -> CampaignSummary:
    """Writes that are synchronous by themselves, and such that an fdatasync follows; the mean of the first is given."""
    made = made_summary.single()
    (point,) = made.points
    write = {"p50": half_ns, "mean": mean_ns, "p99": 8 * half_ns, "p999": 40 * half_ns}
    outcomes = {
        f"write_service_time_{name}_ns": made_summary.around(value, "ns") for name, value in write.items()
    }
    outcomes["iops"] = made_summary.around(5000.0, "1/s")
    outcomes["client.cpu_busy_ratio"] = made_summary.around(0.5, "1")
    flushed = {**outcomes, "fsync_service_time_p99_ns": made_summary.around(9e5, "ns")}
    flushed["write_service_time_mean_ns"] = made_summary.around(half_ns, "ns")
    none: dict[str, Estimate] = {"fsync_service_time_p99_ns": made_summary.nothing("ns")}
    points = tuple(
        replace(
            point, id=sync, levels={"sync": sync}, labels={"sync": sync}, outcomes={**point.outcomes, **own}
        )
        for sync, own in (("o_dsync", {**outcomes, **none}), ("fdatasync", flushed))
    )
    return replace(
        made,
        question="How long does a write take?",
        asked=("write_service_time_mean_ns", "iops"),
        workload={"kind": "disk", "hosts": ["client"], "settings": {"target": "/srv/work.dat"}},
        factors=(FactorLevels("sync", ("o_dsync", "fdatasync"), (), "", False),),
        factor_labels={"sync": ("o_dsync", "fdatasync")},
        points=points,
    )


def test_how_long_it_takes_is_answered_first_where_that_is_asked_and_what_the_mean_hides_beside_it() -> None:
    asked = of_synchronous_writes(1e5, 4e5)
    first = answer(asked, sentences(asked), ("disk-rate", "disk-times"))
    assert first.first[0].text.startswith("The mean service time of a write is")
    text = first.first[1].text
    assert "4.00 times the median" in text and "o_dsync" in text and "one in a thousand more than 4.0" in text
    assert first.picture == "disk-times"
    plain_ = of_synchronous_writes(1e5, 1e5)
    assert not any("mean tells little" in each.text for each in sentences(plain_)), "nothing is hidden"
    other = replace(asked, asked=("iops",))
    assert answer(other, sentences(other), ()).first[0].text.startswith("The rate")
