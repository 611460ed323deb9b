"""Numbers of job files mean what they mean to fio, or are refused with what that is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iodyno.formats.fio import numbers


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("4k", 4096),
        ("(1.5*1m)", 3 << 19),
        ("(10k/4*4)", 10240),
        ("(10/4*4)", 8),
        ("0x10", 16),
        ("(1k + 2) * 2", None),
        ("(1k+2)", 1026),
        ("((8k-4k)/2)", 2048),
    ],
)
def test_sizes_may_be_computed(written: str, value: int | None) -> None:
    if value is None:
        with pytest.raises(ValueError, match="allowed"):
            numbers.size(written + ")")
    else:
        assert numbers.size(written) == value


@pytest.mark.parametrize(
    ("read", "written", "to_fio"),
    [
        (numbers.size, "1.5m", "1"),
        (numbers.size, "4 k", "4"),
        (numbers.size, "0x1000k", "4096"),
        (numbers.duration_ns, "5min", "5us"),
        (numbers.duration_ns, "2sec", "2us"),
        (numbers.duration_ns, "1.5s", "1s"),
        (numbers.duration_ns, "100ns", "100us"),
    ],
)
def test_what_fio_reads_as_something_else_than_it_says_is_refused(
    read: Callable[[str], int], written: str, to_fio: str
) -> None:
    with pytest.raises(ValueError, match=f"found '{written}', which is {to_fio} to fio, allowed: a "):
        read(written)


@pytest.mark.parametrize(
    ("written", "ms"), [("(2*30)", 60_000), ("(1m+30s)", 90_000), ("(2500ms)", 2000), ("(1.5*10)", 15_000)]
)
def test_times_may_be_computed_and_are_whole_seconds_then(written: str, ms: int) -> None:
    assert numbers.duration_ns(written) == ms * 10**6
    assert numbers.duration_ns("(3*50)", "us") == 150_000
