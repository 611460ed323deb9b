"""The recorder without a load: every operation of a device once, segments that rotate, and what a kill leaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from made_devices import SIZE, filtered_device, loop_device
from places import HUNG_S, ssh_place

from iodyno.analysis.histogram import bounds_of
from iodyno.analysis.recording import Recording
from iodyno.campaign.recording import Progress, RecordingSpec, record
from iodyno.campaign.trial import start_idle
from iodyno.core.errors import TrialError
from iodyno.core.experiment import HostSpec
from iodyno.hosts.access import AgentProgram
from iodyno.store.manifest import read_manifest, trial_folders
from iodyno.watch.board import Board
from iodyno.watch.facts import Sample
from iodyno.watch.stored import read_samples

pytestmark = pytest.mark.root
IODYNO = Path(sys.executable).with_name("iodyno")
DELAY_NS = 5_000_000
READS = 200


@contextlib.contextmanager
def recorder(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A recorder at work, which is ended when the test has not."""
    command: list[str | Path] = [IODYNO, "record", "--into", folder, *options, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        wait(lambda: records(folder) > 0, process)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + HUNG_S
    while not ready():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def records(folder: Path) -> int:
    """Intervals that stand in the folder, those of the segment under way too."""
    lines = sum(map(lines_of, journals(folder)))
    return lines + sum(rows(read_manifest(each)) for each in trial_folders(folder))


def journals(folder: Path) -> list[Path]:
    return list(folder.glob("trials/.partial-*/records.jsonl"))


def lines_of(journal: Path) -> int:
    """Whole lines; none of one that has just been put away."""
    try:
        return journal.read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def rows(manifest: Mapping[str, Any]) -> int:
    found: int = manifest["parts"]["records.parquet"]["rows"]
    return found


def began(segment: Path) -> float:
    """When a segment began, in seconds since 1970."""
    return datetime.fromisoformat(read_manifest(segment)["started_wall"]).timestamp()


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> Any:
    process.send_signal(number)
    out, said = process.communicate(timeout=HUNG_S)
    assert process.returncode == 0, said
    return json.loads(out)


def done(*words: str | Path) -> Any:
    ran = subprocess.run([IODYNO, *words], capture_output=True, text=True, timeout=HUNG_S)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def completed(device: Path) -> int:
    """Reads that the kernel says the device has done."""
    return int(Path("/sys/class/block", device.name, "stat").read_text().split()[0])


def read_from(device: Path, number: int) -> None:
    """So many reads, one after the other and nowhere in order, each of which is one request."""
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    page = mmap.mmap(-1, 4096)
    try:
        for place in random.Random(1).sample(range(SIZE // 4096), number):
            assert os.preadv(descriptor, [page], place * 4096) == 4096
    finally:
        os.close(descriptor)


def test_each_operation_of_a_device_is_recorded_once_whatever_segments_and_slots_it_is_in(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "recording"
    with (
        filtered_device(tmp_path, "--filter=delay", f"rdelay={DELAY_NS // 1_000_000}ms") as device,
        recorder(folder, "--every", "100ms", "--segment", "300ms", "--device", device.name) as process,
    ):
        before = completed(device)
        read_from(device, READS)
        did, over = completed(device) - before, time.time()
        # Records may be a while on their way: until a segment that began later is put away.
        wait(lambda: any(began(each) > over for each in trial_folders(folder)), process)
        said = ended(process)
    assert said["segments"] > 1 and did >= READS, (said, did)
    recording = Recording(folder)
    if not recording.devices():
        pytest.skip("no programs in the kernel here")
    (name,) = recording.devices()
    assert name == device.name
    # The device may have been looked at before, by who watches for new ones; and an operation of another one may be left out.
    whole = sum(row.operations for row in recording.device_rows(name, "read", 1))
    assert did - recording.left_out() <= whole <= completed_by(recording, did)
    for most in (3, 7, 200):
        found = recording.device_rows(name, "read", most)
        assert len(found) <= most and sum(row.operations for row in found) == whole
        assert sum(row.times.count for row in found) == sum(sum(row.times.counts) for row in found) == whole
        assert sum(row.bytes for row in found) >= 4096 * (READS - recording.left_out())
    # The mode lies where the delay was planted: no read is faster, but for the width of a bucket.
    (row,) = recording.device_rows(name, "read", 1)
    middle, mean = row.times.quantile(0.5), row.times.mean
    assert middle is not None and mean is not None
    assert middle >= 0.98 * DELAY_NS and mean >= DELAY_NS
    shown = done("heatmap", folder, "--operation", "read", "--json")
    assert shown["events"] == shown["in_cells"] == whole
    sizes = done("heatmap", folder, "--operation", "read", "--quantity", "size", "--json")
    assert sizes["events"] == sizes["in_cells"] == whole
    assert sum(count for _, row, count in sizes["cells"] if row == 0) >= READS - recording.left_out(), (
        "most reads are of 4 KiB"
    )
    report = done("report", folder, "--json")
    assert sum(each["operations"] for each in report["devices"][name]["read"]) == whole
    assert report["recording"]["intervals"] == said["intervals"] == recording.intervals
    # One job runs through all segments: between two of them there is no time that nobody recorded.
    recorded_ns = sum(slot.recorded_ns for slot in recording.slots(1))
    assert recorded_ns == pytest.approx(recording.length_s * 1e9, abs=20e6)


def completed_by(recording: Recording, did: int) -> int:
    """Most reads that can be recorded: those of the test, and what was read before it in the first intervals."""
    first = recording.device_rows(recording.devices()[0], "read", 200)[:2]
    return did + sum(row.operations for row in first)


def test_segments_rotate_within_what_is_kept_and_a_kill_loses_none_that_is_finished(tmp_path: Path) -> None:
    folder, keep = tmp_path / "recording", 160 * 1024
    quick = ("--every", "100ms", "--segment", "200ms", "--keep", f"{keep // 1024}KiB")
    with recorder(folder, *quick) as process:
        # As a day of segments of ten minutes.
        wait(lambda: number(newest(folder)) > 16, process)
        process.kill()
    there = {each.name: read_manifest(each) for each in trial_folders(folder)}
    assert there and number(min(there)) > 0, "the oldest are gone, others are there"
    # The rest is for journals, which grow while a busy machine puts one away.
    assert size(folder, "trials/[0-9]*") <= keep // 2
    left = {each.parent.name.removeprefix(".partial-"): lines_of(each) for each in journals(folder)}
    recovered = done("record", "--into", folder, *quick, "--for", "0s", "--json")
    assert recovered["recovered"] == sum(lines > 0 for lines in left.values()) and recovered["intervals"] == 0
    after = {each.name: read_manifest(each) for each in trial_folders(folder)}
    assert {name: after[name] for name in there if name in after}.items() <= there.items()
    for name, lines in left.items():
        assert not lines or rows(after[name]) == lines, (
            "what the killed one had of its last segments is there"
        )
    with recorder(folder, *quick) as process:
        wait(lambda: number(newest(folder)) > max(map(number, after)) + 2, process)
        ended(process, signal.SIGTERM)
    assert size(folder) <= keep and not list(folder.glob("trials/.partial-*"))
    found = [read_manifest(each) for each in trial_folders(folder)]
    begun = [datetime.fromisoformat(each["started_wall"]) for each in found]
    assert begun == sorted(begun) and len(set(begun)) == len(begun)
    recording = Recording(folder)
    assert recording.intervals == sum(rows(each) for each in found)
    slots = recording.slots(50)
    assert all(one.end_s == pytest.approx(other.begin_s) for one, other in pairwise(slots))
    assert (
        "finished"
        in subprocess.run([IODYNO, "watch", "--once", folder], capture_output=True, text=True).stdout
    )


def newest(folder: Path) -> str:
    return max((each.name for each in trial_folders(folder)), default="00000-1")


def number(name: str) -> int:
    return int(name.partition("-")[0])


def size(folder: Path, *grows: str) -> int:
    """Bytes of all that grows, or of that."""
    found = [each for one in grows or ("trials/*", "feed") for each in folder.glob(f"{one}/*")]
    return sum(each.stat().st_size for each in found if each.is_file())


def test_what_is_watched_while_it_is_recorded_and_later_are_the_operations_of_the_devices(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "recording"
    with loop_device(tmp_path / "disk") as device, recorder(folder, "--every", "200ms") as process:
        board = Board(folder)
        read_from(device, READS)
        last = records(folder)
        # Those on their way are of a second at most.
        wait(lambda: records(folder) > last + 5, process)
        board.refresh()
        live = reads_of(board.samples, device)
        board.close()
        ended(process)
    recording = Recording(folder)
    if not recording.devices():
        pytest.skip("no programs in the kernel here")
    assert READS - recording.left_out() <= live <= reads_of(read_samples(folder, "00000-1"), device)


def reads_of(samples: Iterable[Sample], device: Path) -> int:
    return sum(sample.amount("operations", first=f"{device.name} read") for sample in samples)


CALLER = """
import os, platform, sys, threading, time
NULL = os.open("/dev/null", os.O_WRONLY)
CALL = f"/proc/self/task/{threading.get_native_id()}/syscall"
SPLICE = {"x86_64": "275", "aarch64": "76"}[platform.machine()]
def moved(pauses):
    out, into = os.pipe()
    begun = []
    def fill():
        for number, pause in enumerate(pauses):
            # In this call, and not still in the one before, which may wait for the lock of the pipe.
            while len(begun) == number or open(CALL).read().split()[0] != SPLICE:
                time.sleep(1e-4)
            time.sleep(pause)
            os.write(into, b"x" * 100)
    threading.Thread(target=fill).start()
    for pause in pauses:
        begun.append(pause)
        os.splice(out, NULL, 4096)
print("begun", flush=True)
moved([float(sys.argv[1])])
print("early", flush=True)
sys.stdin.readline()
moved([float(sys.argv[3])] * int(sys.argv[2]))
file = os.open(__file__, os.O_RDONLY)
for _ in range(int(sys.argv[4])):
    os.pread(file, 10, 0)
print("done", flush=True)
moved([1000])
"""
"""Moves bytes between descriptors: once in a call that is begun before all else; so often, each time after a pause in which the
call waits; and once without an end.
"""


@pytest.mark.alone
def test_system_calls_are_recorded_with_the_time_that_they_are_made_to_take(tmp_path: Path) -> None:
    folder, program, moves, preads = tmp_path / "recording", tmp_path / "caller.py", 40, 3000
    program.write_text(CALLER)
    early_s = 3
    command = [sys.executable, program, f"{early_s}", f"{moves}", f"{DELAY_NS / 1e9}", f"{preads}"]
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdin and caller.stdout
        try:
            assert caller.stdout.readline() == "begun\n"
            with recorder(folder, "--every", "100ms", "--segment", "300ms", "--syscalls") as process:
                assert caller.stdout.readline() == "early\n"
                print(file=caller.stdin, flush=True)
                assert caller.stdout.readline() == "done\n"
                time.sleep(0.05)
                last = records(folder)
                wait(lambda: records(folder) > last, process)
                # What ends inside of a call ends the call.
                caller.kill()
                caller.wait(HUNG_S)
                last = records(folder)
                wait(lambda: records(folder) > last + 1, process)
                ended(process)
        finally:
            caller.kill()
    recording = Recording(folder)
    if not recording.calls():
        pytest.skip("no programs in the kernel here")
    assert recording.left_out("syscall") == 0
    (row,) = recording.call_rows("copy", 1)
    assert row.operations == row.times.count == sum(row.times.counts)
    # That which was begun before the recorder is in no series, however long it took. Other processes hardly move so slowly.
    bounds = [bounds_of(bucket)[0] for bucket in row.times.buckets]
    slow = sum(n for low, n in zip(bounds, row.times.counts, strict=True) if low >= 0.96 * DELAY_NS)
    assert moves + 1 <= slow <= 1.2 * moves and row.errors >= 1 and row.bytes >= 100 * moves
    assert max(bounds) < early_s * 1e9 and row.times.sum_ns >= moves * DELAY_NS
    (reads,) = recording.call_rows("read", 1)
    assert reads.operations == reads.times.count >= preads and reads.bytes >= 10 * preads
    for most in (3, 200):
        rows_of_reads = recording.call_rows("read", most)
        assert sum(one.operations for one in rows_of_reads) == reads.operations
    shown = done("heatmap", folder, "--syscall", "copy", "--json")
    assert shown["events"] == shown["in_cells"] == row.operations
    for words, said in ((("open",), "read, write, sync"), (("copy", "--device", "sda"), "--device")):
        refused = subprocess.run(
            [IODYNO, "heatmap", folder, "--syscall", *words], capture_output=True, text=True
        )
        assert refused.returncode and said in refused.stderr, refused
    report = done("report", folder, "--json")["system_calls"]
    assert sum(each["calls"] for each in report["copy"]) == row.operations
    assert sum(each["call_bytes"] for each in report["read"]) == reads.bytes
    watched = [s for name in trial_folders(folder) for s in read_samples(folder, name.name)]
    assert sum(sample.amount("calls", first="copy calls") for sample in watched) == row.operations


def test_an_agent_that_is_lost_is_started_anew_and_what_is_missing_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    with recorder(folder, "--every", "100ms") as process:
        (agent,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(agent), signal.SIGKILL)
        wait(lambda: (folder / "trials/00000-1").is_dir() and bool(journals(folder)), process)
        last = records(folder)
        wait(lambda: records(folder) > last, process)
        ended(process)
    first, second = (read_manifest(each) for each in trial_folders(folder))
    # A busy machine may be late for a start, which is said too.
    gone = "some time before it is missing: host host: the agent is gone"
    said = [[gone in warning["text"] for warning in manifest["warnings"]] for manifest in (first, second)]
    assert not any(said[0]) and any(said[1])


def test_the_first_reason_for_a_gap_stays_when_others_follow(
    program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = ["the agent is gone", "no answer", "the start is over", "no answer"]
    left = iter(reasons)

    async def started(*words: Any) -> int:
        for why in left:
            raise TrialError(why)
        return await start_idle(*words)

    monkeypatch.setattr("iodyno.campaign.recording.start_idle", started)
    folder, ms = tmp_path / "recording", 10**6
    folder.mkdir()
    spec, progress = RecordingSpec(100 * ms, 1000 * ms, 300 * ms), Progress()
    asyncio.run(record(spec, HostSpec("host", "local"), folder, progress, lambda text: None, program))
    (segment,) = trial_folders(folder)
    said = [warning["text"] for warning in read_manifest(segment)["warnings"]]
    assert "some time before it is missing: the agent is gone; then no answer" in said


def test_a_host_of_another_machine_is_recorded(program: AgentProgram, tmp_path: Path) -> None:
    if not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs sshd (Debian: openssh-server)")
    folder, ms = tmp_path / "recording", 10**6
    folder.mkdir()
    spec, progress = RecordingSpec(100 * ms, 1000 * ms, 300 * ms), Progress()
    with ssh_place(tmp_path / "place", 8) as place:
        host = HostSpec("host", "ssh", place.options)
        asyncio.run(record(spec, host, folder, progress, lambda text: None, program))
    assert progress.segments == 1 and progress.intervals >= 2
    recording = Recording(folder)
    assert recording.host == place.options["to"] and recording.intervals == progress.intervals
