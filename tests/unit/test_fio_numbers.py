"""Numbers of job files mean what they mean to fio, or are refused with what that is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iodyno.loads.disk.fio import numbers


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
        with pytest.raises(ValueError, match="expected"):
            numbers.size(written + ")")
    else:
        assert numbers.size(written) == value


@pytest.mark.parametrize(
    ("read", "written", "to_fio"),
    [
        (numbers.size, "1.5m", "1"),
        (numbers.size, "4 k", "4"),
        (numbers.size, "0x1000k", "4096"),
        (numbers.size, "1q", "1"),
        (numbers.duration_ns, "5min", "5us"),
        (numbers.duration_ns, "2sec", "2us"),
        (numbers.duration_ns, "1.5s", "1s"),
        (numbers.duration_ns, "100ns", "100us"),
    ],
)
def test_what_fio_reads_as_something_else_than_it_says_is_refused(
    read: Callable[[str], int], written: str, to_fio: str
) -> None:
    with pytest.raises(ValueError, match=f"invalid value '{written}': it is {to_fio} to fio; expected a "):
        read(written)


@pytest.mark.parametrize(
    ("written", "ms"), [("(2*30)", 60_000), ("(1m+30s)", 90_000), ("(2500ms)", 2000), ("(1.5*10)", 15_000)]
)
def test_times_may_be_computed_and_are_whole_seconds_then(written: str, ms: int) -> None:
    assert numbers.duration_ns(written) == ms * 10**6
    assert numbers.duration_ns("(3*50)", "us") == 150_000


@pytest.mark.parametrize("written", ["70%", "70.5", "-1", "101"])
def test_a_share_is_a_whole_number_as_fio_reads_no_other(written: str) -> None:
    with pytest.raises(ValueError, match="expected 0 to 100"):
        numbers.whole_percent(written)


SIZES = (
    "65536",
    "64k",
    "64K",
    "64kb",
    "64ki",
    "64kib",
    "1m",
    "1MiB",
    "0x10000",
    "1.5m",
    "96 k",
    "0x10k",
    "1e",
    "7q",
)


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("kb_base", [1024, 1000])
def test_sizes_are_those_that_fio_moves(kb_base: int, tmp_path: Path) -> None:
    jobs = "".join(f"[j{number}]\nsize={size}\n" for number, size in enumerate(SIZES))
    (tmp_path / "j.fio").write_text(
        f"[global]\nioengine=null\nkb_base={kb_base}\nbs=1\nio_size=0\nthread\n{jobs}"
    )
    ran = subprocess.run(
        ["fio", "--output-format=json", "j.fio"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    moved = [job["read"]["io_bytes"] for job in json.loads(ran.stdout[ran.stdout.index("{") :])["jobs"]]
    for written, bytes_ in zip(SIZES, moved, strict=True):
        try:
            assert numbers.size(written, kb_base) == bytes_, written
        except ValueError as refused:
            assert f": it is {bytes_} to fio" in str(refused), written
