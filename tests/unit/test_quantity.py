"""Sizes, durations and counts: what people write and what it becomes."""

from __future__ import annotations

import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from iodyno.cli.expect import check, conclude
from iodyno.cli.number import Seconds
from iodyno.core import expectation
from iodyno.core.errors import ExpectationError
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import Kind, parse, show, units
from iodyno.loads.disk.core.load import WORKLOAD

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
        ("size", "64Kib", "unknown unit 'Kib'; expected one of .*KiB"),
        ("size", "64KB", "unknown unit 'KB'; expected one of .*kB"),
        ("size", "64KiB/s", "unknown unit 'KiB/s'; expected one of .*KiB"),
        ("size", "-1", "0 or more"),
        ("size", "0.5", "a whole number of bytes"),
        ("size", "1e9999", "a size such as"),
        ("size", True, "a size such as"),
        ("size", float("nan"), "a size such as"),
        ("size", "", "a size such as"),
        ("duration", 10, "a unit is missing; expected one of ns, us"),
        ("duration", "10", "a unit is missing"),
        ("duration", "0.5ns", "a whole number of nanoseconds"),
        ("duration", "10KiB", "unknown unit 'KiB'"),
        ("count", "4k", "unknown unit 'k'; expected no unit"),
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
        assert "expected" in str(error)


def test_every_unit_that_is_named_is_read() -> None:
    for kind in KINDS:
        for unit in units(kind):
            assert parse(kind, f"2{unit}") >= 2


@pytest.mark.parametrize(
    ("kind", "written", "meant"),
    [
        ("bit_rate", "1GB/s", "8Gbit/s"), ("bit_rate", "1.5MiB/s", "12582912bit/s"), ("bit_rate", "10Gbps", "10Gbit/s"),
        ("bit_rate", "3Gb/s", "3Gbit/s"), ("bit_rate", "1gbit", "1Gbit/s"), ("size", "1Gbit", "125MB"),
        ("size", "64Kb", "64KiB, or 64kB"), ("size", "64KB", "64KiB, or 64kB"), ("size", "64kib", "64KiB"),
        ("duration", "5m", "5min"), ("duration", "2d", "48h"), ("duration", "3sec", "3s"), ("duration", "10usec", "10us"),
        ("duration", "1.5S", "1.5s"), ("rate", "20K/s", "20000/s"), ("rate", "1G/s", "1000000000/s"),
        ("rate", "10kiops", "10000/s"),
    ],
)  # fmt: skip
def test_a_unit_that_is_not_known_is_told_as_the_same_quantity(kind: Kind, written: str, meant: str) -> None:
    """Words that look alike may be eight, a thousand or sixty thousand times apart."""
    with pytest.raises(ValueError, match="unknown unit") as refused:
        parse(kind, written)
    assert str(refused.value).endswith(f"; did you mean {meant}?")
    if "," not in meant:
        parse(kind, meant)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        ("rate", "5MiB/s"),
        ("rate", "1Gbit/s"),
        ("size", "1MB/s"),
        ("bit_rate", "5MB"),
        ("count", "10k"),
        ("share", "5x"),
    ],
)
def test_where_another_quantity_is_written_no_unit_is_suggested(kind: Kind, written: str) -> None:
    with pytest.raises(ValueError, match="invalid value") as refused:
        parse(kind, written)
    assert "did you mean" not in str(refused.value)


@pytest.mark.parametrize(
    ("written", "load", "outcome", "bound"),
    [
        ("p99 <= 1ms", "disk", "service_time_p99_ns", 1e6),
        ("p99.9 <= 1ms", "rr", "latency_p999_ns", 1e6),
        ("mean <= 1 us", "tcp", "write_service_time_mean_ns", 1e3),
        ("throughput >= 1.5 GB/s", "disk", "bytes_per_s", 1.5e9),
        ("read_bytes_per_s >= 1MB/s", "disk", "read_bytes_per_s", 1e6),
        ("goodput >= 1 Tbit/s", "tcp", "goodput_bits_per_s", 1e12),
        ("client.cpu_ns_per_operation <= 20us", "rr", "client.cpu_ns_per_operation", 2e4),
        ("client.cpu_us_per_io <= 20us", "disk", "client.cpu_us_per_io", 20),
        ("client.cpu_ns_per_kib < 900", "tcp", "client.cpu_ns_per_kib", 900),
        ("iops >= 1000", "disk", "iops", 1000),
        ("loss <= 1%", "rr", "loss_ratio", 0.01),
        ("loss <= 0.01", "rr", "loss_ratio", 0.01),
    ],
)
def test_an_expectation_is_of_what_the_load_reports(
    written: str, load: str, outcome: str, bound: float
) -> None:
    found = expectation.parse(written, load)
    assert (found.outcome, found.bound) == (outcome, bound)


@pytest.mark.parametrize(
    ("written", "load", "said"),
    [
        ("goodput >= 10", "tcp", "a unit is missing; expected one of bit/s, .*, such as 10Gbit/s"),
        ("throughput >= 10", "disk", "a unit is missing; .* such as 500MB/s"),
        ("exchanges >= 10", "rr", "a unit is missing"),
        ("p99 <= 1", "disk", "a unit is missing"),
        ("loss <= 1", "tcp", "expected a share such as 1% or 0.01; did you mean 1%"),
        ("loss <= -1%", "tcp", "expected 0 or more"),
        ("goodput >= 1GB/s", "tcp", "did you mean 8Gbit/s"),
        ("goodput >= 1Gbit/s", "disk", "unknown outcome 'goodput': expected throughput, iops"),
    ],
)
def test_a_bound_that_leaves_open_how_much_is_meant_is_refused(written: str, load: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        expectation.parse(written, load)


def test_in_an_open_loop_a_time_counts_from_when_an_operation_was_due() -> None:
    found = [expectation.parse("p99 <= 1ms", load, opened=True).outcome for load in ("rr", "disk")]
    assert found == ["latency_from_schedule_p99_ns", "response_time_p99_ns"]


def test_a_bound_within_the_interval_is_decided_by_the_estimate_and_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = {"goodput_bits_per_s": Estimate(5e9, 4e9, 6e9, 3, "bit/s", "made")}
    for text, close in (("goodput >= 4.5Gbit/s", True), ("goodput >= 3Gbit/s", False)):
        conclude("iodyno tcp", check([expectation.parse(text, "tcp")], found), None)
        assert ("the bound lies in its interval" in capsys.readouterr().err) == close
    with pytest.raises(ExpectationError):
        conclude("iodyno tcp", check([expectation.parse("goodput >= 5.5Gbit/s", "tcp")], found), None)
    assert "the bound lies in its interval" in capsys.readouterr().err


@pytest.mark.parametrize(("written", "found"), [("10", 10), ("10s", 10), ("500ms", 0.5), ("2min", 120)])
def test_seconds_of_an_option_may_have_the_unit_that_files_ask_for(written: str, found: float) -> None:
    assert Seconds(0.1, 86_400).convert(written, None, None) == found


@pytest.mark.parametrize(
    ("written", "said"),
    [("70", "; did you mean 70%?"), (70, "; did you mean 70%?"), ("300", ""), ("300%", "")],
)
def test_a_share_above_one_is_asked_for_its_per_cent(written: str | int, said: str) -> None:
    share = WORKLOAD.parameter("read")
    assert share is not None
    with pytest.raises(ValueError, match=re.escape(f"expected 0% to 100%{said}") + "$"):
        share.parse(written)
