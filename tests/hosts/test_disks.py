"""Loads on disks as they are typed, on a small file: real agents, real namespaces, agents that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_devices import asked, filtered_device, loop_device, refuse_call
from made_targets import stamp_of
from places import HUNG_S, Notes, done_or_void, iodyno, own_agent, processes_of, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.limiter.verdict import of_trial
from iodyno.analysis.summary import analyse
from iodyno.core.errors import PreflightError
from iodyno.core.warnings import WarningCode
from iodyno.targets import throttle

MIB = 1 << 20


def test_a_file_is_laid_out_measured_used_again_and_removed(tmp_path: Path) -> None:
    words = ("disk", "--target", "work.dat", "--size", "8MiB", "--seconds", "0.5", "--json")
    shown = iodyno(*words, "--read", "70%", "--queue-depth", "4", "--direct", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    found = json.loads(shown.stdout)
    outcomes = found["points"][0]["outcomes"]
    reads, writes = (outcomes[f"{kind}_bytes_per_s"]["estimate"] for kind in ("read", "write"))
    assert 0.6 < reads / (reads + writes) < 0.8
    assert "client.load_from_cache_ratio" not in outcomes, "direct reads pass the page cache"
    assert outcomes["iops"]["estimate"] == pytest.approx((reads + writes) / 4096, rel=0.01)
    # A busy machine may have left nothing to tell the load's cost from; then it says why.
    cost = outcomes["client.cpu_us_per_io"]
    assert (cost["estimate"] or 0) > 0 or cost["missing"]
    middle, tail = (outcomes[f"read_service_time_{quantile}_ns"] for quantile in ("p50", "p99"))
    # A disk that others use, too, may have done too few for a hundredth of them.
    assert tail["missing"] if tail["estimate"] is None else middle["estimate"] <= tail["estimate"]
    header = json.loads((tmp_path / found["campaign"] / "campaign.json").read_text())
    (target,) = header["targets"].values()
    assert target["action"] == "made" and target["path"] == str(tmp_path / "work.dat")
    assert stamp_of(tmp_path / "work.dat") == {
        "size_bytes": 8 * MIB,
        "state": "complete",
        "pristine": False,
        "version": 2,
    }
    unsized = [word for word in words if word not in ("--size", "8MiB")]
    shown = iodyno(*unsized, "--rate", "500/s", "--arrivals", "poisson", "--remove-target", cwd=tmp_path)
    assert done_or_void(shown), shown.stderr
    assert "--size 8MiB" in shown.stderr, "as large as it is"
    found = json.loads(shown.stdout)
    (trial,) = read_dataset(tmp_path / found["campaign"]).trials
    if trial.status == "void":  # a busy machine cannot keep the rate, and says so
        assert "the generator fell behind" in str(trial.reason)
    else:
        assert found["points"][0]["outcomes"]["response_time_p50_ns"]["estimate"] > 0
    header = json.loads((tmp_path / found["campaign"] / "campaign.json").read_text())
    assert next(iter(header["targets"].values()))["action"] == "reused"
    assert not (tmp_path / "work.dat").exists()


def test_reads_that_the_device_never_saw_are_told_beside_their_rate(tmp_path: Path) -> None:
    """What was laid out a moment ago is in the page cache, and its rate is that of memory."""
    shown = iodyno("disk", "--target", "work.dat", "--size", "4MiB", "--seconds", "0.3", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (row,) = (line for line in shown.stdout.splitlines() if line.split()[:2] == ["From", "cache"])
    assert re.search(r" (9\d|100)(\.\d+)? % ", row)


JOBS = """[global]
size=4m
runtime=1
ramp_time=100ms
[readers]
filename=a:b
rw=randread
bs=4k
thinktime=20ms
thinktime_blocks=2
numjobs=2
[writer]
filename=c
rw=write
bs=64k
"""


def test_jobs_of_fio_run_at_the_same_time_with_pauses_and_on_several_files(tmp_path: Path) -> None:
    (tmp_path / "jobs.fio").write_text(JOBS)
    shown = iodyno("run", "jobs.fio", "--target", ".", "--json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    (trial,) = (tmp_path / json.loads(shown.stdout)["campaign"] / "trials").iterdir()
    hosts = json.loads((trial / "manifest.json").read_text())["hosts"]
    readers, writer = (hosts[name]["result"] for name in ("readers", "writer"))
    moved = {
        Path(target["path"]).name: (target["read_bytes"], target["written_bytes"])
        for result in (readers, writer)
        for target in result["disk"]["targets"]
    }
    assert [[amount > 0 for amount in moved[name]] for name in "abc"] == [
        [True, False],
        [True, False],
        [False, True],
    ]
    # A busy machine makes fewer, none makes more: two workers with two operations between two pauses of 20 ms.
    load_s = (readers["stopped_ns"] - readers["start_ns"]) / 1e9
    assert 0 < readers["operations"] <= 2 * 2 * (load_s / 0.02 + 1)


def test_cached_and_uncached_are_made_and_proved(tmp_path: Path) -> None:
    target = str(tmp_path / "work.dat")
    hosts = {"client": {"access": "local"}}
    # Each block is read at most once in the uncached trial: the file is not gone through in that time.
    experiment = asked(
        hosts,
        {"cached": ["yes", "no"]},
        target=target,
        working_set="64MiB",
        pattern="sequential",
        rate="500/s",
    )
    folder = asyncio.run(run(experiment, tmp_path)).folder
    dataset = read_dataset(folder)
    for trial in dataset.trials:
        (client,) = trial.clients.values()
        (account,) = client.manifest["result"]["disk"]["targets"]
        resident = account["resident_before_bytes"]
        assert resident == (64 * MIB if trial.levels["cached"] == "yes" else 0), account["resident_missing"]
        # A busy machine cannot keep the rate, or reads other files from the same device, and says so; what is asserted is that
        # it is not the cache that was wrong.
        others = ("the generator fell behind", "something else reads from the device")
        assert trial.status == "finished" or any(why in str(trial.reason) for why in others), trial.reason
    by_level = {t.levels["cached"]: analyse(dataset).points for t in dataset.trials}
    assert set(by_level) == {"yes", "no"}
    # A file that is read again and again is in the page cache, however it began: that is no uncached test.
    again = asked(hosts, {"cached": ["no"]}, target=target, measured="300ms", working_set="1MiB")
    dataset = read_dataset(asyncio.run(run(again, tmp_path)).folder)
    (trial,) = dataset.trials
    if (client := trial.clients["client"]).readings.get("disks") and trial.manifest["targets"]["client"][
        "device"
    ]:
        assert trial.status == "void" and "came from the page cache" in str(trial.reason), client.name


@pytest.mark.root
def test_eighteen_clients_start_together(tmp_path: Path) -> None:
    hosts = {"client": {"access": "netns", "count": 18}}
    notes = Notes()
    experiment = asked(hosts, {"block": ["4KiB"]}, target=str(tmp_path / "{host}.dat"), working_set="1MiB")
    outcome = asyncio.run(run(experiment, tmp_path, notes=notes))
    assert not outcome.failed
    dataset = read_dataset(outcome.folder)
    (trial,) = dataset.trials
    assert len(trial.clients) == 18 and list(trial.hosts) == ["client-1"]
    start = trial.manifest["start"]
    assert len(start["offset_ns"]) == 18 and start["skew_ns"] is not None
    point = analyse(dataset).points[0]
    each = [point.outcomes[f"{client}.iops"].estimate or 0.0 for client in trial.clients]
    fairness, iops = (point.outcomes[name].estimate or 0.0 for name in ("fairness", "iops"))
    assert min(each) > 0 and sum(each) == pytest.approx(iops, rel=0.01)
    assert 1 / 18 <= fairness <= 1
    assert (
        len({host["job"]["load"]["disk"]["targets"][0]["path"] for host in trial.manifest["hosts"].values()})
        == 18
    )
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"iodyno-{os.getpid()}-" not in left


@pytest.mark.parametrize("policy", ["fail", "go_on"])
def test_a_client_that_is_killed_fails_the_trial_or_is_an_event(tmp_path: Path, policy: str) -> None:
    program = own_agent(tmp_path)
    hosts = {"client": {"access": "local", "count": 2}}
    experiment = asked(
        hosts,
        {"block": ["4KiB"]},
        measured="1500ms",
        target=str(tmp_path / "work.dat"),
        on_client_loss=policy,
    )

    class Killer(Notes):
        """Kills one agent when the load has run for three records."""

        killed = 0

        def on_progress(self, host: str, progress: Any) -> None:
            super().on_progress(host, progress)
            if progress["window"] == "measured" and progress["index"] == 3 and not self.killed:
                self.killed = processes_of(program.path)[-1]
                os.kill(self.killed, signal.SIGKILL)

    killer = Killer()
    outcome = asyncio.run(run(experiment, tmp_path, notes=killer, program=program))
    assert killer.killed
    (trial,) = read_dataset(outcome.folder).trials
    if policy == "fail":
        assert len(outcome.failed) == 1 and trial.status == "failed"
        assert "the agent is gone" in str(trial.reason)
    else:
        assert trial.status == "finished" and len(trial.manifest["losses"]) == 1
        assert WarningCode.CLIENT_LOST in {warning.code for warning in trial.warnings}
        lost = trial.manifest["losses"][0]["host"]
        assert trial.manifest["hosts"][lost]["result"] is None
    assert not processes_of(program.path)


def test_what_the_agent_finds_wrong_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(4096))
    hosts = {"client": {"access": "local"}}
    with pytest.raises(PreflightError, match="fewer than the 8388608 of the working set"):
        asyncio.run(run(asked(hosts, {"block": ["4KiB"]}, target=str(tmp_path / "short")), tmp_path))


def test_a_target_that_is_removed_or_replaced_under_a_load_is_a_warning(tmp_path: Path) -> None:
    target = tmp_path / "work.dat"

    class Changing(Notes):
        def __init__(self, change: Callable[[], object]) -> None:
            super().__init__()
            self._change = change

        def on_progress(self, host: str, progress: object) -> None:
            self._change()

    def warnings_of(change: Callable[[], object]) -> list[str]:
        hosts = {"client": {"access": "local"}}
        experiment = asked(hosts, {"block": ["4KiB"]}, target=str(target), working_set="1MiB", read="100%")
        folder = asyncio.run(run(experiment, tmp_path / "campaigns", notes=Changing(change))).folder
        (trial,) = read_dataset(folder).trials
        return [warning.text for warning in trial.warnings if warning.code is WarningCode.TARGET_LOST]

    def remove() -> None:
        target.unlink(missing_ok=True)

    def replace() -> None:
        (tmp_path / "new").write_bytes(bytes(4096))
        (tmp_path / "new").replace(target)

    assert warnings_of(lambda: None) == []
    (removed,) = warnings_of(remove)
    assert "its name was removed while the load was on" in removed
    (replaced,) = warnings_of(replace)
    assert "its name was given to another file" in replaced


def test_what_no_host_can_have_is_refused_before_a_file_is_laid_out(tmp_path: Path) -> None:
    wrong = {
        "--block": ("--block", "1000", "--direct"),
        "--block:": ("--block", "uniform(1000, 5000)", "--direct"),
        "--arrivals": ("--arrivals", "poisson"),
        "--pattern": ("--pattern", "zipf"),
        "--random": ("--pattern", "zipf", "--theta", "0.9", "--random", "20%"),
        "--sync-every": ("--read", "0%", "--sync", "o_dsync", "--sync-every", "4"),
        "--stride": ("--pattern", "strided", "--stride", "1TiB"),
        "--queue-depth": ("--queue-depth", "8", "--syscalls", "pread"),
    }
    for option, words in wrong.items():
        shown = iodyno("disk", "--target", "work.dat", "--size", "1MiB", *words, cwd=tmp_path)
        assert "invalid value: 512B" not in shown.stderr, "nobody wrote that"
        named = any(f"{before} {option.rstrip(':')}: " in shown.stderr for before in ("error:", "for"))
        assert (shown.returncode, named) == (2, True), shown.stderr
    (tmp_path / "j.fio").write_text("[j]\nioengine=libaio\nnowait=1\nsize=1m\nruntime=1\n")
    shown = iodyno("run", "j.fio", cwd=tmp_path)
    assert (shown.returncode, "j.fio:3: [j] nowait" in shown.stderr) == (2, True), shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["j.fio"]


def test_a_host_that_refuses_io_uring_is_one_error_and_the_way_out(tmp_path: Path) -> None:
    io_uring_setup = 425  # asm-generic/unistd.h: one number on all machines
    words = ("disk", "--target", "work.dat", "--size", "1MiB", "--seconds", "0.2", "--syscalls", "io_uring")
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()", *words]
    shown = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        cwd=tmp_path,
        preexec_fn=lambda: refuse_call(io_uring_setup),
    )
    assert shown.returncode == 4, shown.stderr
    error, advice = shown.stderr.strip().splitlines()[-2:]
    assert "io_uring is not allowed here" in error and "aio or pread" in advice, shown.stderr


@pytest.mark.alone
def test_a_device_is_held_to_its_limit_and_let_go(tmp_path: Path) -> None:
    if why := throttle.unavailable():
        pytest.skip(why)
    image = Path("/var/tmp") / f"iodyno-limit-{os.getpid()}"
    hosts = {"client": {"access": "local"}}
    with loop_device(image) as device:
        try:
            experiment = asked(
                hosts,
                {"device_limit": ["20/s"]},
                target=str(device),
                direct="on",
                workers=4,
                measured="2s",
            )
            (trial,) = read_dataset(asyncio.run(run(experiment, tmp_path)).folder).trials
        finally:
            image.unlink(missing_ok=True)
    assert trial.finished, trial.reason
    limit = trial.manifest["targets"]["client"]["limit"]
    assert limit == {"device": device.name, "asked_operations_per_s": 20, "obtained": 20}
    (client,) = trial.clients.values()
    # At most as many as the limit lets through; the kernel may give what it saved up before, of half a second.
    done = sum(record.operations for record in client.measured)
    assert 0 < done <= 20 * (client.measured_ns / 1e9 + 0.5) + 4
    assert of_trial(trial).name == "client.disk_limit"
    left = [path for path in throttle.GROUPS.rglob("iodyno-throttle-*") if str(os.getpid()) in path.name]
    assert not left


def test_a_device_that_is_detached_under_a_load_is_one_error_or_counted(tmp_path: Path) -> None:
    """The kernel lets a loop device go when its last user has closed it: the load ends as if nothing was."""
    image = Path("/var/tmp") / f"iodyno-detached-{os.getpid()}"
    hosts = {"client": {"access": "local"}}

    class Detacher(Notes):
        done = False

        def on_progress(self, host: str, progress: Any) -> None:
            super().on_progress(host, progress)
            if progress["window"] == "measured" and not self.done:
                self.done = True
                subprocess.run(["losetup", "--detach", str(device)], check=True)

    with loop_device(image) as device:
        try:
            experiment = asked(hosts, {"block": ["4KiB"]}, target=str(device), direct="on", measured="1s")
            detacher = Detacher()
            outcome = asyncio.run(run(experiment, tmp_path, notes=detacher))
        finally:
            image.unlink(missing_ok=True)
    assert detacher.done
    (trial,) = read_dataset(outcome.folder).trials
    if trial.finished:
        (client,) = trial.clients.values()
        # On a busy machine there are intervals in which a load has no CPU.
        later = client.measured[len(client.measured) // 2 :]
        assert any(record.operations for record in later) or "errors" in str(trial.warnings)
    else:
        assert trial.reason and str(device) in str(trial.reason)


def test_an_operation_that_fails_is_one_error_with_its_place(tmp_path: Path) -> None:
    hosts = {"client": {"access": "local"}}
    trigger = tmp_path / "fails"
    words = ("--filter=error", "error-pread=EIO", "error-pread-rate=100%", f"error-file={trigger}")

    class Breaker(Notes):
        """Reads begin to fail when the load has run for some records."""

        def on_progress(self, host: str, progress: Any) -> None:
            super().on_progress(host, progress)
            if progress["window"] == "measured" and progress["index"] >= 3:
                trigger.touch()

    with filtered_device(tmp_path, *words) as device:
        experiment = asked(hosts, {"block": ["4KiB"]}, target=str(device), direct="on", measured="1500ms")
        outcome = asyncio.run(run(experiment, tmp_path, notes=Breaker()))
    assert trigger.exists() and len(outcome.failed) == 1, [entry.reason for entry in outcome.failed]
    (trial,) = read_dataset(outcome.folder).trials
    assert trial.status == "failed"
    reason = str(trial.reason)
    assert "read of 4096 bytes at offset" in reason and "Input/output error" in reason, reason
    assert str(device) in reason, reason


def test_a_layout_that_is_killed_is_made_anew(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()"]
    words = ["disk", "--target", "work.dat", "--size", "4GiB", "--seconds", "0.3"]
    process = subprocess.Popen(
        [*command, *words], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    target, end = tmp_path / "work.dat", time.monotonic() + 60
    while not (target.exists() and target.stat().st_size) and time.monotonic() < end:
        time.sleep(0.01)
    process.kill()
    process.wait()
    # The agent hears that the lab is gone, and removes what it has begun: the next run waits for it, and makes its own.
    shown = iodyno(
        "disk",
        "--target",
        "work.dat",
        "--size",
        "8MiB",
        "--seconds",
        "0.3",
        "--json",
        cwd=tmp_path,
    )
    assert shown.returncode == 0, shown.stderr
    found = stamp_of(target)
    assert found is not None and (found["state"], found["size_bytes"]) == ("complete", 8 * MIB)


@pytest.mark.root
def test_a_disk_that_is_full_is_one_clear_error(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(small)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"mount: {mounted.stderr.decode()}")
    try:
        words = ("--size", "64MiB", "--seconds", "0.3")
        shown = iodyno("disk", "--target", str(small / "work.dat"), *words, cwd=tmp_path)
        assert shown.returncode in (2, 4) and "free" in shown.stderr, shown.stderr
        assert not (small / "work.dat").exists(), "refused before the first byte"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_ctrl_c_during_a_layout_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()"]
    words = ["disk", "--target", "work.dat", "--size", "8GiB", "--seconds", "1"]
    process = subprocess.Popen(
        [*command, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    target = tmp_path / "work.dat"
    end = time.monotonic() + 60
    while not target.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert target.exists()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HUNG_S)
    assert process.returncode == 130, said
    assert not target.exists()


FILLS = """
set $io=4k
define fileset name=f,path=/x,entries=4,size=4k,prealloc
define process name=p { thread name=t,memsize=1m {
  flowop openfile name=open,filesetname=f,fd=1
  flowop appendfile name=append,fd=1,iosize=$io
  flowop closefile name=close,fd=1
  flowop delay name=pause,value=1
} }
"""


TOO_LARGE = """
define fileset name=f,path=/x,entries=1000,size=1t,prealloc
define process name=p { thread name=t,memsize=1m { flowop statfile name=s,filesetname=f } }
run 1
"""


def test_filesets_larger_than_the_disk_are_refused_once_and_before_any_trial(tmp_path: Path) -> None:
    (tmp_path / "large.f").write_text(TOO_LARGE)
    place = tmp_path / "place"
    place.mkdir()
    shown = iodyno("run", "large.f", "--target", str(place), cwd=tmp_path)
    assert shown.returncode == 4, shown.stderr
    assert shown.stderr.count(f"iodyno: error: {place}: the filesets take 1048576000 MiB") == 1
    assert "try: use fewer or smaller files" in shown.stderr and "trial" not in shown.stderr
    assert list(place.iterdir()) == []


@pytest.mark.root
def test_a_file_system_that_fills_during_the_load_fails_its_trial_and_costs_no_other(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    (tmp_path / "fills.f").write_text(FILLS)
    (tmp_path / "fills.yaml").write_text(
        f"""
name: fills
hosts: {{client: {{access: local}}}}
workload: {{kind: files, hosts: client, target: {small}, program: fills.f}}
factors: {{io: [4KiB, 16MiB]}}
design: {{kind: ladder, along: io, direction: up, replicates: 1}}
windows: {{warm_up: 0s, measured: 300ms, interval: 100ms}}
limits: {{retries: 0, background_window: 100ms, background: 1.0}}
profile: off
"""
    )
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(small)], check=True)
    try:
        shown = iodyno("run", "fills.yaml", "--json", cwd=tmp_path)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    # Every append of the second trial fails: nothing is claimed of it.
    assert shown.returncode == 5, shown.stderr
    assert "flowop_failed: the flowop append (appendfile) failed" in shown.stderr
    assert "No space left on device" in shown.stderr and "the file system is full" in shown.stderr
    (campaign,) = (tmp_path / "campaigns").iterdir()
    trials = read_dataset(campaign).trials
    finished = {int(trial.levels["io"]): trial.finished for trial in trials}
    assert finished[4096] and not finished.get(16 << 20, False)
    warnings = [d for trial in trials if trial.finished for d in trial.warnings]
    assert not [d for d in warnings if d.code is WarningCode.DISK_ERRORS]


def test_blocks_with_checks_are_kept_and_wrong_ones_stay_wrong(tmp_path: Path) -> None:
    def load(*words: str) -> subprocess.CompletedProcess[str]:
        named = ("disk", "--target", "v.dat", "--size", "2MiB", "--seconds", "0.2", "-v")
        return iodyno(*named, *words, cwd=tmp_path)

    written = load("--verify", "write", "--read", "0%")
    assert written.returncode == 0, written.stderr
    assert "writing 2 MiB of blocks with checks" in written.stderr
    held = (tmp_path / "v.dat").read_bytes()
    checked = load("--verify", "read")
    assert checked.returncode == 0, checked.stderr
    assert "kept and not written again" in checked.stderr and "writing 2 MiB" not in checked.stderr
    assert (tmp_path / "v.dat").read_bytes() == held
    with (tmp_path / "v.dat").open("r+b") as file:
        file.seek(100 * 4096)
        file.write(bytes(50 * 4096))
    held = (tmp_path / "v.dat").read_bytes()
    before = set((tmp_path / "campaigns").iterdir())
    wrong = load("--verify", "read")
    assert wrong.returncode == 5, wrong.stderr
    assert "wrong_data: wrong data at offset" in wrong.stderr and "--resume" not in wrong.stderr
    (campaign,) = set((tmp_path / "campaigns").iterdir()) - before
    assert len(list((campaign / "trials").iterdir())) == 1
    again = iodyno("run", str(campaign / "experiment.yaml"), "--resume", str(campaign), cwd=tmp_path)
    assert again.returncode == 5 and "wrong_data" in again.stderr
    assert (tmp_path / "v.dat").read_bytes() == held
    # A load without checks takes them away, and those that come are written first, with a word.
    assert load("--read", "0%").returncode == 0
    assert "writing 2 MiB of blocks with checks" in load("--verify", "read").stderr
