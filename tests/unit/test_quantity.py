"""Sizes, durations and counts: what people write and what it becomes."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from iodyno.core.quantity import Kind, parse, show, units

KINDS: tuple[Kind, ...] = ("size", "duration", "count")


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("size", "64KiB", 65536),
        ("size", "256k", 262144),
        ("size", "32K", 32768),
        ("size", "1kB", 1000),
        ("size", "1MB", 10**6),
        ("size", "1MiB", 2**20),
        ("size", "1.5k", 1536),
        ("size", " 4096 ", 4096),
        ("size", "7 B", 7),
        ("size", 4096, 4096),
        ("size", "1e3", 1000),
        ("duration", "10s", 10**10),
        ("duration", "1.5s", 1_500_000_000),
        ("duration", "250ms", 250_000_000),
        ("duration", "3us", 3000),
        ("duration", "3µs", 3000),
        ("duration", "2min", 120 * 10**9),
        ("duration", "1h", 3600 * 10**9),
        ("count", 6000, 6000),
        ("count", "6000", 6000),
        ("count", 2.0, 2),
    ],
)
def test_what_people_write(kind: Kind, written: str | int | float, value: int) -> None:
    assert parse(kind, written) == value


@pytest.mark.parametrize(
    ("kind", "written", "said"),
    [
        ("size", "64Kib", "unknown unit 'Kib', allowed units: .*KiB"),
        ("size", "64KB", "unknown unit 'KB', allowed units: .*kB"),
        ("size", "64KiB/s", "unknown unit 'KiB/s', allowed units: .*KiB"),
        ("size", "-1", "0 or more"),
        ("size", "0.5", "a whole number of bytes"),
        ("size", "1e9999", "a size such as"),
        ("size", True, "a size such as"),
        ("size", float("nan"), "a size such as"),
        ("size", "", "a size such as"),
        ("duration", 10, "a unit is missing, allowed units: ns, us"),
        ("duration", "10", "a unit is missing"),
        ("duration", "0.5ns", "a whole number of nanoseconds"),
        ("duration", "10KiB", "unknown unit 'KiB'"),
        ("count", "4k", "unknown unit 'k', allowed units: none"),
        ("count", 1.5, "a whole number"),
    ],
)
def test_what_is_refused_with_what_is_allowed(kind: Kind, written: str | int | float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse(kind, written)


@given(st.sampled_from(KINDS), st.integers(0, 2**62))
def test_what_is_shown_is_read_back(kind: Kind, value: int) -> None:
    assert parse(kind, show(kind, value)) == value


@given(st.sampled_from(KINDS), st.text(max_size=30))
def test_any_text_is_a_whole_number_or_a_value_error(kind: Kind, written: str) -> None:
    try:
        assert parse(kind, written) >= 0
    except ValueError as error:
        assert "allowed" in str(error)


def test_every_unit_that_is_named_is_read() -> None:
    for kind in KINDS:
        for unit in units(kind):
            assert parse(kind, f"2{unit}") >= 2
