"""The sensor of the block layer against known truths: a device whose operations take a known time, and the trace of each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from made_devices import asked, filtered_device, loop_device
from places import run

from iodyno.analysis.cost import CostBasis
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.operation_times import times_of
from iodyno.analysis.outcomes import measure_named
from iodyno.analysis.trial import Trial
from iodyno.core.experiment import Experiment
from iodyno.loads.disk.analysis import block_times, devices, targets
from iodyno.session.locate import find_agent

pytestmark = pytest.mark.root
HOSTS = {"client": {"access": "local"}}
DELAY_NS = 5_000_000


def trial_of(experiment: Experiment, into: Path) -> Trial:
    folder = asyncio.run(run(experiment, into)).folder
    (trial,) = read_dataset(folder).trials
    assert trial.finished, trial.reason
    (host,) = trial.hosts.values()
    missing = {r.missing for r in host.readings["block_times"].values() if r.missing and not r.values}
    if missing:
        pytest.skip("; ".join(missing))
    return trial


def value(trial: Trial, name: str) -> float:
    found = measure_named(trial, f"client.{name}", CostBasis())
    assert found.value is not None, f"{name}: {found.missing}"
    return found.value


def counted(trial: Trial, metric: str, device: str) -> int:
    """Growth of a metric of the device over the whole trial."""
    (host,) = trial.hosts.values()
    return sum(
        number
        for reading in host.readings["block_times"].values()
        for (name, label), number in reading.values.items()
        if name == metric and f"dev={device}" in label.split(",")
    )


def test_a_device_with_a_known_delay_is_seen_to_take_it(tmp_path: Path) -> None:
    with filtered_device(tmp_path, "--filter=delay", f"rdelay={DELAY_NS // 1_000_000}ms") as device:
        experiment = asked(HOSTS, {"direct": ["on"]}, target=str(device), measured="1s", workers=2)
        trial = trial_of(experiment, tmp_path / "into")
    mean, p50 = (value(trial, f"device_service_time_{name}_ns") for name in ("mean", "p50"))
    # No read is faster than the delay, but for the width of a bucket.
    assert mean >= DELAY_NS and p50 >= 0.98 * DELAY_NS
    # What the load waits for holds what the device takes; of the few at the window's ends each may have counted others.
    own = measure_named(trial, "service_time_p50_ns", CostBasis()).value
    assert own is not None and own >= 0.9 * p50
    assert value(trial, "device_slow_operations_per_s") >= 0
    # The map of the device stands beside that of the load.
    by_name = {times.operation: times for times in times_of(trial)}
    assert by_name["read at the device"].count >= by_name["read"].within("measured").count > 0
    (host,) = trial.hosts.values()
    whole = counted(trial, "block.operations", device.name)
    assert sum(one.count for one in block_times.times_of(trial, host).values()) == whole


def test_every_operation_of_the_trace_is_counted_and_no_other(tmp_path: Path) -> None:
    program, trace = Path(sys.executable).with_name("iodyno"), tmp_path / "block.trace"
    with loop_device(Path("/var/tmp") / f"iodyno-block-times-{os.getpid()}") as device:
        command = [program, "trace", "block", "--device", device.name, "-o", trace, "--json"]
        tracer = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            end = time.monotonic() + 30
            while not (trace.exists() and trace.stat().st_size) and time.monotonic() < end:
                assert tracer.poll() is None, tracer.communicate()
                time.sleep(0.01)
            experiment = asked(
                HOSTS,
                {"direct": ["on"]},
                target=str(device),
                block="mix(4KiB: 7, 64KiB: 3)",
                queue_depth=4,
                syscalls="io_uring",
            )
            trial = trial_of(experiment, tmp_path / "into")
        finally:
            tracer.send_signal(signal.SIGINT)
            out, _ = tracer.communicate(timeout=60)
            (Path("/var/tmp") / f"iodyno-block-times-{os.getpid()}").unlink()
    assert json.loads(out)["no_room"] == 0
    (host,) = trial.hosts.values()
    # The target is looked at before the load, and not by it.
    start_us = host.records[0].begin_ns // 1000
    lines = [line.split() for line in trace.read_text().splitlines()[1:]]
    during = [line for line in lines if int(line[0]) >= start_us]
    # A busy kernel may run no program at the end of an operation: that is counted once its request begins the next one, and
    # said. And what ends after the last reading is not read any more.
    left_out = host.growth("block_times", "block.left_out") or 0
    assert [str(left_out) in warning.text for warning in block_times.lost(trial)] == (
        [True] if left_out else []
    )
    unread = sum(int(line[1]) >= host.records[-1].end_ns // 1000 for line in during)
    unseen = len(during) - counted(trial, "block.operations", device.name)
    not_begun_again = 64 if left_out else 0
    assert 0 <= unseen <= left_out + unread + not_begun_again
    assert counted(trial, "block.operations", device.name) > len(during) / 2
    if not unseen:
        assert counted(trial, "block.operation_bytes", device.name) == sum(int(line[8]) for line in during)
    assert counted(trial, "block.errors", device.name) == 0
    sizes = {
        block_times.parts_of(label)["size"]
        for _, label in host.sensed_times
        if f"dev={device.name}," in label
    }
    # Neighbours that wait together become one operation, of another size.
    assert sizes >= {"4KiB", "64KiB"}
    # The sums are those of the trace, which counts in whole microseconds, rounded down.
    total_us = sum(int(line[3]) for line in during)
    sums = [
        h.sum_ns
        for (metric, label), by_index in host.sensed_times.items()
        if metric == block_times.SERVICE and f"dev={device.name}," in label
        for h in by_index.values()
    ]
    # Each of the two programs reads the clock itself, one after the other.
    assert sum(sums) / 1000 == pytest.approx(total_us + len(during) / 2, rel=0.1)


def test_slow_operations_are_told_one_by_one(tmp_path: Path) -> None:
    with filtered_device(tmp_path, "--filter=delay", "rdelay=30ms") as device:
        experiment = asked(HOSTS, {"direct": ["on"]}, target=str(device), measured="1s")
        trial = trial_of(experiment, tmp_path / "into")
    (host,) = trial.hosts.values()
    slow = [one for one in block_times.slow_operations(trial, host) if one.device == device.name]
    assert slow and all(one.operation == "read" and one.total_ns > 30_000_000 for one in slow)
    assert all(0 <= one.sector < (64 << 20) // 512 and one.size_bytes == 4096 for one in slow)
    begin, end = host.records[0].begin_ns, host.records[-1].end_ns
    assert all(begin <= one.ended_ns <= end + 10**9 for one in slow)
    told = host.growth("block_times", "block.slow_operations", f"dev={device.name},operation=read,size=4KiB")
    assert told is not None
    # No more than 32 in an interval, so all of them. At either edge of the window one may end while a reading is made,
    # after the counts and before the events.
    assert abs(told - len(slow)) <= 2


def test_a_file_that_cannot_be_read_past_the_cache_is_one_clear_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for path in (tmp_path / "nowhere", empty):
        command = [find_agent().path, "calibrate", "--block", path]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30)
        said = ended.stderr.splitlines()
        assert ended.returncode == 70 and len(said) == 1, ended
        assert said[0].startswith(f"iodyno-agent: error: {path}: ") or "BPF" in said[0], said


def test_each_of_several_targets_has_its_own_numbers_and_the_busiest_device_stands_for_all(
    tmp_path: Path,
) -> None:
    words = ("--filter=delay", f"rdelay={DELAY_NS // 1_000_000}ms")
    with filtered_device(tmp_path, *words) as slow, loop_device(tmp_path / "fast") as fast:
        places = [str(fast), str(slow)]
        experiment = asked(HOSTS, {"direct": ["on"]}, target=", ".join(places), measured="1s", workers=2)
        trial = trial_of(experiment, tmp_path / "into")
        found = targets.measured(trial)
        assert list(found) == [("client", place, "read") for place in places]
        quick, delayed = ({name: one.value or 0.0 for name, one in each.items()} for each in found.values())
        assert delayed["service_time_p50_ns"] >= 0.98 * DELAY_NS > 2 * quick["service_time_p50_ns"]
        assert delayed["service_time_mean_ns"] >= DELAY_NS > quick["service_time_mean_ns"]
        # They are used in turn, and together are what the load did.
        together = quick["operations_per_s"] + delayed["operations_per_s"]
        assert together == pytest.approx(measure_named(trial, "iops", CostBasis()).value)
        assert quick["operations_per_s"] == pytest.approx(delayed["operations_per_s"], rel=0.2)
        assert delayed["bytes_per_s"] == pytest.approx(4096 * delayed["operations_per_s"])
        assert delayed["device_busy_ratio"] > 0.9 > quick["device_busy_ratio"]
        (host,) = trial.hosts.values()
        assert devices.device_of(trial, host) == f"dev={slow.name}"
    program, (folder,) = Path(sys.executable).with_name("iodyno"), (tmp_path / "into").iterdir()
    said = subprocess.run([program, "report", folder, "--json"], capture_output=True, text=True, check=True)
    (point,) = json.loads(said.stdout)["points"]
    rows = {one["target"]: one["service_time_p50_ns"]["estimate"] for one in point["targets"]}
    assert rows == {
        place: pytest.approx(one["service_time_p50_ns"])
        for place, one in zip(places, (quick, delayed), strict=True)
    }
    said = subprocess.run([program, "report", folder], capture_output=True, text=True, check=True)
    _, _, table = said.stdout.partition("Each target\n")
    assert [line.split()[1] for line in table.splitlines()[1:3]] == places
