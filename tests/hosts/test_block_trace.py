"""`iodyno trace block` on a real device: every operation that is made is told, and `iodyno heatmap` reads it."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import HUNG_S

from iodyno.core.errors import AccessError
from iodyno.core.grid import Grid
from iodyno.loads.disk.core.replay import replay_of
from iodyno.loads.disk.formats.block_traces import parse_trace
from iodyno.session.block_trace import trace_block
from iodyno.session.reduce import reduce

pytestmark = pytest.mark.root
COUNT, BLOCK = 300, 4096


@pytest.fixture
def disk_file() -> Iterator[Path]:
    """On a disk, bypassing the page cache: what is in memory has no device."""
    path = Path("/var/tmp") / f"iodyno-trace-test-{os.getpid()}"
    try:
        path.write_bytes(bytes(COUNT * BLOCK))
        descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
        os.fsync(descriptor)
        os.close(descriptor)
    except OSError as error:
        pytest.skip(f"no direct reads and writes in /var/tmp: {error}")
    yield path
    path.unlink()


def traced(command: list[str]) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("iodyno")
    return subprocess.Popen([program, *command], stderr=subprocess.PIPE, stdout=subprocess.PIPE)


def begun(trace: Path) -> None:
    until = time.monotonic() + HUNG_S
    while not (trace.exists() and trace.stat().st_size) and time.monotonic() < until:
        time.sleep(0.01)


def read_all(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
    block = mmap.mmap(-1, BLOCK)
    for number in range(COUNT):
        assert os.preadv(descriptor, [block], number * BLOCK) == BLOCK
    os.pwritev(descriptor, [block], 0)
    os.fsync(descriptor)
    os.close(descriptor)


def test_every_operation_is_told_and_drawn(disk_file: Path, tmp_path: Path) -> None:
    trace = tmp_path / "block.trace"
    try:
        with (tmp_path / "probe").open("wb") as probe:
            trace_block(probe, seconds=0.01)
    except AccessError as error:
        pytest.skip(error.what)
    process = traced(["trace", "block", "-o", str(trace), "--json"])
    begun(trace)
    read_all(disk_file)
    # What is complete is in the ring; the command's end empties it.
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=HUNG_S)
    assert process.returncode == 0, complaint
    told = json.loads(out)
    head, *lines = trace.read_text().splitlines()
    assert head.split()[:4] == ["STIME(us)", "TIME(us)", "DELTA(us)", "DTIME(us)"]
    assert len(lines) == told["operations"]
    fields = [line.split() for line in lines]
    mine = [one for one in fields if one[5] == str(os.getpid()) and one[6] == "R" and one[8] == str(BLOCK)]
    # Each once; a machine that is busy with other blocks, too, may have had no room for some, and counts them.
    assert COUNT - told["no_room"] - told["unseen"] <= len(mine) <= COUNT, told
    for begin, end, took, at_device, *_ in mine:
        assert 0 <= int(at_device) <= int(took) <= int(end) - int(begin) + 1
    grid: Grid = reduce([trace])
    assert grid.events == len(lines) and grid.unreadable == 0
    assert grid.in_cells() + sum(grid.under) + sum(grid.over) == len(lines)
    # What has no place is in no map of offsets, and is counted.
    flushes = [one for one in fields if one[6] == "F"]
    assert all(one[7] == "-1" for one in flushes) and all(int(one[7]) < 1 << 60 for one in fields)
    placeless = sum(one[7] == "-1" for one in fields)
    offsets = reduce([trace], quantity="offset")
    assert offsets.events == len(lines) - placeless and offsets.edges[-1] < 2**60
    assert placeless == 0 or any(note.startswith(f"{placeless} operation") for note in offsets.notes)
    # And it can be replayed, flushes too.
    device = mine[0][9]
    again = parse_trace(trace.read_text(), device=device).operations
    here = [one for one in fields if one[9] == device]
    for letter, kind in (("R", "read"), ("W", "write"), ("F", "fsync")):
        said = sum(one[6] == letter and (letter == "F") == (one[8] == "0") for one in here)
        assert sum(operation.kind == kind for operation in again) == said
    told_to_agent = replay_of(again, {"working_set": 1 << 30, "beyond": "wrapped"})
    assert len(told_to_agent["offsets_bytes"]) == len(again)


def test_of_many_at_once_each_is_told_or_counted(disk_file: Path, tmp_path: Path) -> None:
    if not shutil.which("fio"):
        pytest.skip("fio is not installed: apt-get install fio")
    trace = tmp_path / "block.trace"
    process = traced(["trace", "block", "-o", str(trace), "--json"])
    begun(trace)
    job = f"--name=many --filename={disk_file} --rw=randrw --bs=4k --direct=1 --ioengine=libaio --iodepth=32 --norandommap"
    shown = subprocess.run(
        ["fio", *job.split(), "--time_based", "--runtime=1", "--output-format=json"],
        capture_output=True,
        check=True,
        timeout=HUNG_S,
    )
    (done,) = json.loads(shown.stdout)["jobs"]
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate(timeout=HUNG_S)
    assert process.returncode == 0, complaint
    told = json.loads(out)
    fields = [line.split() for line in trace.read_text().splitlines()[1:]]
    made = done["read"]["total_ios"] + done["write"]["total_ios"]
    # The kernel merges some, and hands some over later, by whoever runs then. Others' are told, too.
    blocks = sum(int(one[8]) // BLOCK for one in fields if one[6] in "RW")
    assert blocks >= made - told["no_room"] - told["unseen"], told
    once = Counter((one[0], one[6], one[7], one[9]) for one in fields if one[6] in "RW")
    assert set(once.values()) == {1}, "each once"


def test_a_device_that_is_not_there_is_one_error() -> None:
    process = traced(["trace", "block", "--device", "nodisk", "--seconds", "1"])
    _, complaint = process.communicate(timeout=HUNG_S)
    assert process.returncode == 2 and b"invalid value 'nodisk' for --device: expected" in complaint
