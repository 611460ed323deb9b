"""Tables of a load on disks: each column says what it is of."""

from __future__ import annotations

from dataclasses import replace

import made_summary
import pytest

from iodyno import quick
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.disk.report.tables import storage_tables
from iodyno.report import html
from iodyno.report.answer import answer
from iodyno.report.sentences import sentences
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


def test_the_tile_of_a_percentile_says_of_which_time_it_is() -> None:
    made = of_synchronous_writes(1e6, 1.2e6)
    times = [tile.what for tile in html.tiles(made) if "p99" in tile.what]
    assert times == ["Longest p99 of the service time of a write"]


def shared_by(clients: int, *points: tuple[float, ...], fairness: tuple[float, ...] = ()) -> CampaignSummary:
    """Points at which the first clients of so many have these rates."""
    made = made_summary.single()
    (point,) = made.points
    names = [f"client-{number}" for number in range(1, clients + 1)]
    found = tuple(
        replace(
            point,
            id=f"p{place:02}",
            levels={"block": place},
            labels={"block": f"{place}KiB"},
            outcomes={
                "iops": made_summary.around(sum(rates), "1/s"),
                "fairness": made_summary.around(fair, "1"),
                **{
                    f"{name}.iops": made_summary.around(rate, "1/s")
                    for name, rate in zip(names, rates, strict=False)
                },
            },
        )
        for place, (rates, fair) in enumerate(zip(points, fairness, strict=True), start=1)
    )
    labels = tuple(one.labels["block"] for one in found)
    return replace(
        made,
        workload={"kind": "disk", "hosts": names, "settings": {"target": "/srv/work.dat"}},
        points=found,
        factors=(FactorLevels("block", tuple(range(1, len(found) + 1)), (), "", False),),
        factor_labels={"block": labels},
    )


def said_of_clients(summary: CampaignSummary) -> str:
    return next(one.text for one in sentences(summary) if "clients" in one.text)


def test_who_is_slowest_is_said_of_the_least_fair_point() -> None:
    """Streams of one point and random blocks of another have no mean in common."""
    mixed = shared_by(3, (9000.0, 9900.0, 9900.0), (200.0, 50.0, 100.0), fairness=(0.99, 0.85))
    said = said_of_clients(mixed)
    assert "client-2 is the slowest at the least fair point (block 2KiB), with 42.9% of the mean rate" in said
    assert "at others it is another one" in said and "is 0.85" in said
    always = shared_by(3, (5000.0, 9900.0, 9900.0), (50.0, 200.0, 100.0), fairness=(0.9, 0.85))
    assert "client-1 is the slowest at every point, with 42.9%" in said_of_clients(always)
    fewer = shared_by(3, (5000.0, 9900.0), (50.0, 200.0, 100.0), fairness=(0.9, 0.85))
    assert "Of 2 to 3 clients client-1 is the slowest at every point" in said_of_clients(fewer)
    even = shared_by(3, (100.0, 100.0, 99.0), (50.0, 50.0, 50.0), fairness=(1.0, 1.0))
    assert said_of_clients(even).startswith("All 3 clients have the same rate to within 0.7%")


def test_points_of_which_no_client_is_shown_are_counted_and_the_least_fair_is_shown() -> None:
    """Six hosts of which three take part: ten points have thirty rows."""
    rates, fair = (100.0, 90.0, 80.0), tuple(1 - place / 100 for place in range(20))
    few = storage_tables(shared_by(6, *[rates] * 10, fairness=fair[:10]))[-1]
    assert few.title == "Each client" and len(few.rows) == 30
    many = storage_tables(shared_by(6, *[rates] * 20, fairness=fair))[-1]
    assert many.title.startswith("Each client, at 13 of 20 points: the least fair")
    assert len(many.rows) == 39 and many.rows[-1][0].text == "block 20KiB"


def test_a_client_that_was_lost_is_marked_and_is_not_called_slow() -> None:
    made = shared_by(3, (100.0, 90.0, 40.0), fairness=(0.9,))
    lost = Warning(WarningCode.CLIENT_LOST, "the client was lost", "00000-1, host client-3")
    made = replace(made, points=(replace(made.points[0], warnings=(lost,)),))
    assert [row[1].text for row in storage_tables(made)[-1].rows] == [
        "client-1",
        "client-2",
        "client-3, until it was lost",
    ]
    said = said_of_clients(made)
    assert "Of 2 clients client-2 is the slowest" in said
    assert "Lost on the way, and not among them: client-3." in said


@pytest.mark.parametrize(
    ("levels", "shown"),
    [
        ({"rate": "100/s"}, True),
        ({"arrivals": "trace(gaps.txt)"}, True),
        ({"arrivals": "closed"}, False),
        ({}, False),
    ],
)
def test_every_open_loop_shows_its_response_times(levels: dict[str, str], shown: bool) -> None:
    assert ("response_time_p99_ns" in quick.outcomes_of_target(levels)) is shown
    assert ("latency_from_schedule_p99_ns" in quick.outcomes_of_requests(levels)) is shown


def test_times_of_fsyncs_and_of_responses_are_told_in_whole_words() -> None:
    """The words stand in sentences, as what `is` so long."""
    made = of_synchronous_writes(50_000.0, 200_000.0)
    names = ("fsync_service_time_p99_ns", "response_time_p99_ns")
    points = [
        replace(p, outcomes={**p.outcomes, **{name: made_summary.around(9e5, "ns") for name in names}})
        for p in made.points
    ]
    said = " ".join(sentence.text for sentence in sentences(replace(made, points=tuple(points))))
    assert "service time of an fsync is" in said
    assert "response time (from when it was to begin) is" in said
