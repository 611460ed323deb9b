"""Every level of `volume`, really made: what is written through it is read through it, and nothing of it is left."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_server
import pytest
from places import HUNG_S, Notes, run

from iodyno import run_folder
from iodyno.analysis.dataset import read_dataset
from iodyno.core.errors import AccessError
from iodyno.core.volume import FILE_SYSTEMS, FOR_MANY, MOUNT_OPTIONS, OVER_NETWORK, SERVER, VOLUMES
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.analysis import cache
from iodyno.loads.files.analysis.flowops import programs_of
from iodyno.paths.volumes import file_system, table
from iodyno.paths.volumes import volume as volumes
from iodyno.paths.volumes.volume import Place, remove_leftovers

pytestmark = [pytest.mark.root, pytest.mark.alone]
NOTES = run_folder.RUN / volumes.NOTES
SIZE = 16 << 20
BLOCK = 4096
_LEAST = {"ext4": SIZE, "xfs": 320 << 20}
"""mkfs.xfs(8) makes none of less than 300 MiB."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """On a disk: what is in memory takes no direct reads and writes."""
    made = Path("/var/tmp") / f"iodyno-test-{os.getpid()}"
    made.mkdir(exist_ok=True)
    yield made
    left = list(made.iterdir())
    made.rmdir() if not left else None
    assert not left


def machine() -> set[str]:
    """All that a volume makes outside of its folder."""
    lines = {
        line
        for command in ("ip netns list", "losetup -a", "mount")
        for line in subprocess.run(
            command.split(), capture_output=True, text=True, check=True
        ).stdout.splitlines()
        # Where `ip` keeps the names: it mounts it with the first of a machine, and leaves it.
        if " on /run/netns type " not in line
    }
    # Of a device its name alone: whether it is up may change by itself.
    links = {f"link {path.name}" for path in Path("/sys/class/net").iterdir()}
    notes = {path.name for path in NOTES.glob("*.json")} if NOTES.is_dir() else set()
    return lines | links | notes


def left(before: set[str]) -> set[str]:
    """What is there and was not before. The kernel removes what is in a namespace some time after the namespace."""
    end = time.monotonic() + 60
    while (more := machine() - before) and time.monotonic() < end:
        time.sleep(0.05)
    return more


@pytest.mark.parametrize("level", list(VOLUMES))
def test_what_is_written_is_read_and_nothing_is_left(level: str, folder: Path) -> None:
    if why := table.unavailable(level):
        pytest.skip(why)
    before = machine()

    async def scenario() -> None:
        volume = await table.make(level, Place(folder, SIZE))
        try:
            descriptor = os.open(volume.target, os.O_RDWR | os.O_DIRECT)
            written, read = mmap.mmap(-1, BLOCK), mmap.mmap(-1, BLOCK)
            written.write(os.urandom(BLOCK))
            assert os.lseek(descriptor, 0, os.SEEK_END) >= SIZE
            for place in (0, SIZE - BLOCK):
                assert os.pwritev(descriptor, [written], place) == BLOCK
                assert os.preadv(descriptor, [read], place) == BLOCK
                assert bytes(read) == bytes(written)
            os.close(descriptor)
            assert volume.gone() is None
            assert volume.facts()["level"] == level and volume.device == str(volume.target).startswith(
                "/dev/"
            )
            assert (SERVER in volume.roles) == (level in OVER_NETWORK)
            assert all(Path(f"/proc/{pid}").exists() for pids in volume.roles.values() for pid in pids)
        finally:
            await volume.close()
            await volume.close()

    asyncio.run(scenario())
    assert not left(before)


@pytest.mark.parametrize(("level", "with_files"), [("loop", False), ("nbd", False), ("nbd", True)])
def test_a_lab_that_is_killed_leaves_what_the_next_one_removes(
    level: str, with_files: bool, folder: Path
) -> None:
    if why := table.unavailable(level):
        pytest.skip(why)
    before = machine()
    program = textwrap.dedent(
        f"""
        import asyncio, os, pathlib, signal
        from iodyno.paths.volumes import table
        from iodyno.paths.volumes.volume import Place
        async def main():
            await table.make({level!r}, Place(pathlib.Path({str(folder)!r}), {SIZE}, with_files={with_files}))
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
        """
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert killed.returncode == -9, killed.stderr
    assert machine() - before
    assert len(remove_leftovers()) == 1
    assert not left(before)


@pytest.mark.parametrize("level", sorted(FOR_MANY))
def test_each_client_has_a_part_of_its_own(level: str, folder: Path) -> None:
    """What one writes is not what another reads, and their parts are as large as was asked."""
    if why := table.unavailable(level):
        pytest.skip(why)
    before = machine()

    async def scenario() -> None:
        volume = await table.make(level, Place(folder, SIZE, {"a": None, "b": None}))
        try:
            parts = [volume.target_of(name) for name in ("a", "b")]
            assert len(set(parts)) == 2 and volume.gone() is None
            for part, letter in zip(parts, (b"a", b"b"), strict=True):
                assert part.stat().st_size == SIZE
                with part.open("r+b", buffering=0) as file:
                    file.write(letter * BLOCK)
                    file.seek(SIZE - BLOCK)
                    file.write(letter * BLOCK)
                    os.fsync(file.fileno())
            assert volume.image is not None
            image = volume.image.read_bytes()
            places = (0, SIZE - BLOCK, SIZE, 2 * SIZE - BLOCK)
            assert [image[place : place + 1] for place in places] == [b"a", b"a", b"b", b"b"]
            assert len(volume.roles["client_daemon"]) >= 2 and len(volume.processes[SERVER]) >= 1
        finally:
            await volume.close()

    asyncio.run(scenario())
    assert not left(before)


def test_files_of_a_client_are_on_its_part(folder: Path) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)
    before = machine()

    async def scenario() -> None:
        volume = await table.make("nbd", Place(folder, SIZE, {"a": None, "b": None}, with_files=True))
        try:
            text = os.urandom(BLOCK)
            (volume.target_of("b") / "file").write_bytes(text)
            assert not (volume.target_of("a") / "file").exists()
            assert volume.image is not None
            # With the server when the call returned: nothing was told to write it back.
            assert text in volume.image.read_bytes()[SIZE:]
        finally:
            await volume.close()

    asyncio.run(scenario())
    assert not left(before)


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.parametrize("options", [MOUNT_OPTIONS, "relatime"])
def test_a_file_system_is_made_and_mounted_as_asked(kind: str, options: str, folder: Path) -> None:
    if why := table.unavailable("nbd") or file_system.unavailable(kind):
        pytest.skip(why)
    before = machine()
    place = Place(folder, _LEAST[kind], with_files=True, file_system=kind, mount_options=options)

    async def scenario() -> None:
        volume = await table.make("nbd", place)
        try:
            found = subprocess.check_output(
                [
                    "findmnt",
                    "--noheadings",
                    "--raw",
                    "--output",
                    "FSTYPE,OPTIONS",
                    "--mountpoint",
                    volume.target,
                ],
                text=True,
            ).split()
            assert found[0] == kind == volume.made["file_system"]
            assert set(found[1].split(",")) == set(volume.made["mount_options"].split(","))
            assert set(options.split(",")) <= set(found[1].split(","))
            text = os.urandom(BLOCK)
            (volume.target / "file").write_bytes(text)
            assert volume.image is not None
            assert (text in volume.image.read_bytes()) == ("sync" in options)
        finally:
            await volume.close()

    asyncio.run(scenario())
    assert not left(before)


def test_file_systems_are_a_factor_and_one_that_cannot_be_had_is_skipped(
    tmp_path: Path, folder: Path
) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)
    keys = {
        "name": "file_systems",
        "hosts": {"client": {"access": "local"}},
        "workload": {"kind": "disk", "hosts": "client", "volume": "nbd", "work": "create_files",
                     "volume_folder": str(folder), "working_set": _LEAST["xfs"]},
        "factors": {"file_system": ["ext4", "xfs"]},
        "design": {"replicates": 1},
        "windows": {"warm_up": "0s", "measured": "200ms", "interval": "100ms"},
        "limits": {"retries": 1, "background_window": "100ms", "background": 1.0},
        "profile": "off",
    }  # fmt: skip
    outcome = asyncio.run(run(parse_experiment(experiment_text(keys), environment={}), tmp_path))
    why = file_system.unavailable("xfs")
    skipped = json.loads((outcome.folder / "campaign.json").read_text())["skipped"]
    assert outcome.finished == (1 if why else 2)
    assert [*skipped.values()] == ([why] if why else [])


@pytest.mark.parametrize("level", ["nbd", "nfs"])
def test_the_page_cache_of_a_server_is_made_and_proved_for_several_clients(
    level: str, tmp_path: Path, folder: Path
) -> None:
    if why := table.unavailable(level):
        pytest.skip(why)
    experiment = parse_experiment(
        experiment_text(
            {
                "name": "served",
                "hosts": {"client": {"access": "netns", "count": 2}},
                "workload": {
                    **{"kind": "disk", "hosts": "client", "volume": level, "working_set": "8MiB"},
                    **{"direct": "on", "volume_folder": str(folder)},
                },
                "factors": {
                    "variant": {
                        "levels": ["cold", "warm", "create"],
                        "together": {
                            "server_cached": ["no", "yes", "any"],
                            "work": ["blocks", "blocks", "create_files"],
                        },
                    }
                },
                # A machine that is short of memory may take pages away meanwhile: then it says so of one of the two.
                "design": {"replicates": 2},
                "windows": {"warm_up": "0s", "measured": "300ms", "interval": "100ms"},
                "limits": {"retries": 1, "background_window": "100ms", "background": 1.0},
                "profile": "off",
            }
        ),
        environment={},
    )
    outcome = asyncio.run(run(experiment, tmp_path))
    trials = {
        str(trial.settings["variant"]): trial
        for trial in read_dataset(outcome.folder).trials
        if trial.finished
    }
    assert set(trials) == {"cold", "warm", "create"}, [t.reason for t in read_dataset(outcome.folder).trials]
    told = {name: trial.manifest["targets"]["client-2"].get("server") for name, trial in trials.items()}
    assert told["cold"]["resident_before_bytes"] == 0
    assert told["warm"]["resident_before_bytes"] == told["warm"]["size_bytes"] == 2 * (8 << 20)
    # The kernel's own account of the server's processes: what was read ahead makes it less than nothing.
    cold, warm = (cache.share_from_server_cache(trials[name]) for name in ("cold", "warm"))
    assert cold is not None and cold < cache.SHARE
    assert warm is not None and warm > 1 - cache.SHARE
    (created,) = programs_of(read_dataset(outcome.folder))
    calls = {flowop.call: flowop for flowop in created.flowops}
    assert calls["createfile"].operations > 0 and not any(flowop.errors for flowop in created.flowops)
    received = trials["create"].hosts["client-1"].growth("roles", "role.received_bytes", "role=server")
    # More than the blocks: headers, and what a file system keeps of a file. The last may have come after the window.
    assert received is not None and received > 0.5 * calls["writewholefile"].bytes


def test_a_loop_device_that_a_killed_lab_could_not_note_any_more_goes_too(folder: Path) -> None:
    before = machine()
    note = volumes.Note("loop", "killed")
    image = note.make_folder(folder) / "image"
    image.write_bytes(bytes(1 << 20))
    subprocess.run(["losetup", "-f", str(image)], check=True)
    note.undo()
    assert not left(before)


PERSONALITY = """
set $nthreads=2
define fileset name=data,path=/data,entries=40,dirwidth=20,size=16k,prealloc=80
define process name=worker {
  thread name=w,memsize=1m,instances=$nthreads {
    flowop createfile name=create,filesetname=data,fd=1
    flowop writewholefile name=write,fd=1,iosize=16k
    flowop fsync name=settle,fd=1
    flowop closefile name=close,fd=1
    flowop deletefile name=remove,filesetname=data
  }
}
"""


def test_a_personality_works_on_a_volume_of_each_client(tmp_path: Path, folder: Path) -> None:
    before = machine()
    workload = {"kind": "files", "hosts": "client", "program": PERSONALITY, "volume_folder": str(folder)}
    keys = {
        "name": "personality",
        "hosts": {"client": {"count": 2, "access": "netns"}},
        "workload": {**workload, "volume": "nbd", "volume_size": "32MiB"},
        "factors": {"nthreads": [1, 2]},
        "design": {"replicates": 1},
        "windows": {"warm_up": "0s", "measured": "300ms", "interval": "100ms"},
        "limits": {"retries": 1, "background_window": "100ms", "background": 1.0},
        "profile": "off",
    }
    experiment = parse_experiment(experiment_text(keys), environment={})
    outcome = asyncio.run(run(experiment, tmp_path))
    dataset = read_dataset(outcome.folder)
    assert outcome.finished == 2
    for trial, program in zip(dataset.trials, programs_of(dataset), strict=True):
        calls = {flowop.call: flowop for flowop in program.flowops}
        assert calls["writewholefile"].operations > 0 and not any(each.errors for each in program.flowops)
        # All that the clients wrote and settled went to the server.
        received = trial.hosts["client-1"].growth("roles", "role.received_bytes", "role=server")
        assert received is not None and received > calls["fsync"].operations * (16 << 10) / 2
    assert not left(before)


READING = """
set $readers=2
eventgen rate=16
define fileset name=set,path=/set,entries=16,dirwidth=20,size=1m,prealloc=100,reuse
define process name=streams {
  thread name=read,memsize=1m,instances=$readers {
    flowop openfile name=open,filesetname=set,fd=1,directio
    flowop readwholefile name=stream,fd=1,iosize=128k
    flowop closefile name=close,fd=1
    flowop eventlimit name=pace
  }
}
"""
"""No more than a round a second, so that the cache is looked at often enough."""


def test_what_a_personality_reads_is_in_the_page_cache_of_the_server_or_not(
    tmp_path: Path, folder: Path
) -> None:
    if why := table.unavailable("nfs"):
        pytest.skip(why)
    workload = {"kind": "files", "hosts": "client", "program": READING, "volume_folder": str(folder)}
    keys = {
        "name": "reading",
        "hosts": {"client": {"count": 2, "access": "netns"}},
        "workload": {**workload, "volume": "nfs", "volume_size": "32MiB"},
        "factors": {"server_cached": ["no", "yes"]},
        "design": {"replicates": 1},
        "windows": {"warm_up": "0s", "measured": "500ms", "interval": "100ms"},
        "limits": {"retries": 1, "background_window": "100ms", "background": 1.0},
        "profile": "off",
    }
    experiment = parse_experiment(experiment_text(keys), environment={})
    outcome = asyncio.run(run(experiment, tmp_path))
    dataset = read_dataset(outcome.folder)
    shares = {
        str(trial.settings["server_cached"]): cache.share_from_server_cache(trial)
        for trial in dataset.trials
        if trial.finished
    }
    uncached, cached = shares["no"], shares["yes"]
    assert uncached is not None and uncached < cache.SHARE
    assert cached is not None and cached > 1 - cache.SHARE
    assert [program.threads for program in programs_of(dataset)] == [2, 2]


def test_a_stream_that_comes_round_is_uncached_again(tmp_path: Path, folder: Path) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)
    text = experiment_text(
        {
            "name": "round",
            "hosts": {"client": {"access": "netns"}},
            "workload": {
                **{
                    "kind": "disk",
                    "hosts": "client",
                    "volume": "nbd",
                    "working_set": "64MiB",
                    "direct": "on",
                },
                **{"pattern": "sequential", "server_cached": "no", "volume_folder": str(folder)},
                # A round takes a second, so that the cache is looked at often enough.
                "device_delay": "2ms",
            },
            "factors": {"block": ["128KiB"]},
            "design": {"replicates": 1},
            "windows": {"warm_up": "0s", "measured": "4s", "interval": "500ms"},
            "limits": {"retries": 0, "background_window": "100ms", "background": 1.0},
            "profile": "off",
        }
    )
    outcome = asyncio.run(run(parse_experiment(text, environment={}), tmp_path))
    (trial,) = read_dataset(outcome.folder).trials
    assert trial.finished, trial.reason
    share = cache.share_from_server_cache(trial)
    assert share is not None and share < cache.SHARE


def test_what_does_not_fit_is_refused_before_it_is_written(folder: Path) -> None:
    with pytest.raises(AccessError, match="does not fit"):
        asyncio.run(table.make("file", Place(folder, 1 << 60)))


def test_a_server_that_ends_is_noticed(folder: Path) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)

    async def scenario() -> None:
        volume = await table.make("nbd", Place(folder, SIZE))
        try:
            (server,) = volume.processes[SERVER]
            server.kill()
            await server.wait()
            assert "process of the server of nbd has ended" in (volume.gone() or "")
        finally:
            await volume.close()

    asyncio.run(scenario())


def test_a_server_that_takes_longer_answers_later_and_as_before_afterwards(folder: Path) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)

    async def scenario() -> tuple[bytes, list[float]]:
        volume = await table.make("nbd", Place(folder, SIZE))
        times = []
        try:
            volume.target.write_bytes(b"kept" * 1024)
            for delay_ms in (40, 0):
                await volume.delay(delay_ms * 1_000_000)
                times.append(await asyncio.to_thread(fastest_read_s, volume.target))
            return volume.target.read_bytes()[:4], times
        finally:
            await volume.close()

    content, (slower, again) = asyncio.run(scenario())
    # The fastest of several: others on the machine make a read slower, nothing makes it faster.
    assert content == b"kept" and again < 0.040 <= slower


def fastest_read_s(target: Path) -> float:
    """The shortest time of a read bypassing the page cache, of twenty."""
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, BLOCK) as block:
            times = []
            for _ in range(20):
                began = time.monotonic()
                os.preadv(descriptor, [block], 0)
                times.append(time.monotonic() - began)
            return min(times)
    finally:
        os.close(descriptor)


def iodyno(*words: str) -> str:
    command = [*command_server.iodyno(), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HUNG_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_roles_of_a_network_volume_add_up(tmp_path: Path, folder: Path) -> None:
    if why := table.unavailable("nbd"):
        pytest.skip(why)
    asked = tmp_path / "volume.yaml"
    asked.write_text(
        f"""
name: volume
hosts: {{client: {{access: netns}}}}
workload: {{kind: disk, hosts: client, working_set: 16MiB, volume_folder: {folder}, direct: on, workers: 2}}
factors: {{volume: [loop, nbd]}}
design: {{replicates: 1}}
windows: {{warm_up: 100ms, measured: 600ms, interval: 100ms}}
profile: off
""",
        encoding="utf-8",
    )
    said = iodyno("run", str(asked), "--into", str(tmp_path / "into"))
    shown = json.loads(iodyno("report", said.strip().splitlines()[-1], "--json"))
    points = {point["levels"]["volume"]: point["outcomes"] for point in shown["points"]}
    roles = ("generator", "client_daemon", "server", "rest")
    found = {role: points["nbd"][f"client.cpu_{role}_us_per_io"]["estimate"] for role in roles}
    total = points["nbd"]["client.cpu_us_per_io"]["estimate"]
    why = points["nbd"]["client.cpu_rest_us_per_io"].get("missing", "")
    if found["rest"] is None and "other tasks gave way to the load" in why:
        return  # What is left for the rest cannot be told where others used the CPUs, and that is said.
    # Threads' times come at their switches and at the tick, classes at each event: ticks of 4 ms in 600.
    assert sum(found.values()) == pytest.approx(total, rel=0.1)
    assert min(found["client_daemon"], found["server"]) > 1
    assert points["loop"]["client.cpu_server_us_per_io"]["estimate"] is None


def test_a_server_that_is_killed_under_a_load_is_one_clear_error(tmp_path: Path, folder: Path) -> None:
    """The client's daemon answers with errors or not at all: the trial fails with them, or counts them; nothing is left."""
    if why := table.unavailable("nbd"):
        pytest.skip(why)
    experiment = parse_experiment(
        experiment_text(
            {
                "name": "killed",
                "hosts": {"client": {"access": "local"}},
                "workload": {
                    **{"kind": "disk", "hosts": "client", "working_set": "8MiB", "direct": "on"},
                    **{"volume_folder": str(folder)},
                },
                "factors": {"volume": ["nbd"]},
                "design": {"replicates": 1},
                "windows": {"warm_up": "100ms", "measured": "1500ms", "interval": "100ms"},
                "limits": {"retries": 0, "background_window": "100ms", "background": 1.0},
                "profile": "off",
            }
        ),
        environment={},
    )

    class Killer(Notes):
        killed = False

        def on_progress(self, host: str, progress: Any) -> None:
            super().on_progress(host, progress)
            if progress["window"] == "measured" and not self.killed:
                for note in NOTES.glob(f"{os.getpid()}-*.json"):
                    server = json.loads(note.read_text())["process"][0]
                    os.kill(int(server.partition(":")[0]), signal.SIGKILL)
                    self.killed = True

    killer = Killer()
    outcome = asyncio.run(run(experiment, tmp_path, notes=killer))
    assert killer.killed
    (trial,) = read_dataset(outcome.folder).trials
    if trial.finished:
        assert WarningCode.DISK_ERRORS in {warning.code for warning in trial.warnings}
    else:
        assert trial.reason, "one error that says what happened"
    assert not list(NOTES.glob(f"{os.getpid()}-*.json"))
