"""Sentences about classes of CPU time say nothing that the numbers do not carry."""

from __future__ import annotations

from dataclasses import replace

from made_summary import around, summary

from iodyno.report.class_sentences import what_makes_it
from iodyno.report.layout import layout_of


def said(**ns_per_kib: float) -> list[str]:
    """Of one point of 100 ns for a KiB, with such classes."""
    made = summary()
    point = made.points[0]
    parts = {f"sut.cpu_{kind}_ns_per_kib": around(value, "ns/KiB") for kind, value in ns_per_kib.items()}
    point = replace(point, outcomes={**point.outcomes, "sut.cpu_ns_per_kib": around(100, "ns/KiB"), **parts})
    return list(what_makes_it(layout_of(made), point, point, "sut"))


def test_a_class_that_is_more_than_the_whole_is_not_said_to_make_most_of_it() -> None:
    sound = said(usr=5, sys=60, softirq=20, irq=10, other=5)
    assert len(sound) == 1
    assert "system code makes most of what a KiB costs" in sound[0] and sound[0].endswith("60 %.")
    # Less than half is the largest part at the most.
    (largest,) = said(usr=44, sys=30, softirq=20, irq=5, other=1)
    assert "user code makes the largest part of what a KiB costs" in largest and largest.endswith("44 %.")
    # Less of the others ran than in the background that is taken off.
    assert said(usr=5, sys=10, softirq=5, irq=142, other=-62) == []


def test_most_is_said_of_both_ends_only_where_it_is_more_than_half_at_both() -> None:
    made = summary()
    ends = []
    for total, usr in ((100, 60), (1000, 460)):
        parts = {"usr": usr, "sys": 0.3 * total, "softirq": total - usr - 0.3 * total, "irq": 0, "other": 0}
        outcomes = {f"sut.cpu_{kind}_ns_per_kib": around(value, "ns/KiB") for kind, value in parts.items()}
        outcomes["sut.cpu_ns_per_kib"] = around(total, "ns/KiB")
        ends.append(replace(made.points[0], outcomes={**made.points[0].outcomes, **outcomes}))
    text = next(what_makes_it(layout_of(made), *ends, "sut"))
    assert text.startswith(
        "On sut, user code makes the largest part of what a KiB costs: 60 % of it where the cost is lowest"
    )
