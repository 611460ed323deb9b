"""Times of operations as rows and columns, against counting by hand: nothing is lost, nothing is rounded."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_times import histogram, times

from iodyno.analysis.histogram import bounds_of, bucket_of
from iodyno.analysis.host_data import HostData
from iodyno.analysis.operation_times import (
    ROWS_MOST,
    joined,
    over_trials,
    rows_for,
    times_of,
)
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial

VALUES = st.lists(st.integers(0, 2**42 - 1), max_size=30)
SECOND = 1_000_000_000


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_every_time_is_in_the_row_that_it_belongs_to(columns: list[list[int]]) -> None:
    found = times(columns)
    rows = rows_for([found])
    if not any(columns):
        assert rows is None
        return
    assert rows is not None
    assert list(rows.edges) == sorted(set(rows.edges))
    for column, values in zip(found.columns, columns, strict=True):
        # By hand: a value is where its bucket is, and a bucket is whole.
        by_hand = Counter(bisect_right(rows.edges, bounds_of(bucket_of(value))[0]) - 1 for value in values)
        assert rows.counts(column.times) == by_hand
        for value in values:
            low, high = bounds_of(bucket_of(value))
            row = bisect_right(rows.edges, low) - 1
            assert rows.edges[row] <= low < high <= rows.edges[row + 1]


@given(st.lists(VALUES.filter(bool), min_size=1, max_size=5))
def test_rows_are_few_and_finer_ones_add_up_to_them(columns: list[list[int]]) -> None:
    found = times(columns)
    rows = rows_for([found])
    assert rows is not None
    assert rows.count <= max(ROWS_MOST, 43)
    fine = rows.finer(2000)
    assert set(rows.edges) <= set(fine.edges)
    assert (fine.edges[0], fine.edges[-1]) == (rows.edges[0], rows.edges[-1])
    for column in found.columns:
        summed: Counter[int] = Counter()
        for row, count in fine.counts(column.times).items():
            summed[bisect_right(rows.edges, fine.edges[row]) - 1] += count
        assert rows.counts(column.times) == summed


@given(st.lists(VALUES, min_size=1, max_size=12), st.integers(1, 12))
def test_joining_columns_and_trials_adds_counts(columns: list[list[int]], most: int) -> None:
    windows = "".join("wmd"[3 * place // len(columns)] for place in range(len(columns)))
    found = times(columns, windows)
    fewer = joined(found, most)
    assert len(fewer.columns) <= most + 2
    for window in ("warm_up", "measured", "drain"):
        assert fewer.within(window) == found.within(window)
    assert [c.begin_s for c in fewer.columns[1:]] == [c.end_s for c in fewer.columns[:-1]]
    both = over_trials([found, times(columns[:-1] or [[]], windows)])
    assert both.count == found.count + sum(map(len, columns[:-1]))
    assert len(both.columns) == len(columns)


def test_a_time_outside_of_the_rows_is_not_dropped_silently() -> None:
    rows = rows_for([times([[1000, 2000]])])
    assert rows is not None
    with pytest.raises(ValueError, match="1 times lie outside"):
        rows.counts(histogram([10**6]))


def host(name: str, role: str, values: list[list[int]], more: dict[str, list[list[int]]]) -> HostData:
    """A host with a record a second; the first one is warm-up. Its clock begins where it likes."""
    start = len(name) * 10**12
    return HostData(
        name,
        role,
        (0,),
        {},
        records=[
            Record(place, "measured" if place else "warm_up", start + place * SECOND, start + (place + 1) * SECOND, 0, 0, 1, 0)
            for place in range(len(values))
        ],
        histograms={place: histogram(each) for place, each in enumerate(values) if each},
        more_histograms={
            name: {place: histogram(each) for place, each in enumerate(found)} for name, found in more.items()
        },
    )  # fmt: skip


def trial(*hosts: HostData, beside: Trial | None = None) -> Trial:
    return Trial(
        *("00000-1", 0, 1, 0, 0, "p01", {}, {}, "finished", None, "", {}),
        hosts={each.name: each for each in hosts},
        bystanders={} if beside is None else {"bystander-2": beside},
    )


def test_operations_of_a_trial_by_clock_with_hosts_of_one_kind_together() -> None:
    found = times_of(
        trial(
            host(
                "one", "send", [[10], [20, 30]], {"response_time": [[15], [40, 50]], "lateness": [[1], [1]]}
            ),
            host("another", "send", [[10], [25]], {}),
            host("server", "receive", [[7], [7]], {"batch": [[3], [3]], "fsync": [[900], [950]]}),
            beside=trial(host("one", "send", [[1], [2]], {})),
        )
    )
    seen = {each.key: [each.count, each.hosts] for each in found}
    assert seen == {
        ("", "write", "service"): [5, ("one", "another")],
        ("", "write", "response"): [3, ("one",)],
        ("", "read", "service"): [2, ("server",)],
        ("", "fsync", "service"): [2, ("server",)],
        ("bystander-2", "write", "service"): [2, ("one",)],
    }
    writes = found[0]
    assert [(c.begin_s, c.end_s, c.window) for c in writes.columns] == [(0, 1, "warm_up"), (1, 2, "measured")]
    assert writes.within("measured") == histogram([20, 30, 25])


def test_a_load_with_classes_has_its_classes_and_one_without_has_all() -> None:
    classes = {
        "io.read": [[5], [6]],
        "io.write": [[7], [8]],
        "response.read": [[9], [10]],
        "waiting": [[1], [1]],
    }
    several = trial(host("one", "alone", [[5, 7], [6, 8]], classes))
    assert [each.key[1:] for each in times_of(several)] == [
        ("read", "service"),
        ("write", "service"),
        ("read", "response"),
    ]
    plain = trial(host("one", "alone", [[5, 7], [6, 8]], {"response_time": [[9], [10]]}))
    assert [each.key[1:] for each in times_of(plain)] == [("io", "service"), ("io", "response")]


def test_clients_of_one_machine_are_all_counted() -> None:
    one, two = (host(name, "alone", [[5], [6, 7]], {}) for name in ("one", "two"))
    found = trial(one)
    found.clients = {"one": one, "two": two}
    (times_,) = times_of(found)
    assert (times_.count, times_.hosts) == (6, ("one", "two"))


def test_what_did_nothing_is_no_operation() -> None:
    assert times_of(trial(host("one", "send", [[], []], {}))) == ()
    assert times_of(trial()) == ()
