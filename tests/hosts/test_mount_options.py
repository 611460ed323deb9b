"""Options of mounted file systems: set on a real one, read back, seen in what it does, restored whatever happens to the lab."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from made_devices import asked, loop_device
from places import HUNG_S, own_agent, processes_of, run

from iodyno.campaign.ledger import manifests
from iodyno.core.mount import checked_mount
from iodyno.hosts.guard import Guard, Seen
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import HostTunables
from iodyno.hosts.tunables.tunable import Place

pytestmark = pytest.mark.root

NFS = (
    "29 24 0:45 / /mnt/nfs\\040data rw,nosuid,relatime shared:12 - nfs4 filer:/export rw,vers=4.2,rsize=1048576,wsize=1048576,"
    "namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,clientaddr=10.0.0.1,local_lock=none,addr=10.0.0.2\n"
)
"""As the kernel writes it (fs/nfs/super.c, nfs_show_mount_options)."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An ext4 with options that a careless remount would lose, in a folder with a blank in its name."""
    at = tmp_path / "a folder"
    at.mkdir()
    with loop_device(tmp_path / "image") as device:
        subprocess.run(["mkfs.ext4", "-q", device], check=True)
        subprocess.run(["mount", "-o", "nosuid,relatime,lazytime", device, at], check=True)
        try:
            yield at
        finally:
            # A killed process has no program any more before its files are closed.
            assert seen_within(60, lambda: subprocess.run(["umount", at], check=False).returncode == 0)


def options_of(folder: Path) -> set[str]:
    words = ["findmnt", "--noheadings", "--raw", "--output", "OPTIONS", "--mountpoint", folder]
    return set(subprocess.check_output(words, text=True).strip().split(","))


def atime_moves(folder: Path) -> bool:
    """Whether reading a file that was read before is noted; with relatime it is not."""
    file = folder / "read"
    file.write_text("read")
    noted = []
    for _ in range(2):
        time.sleep(0.02)  # more than a tick of the kernel, which is how fine it notes times
        file.read_text()
        noted.append(file.stat().st_atime_ns)
    return noted[1] > noted[0]


def seen_within(seconds: float, what: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_options_are_set_read_back_seen_and_restored(folder: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        guard = await Guard.start(LocalAccess("mounts"), own_agent(tmp_path))
        try:
            await guard.claim("a test")
            tunables = HostTunables(guard)
            before = options_of(folder)
            assert {"nosuid", "relatime", "lazytime"} < before and not atime_moves(folder)
            for options, there in {
                "strictatime": before - {"relatime"},
                "noatime,sync": before - {"relatime"} | {"noatime", "sync"},
                "nodiratime,nolazytime": before - {"lazytime"} | {"nodiratime"},
                "commit=30": None,
            }.items():
                (setting,) = (await tunables.set({"mount": f"{folder} {options}"})).values()
                if there is None:
                    assert "the kernel does not show commit" in str(setting.why)
                    continue
                assert (setting.obtained, setting.why) == (f"{folder} {options}", None)
                assert options_of(folder) == there
                assert atime_moves(folder) == (options == "strictatime")
                restored, wrong = await tunables.restore()
                assert not wrong and restored["mount"].restored == setting.before
                assert options_of(folder) == before
            for options, why in {
                "rsize=64": "does not show rsize",
                "soft": "does not show soft",
            }.items():
                (setting,) = (await tunables.set({"mount": f"{folder} {options}"})).values()
                assert why in str(setting.why) and setting.obtained is None
            (setting,) = (await tunables.set({"mount": f"{tmp_path} noatime"})).values()
            assert setting.why == f"{tmp_path} is no mount point on this host"
            assert (await tunables.restore())[1] == [] and options_of(folder) == before
        finally:
            await guard.close()

    asyncio.run(scenario())


def test_what_the_kernel_refuses_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    at = tmp_path / "memory"
    at.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1024k,noexec", "memory", at], check=True)

    async def scenario() -> None:
        guard = await Guard.start(LocalAccess("mounts"), own_agent(tmp_path))
        try:
            await guard.claim("a test")
            tunables, before = HostTunables(guard), options_of(at)
            (at / "full").write_bytes(bytes(512 << 10))
            (small,) = (await tunables.set({"mount": f"{at} size=8k"})).values()
            assert small.obtained == small.before == f"{at} size=1024k" and "mount" in str(small.why)
            (large,) = (await tunables.set({"mount": f"{at} size=2048k"})).values()
            assert not large.differs and os.statvfs(at).f_blocks * os.statvfs(at).f_frsize == 2 << 20
            assert "noexec" in options_of(at)
            assert (await tunables.restore())[1] == [] and options_of(at) == before
        finally:
            await guard.close()

    try:
        asyncio.run(scenario())
    finally:
        subprocess.run(["umount", at], check=True)


@pytest.fixture
def zfs(tmp_path: Path) -> Iterator[Path]:
    """A pool in a file, by a daemon of its own; its name is `iodyno-test`."""
    if not shutil.which("zfs-fuse"):
        pytest.skip("no zfs-fuse (Debian 12: apt-get install zfs-fuse)")
    at, image = tmp_path / "tank", tmp_path / "pool"
    image.touch()
    os.truncate(image, 128 << 20)
    program = ["zfs-fuse", "--no-daemon", "--no-kstat-mount"]
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *program]) as daemon:
        try:
            # Noted nowhere: no later daemon looks for it.
            make = ["zpool", "create", "-o", "cachefile=none", "-m", at, "iodyno-test", image]
            assert seen_within(30, lambda: subprocess.run(make, stderr=subprocess.DEVNULL).returncode == 0)
            yield at
        finally:
            # Its pool goes with it, which is busy for as long as another test's mount namespace has a copy of the mount.
            daemon.kill()
            daemon.wait()
            subprocess.run(["umount", "--lazy", at], check=False)


def test_the_size_of_records_of_zfs_is_set_seen_in_new_files_and_restored(zfs: Path, tmp_path: Path) -> None:
    def held() -> list[str]:
        words = ["zfs", "get", "-Hp", "-o", "value,source", "recordsize", "iodyno-test"]
        return subprocess.check_output(words, text=True).split()

    async def scenario() -> None:
        guard = await Guard.start(LocalAccess("mounts"), own_agent(tmp_path))
        try:
            await guard.claim("a test")
            tunables = HostTunables(guard)
            for before in (["131072", "default"], ["65536", "local"]):
                if before[1] == "local":
                    subprocess.run(["zfs", "set", "recordsize=64K", "iodyno-test"], check=True)
                assert held() == before
                asked = checked_mount(f"{zfs} recordsize=16KiB")
                (setting,) = (await tunables.set({"mount": asked})).values()
                assert (setting.before, setting.obtained) == (f"{zfs} recordsize={before[0]}", asked)
                (zfs / before[1]).write_bytes(bytes(range(256)) * 1024)
                assert (zfs / before[1]).stat().st_blksize == 16_384
                restored, wrong = await tunables.restore()
                assert not wrong and restored["mount"].restored == setting.before and held() == before
            (setting,) = (await tunables.set({"mount": f"{zfs} recordsize=3000"})).values()
            assert "power of 2" in str(setting.why) and held() == ["65536", "local"]
            (setting,) = (await tunables.set({"mount": "/ recordsize=4096"})).values()
            assert "has no recordsize" in str(setting.why)
        finally:
            await guard.close()

    asyncio.run(scenario())


def test_they_are_a_factor_and_stand_in_the_manifest(folder: Path, tmp_path: Path) -> None:
    levels = [f"{folder} relatime,sync", f"{folder} noatime,async"]
    experiment = asked(
        {"client": {"access": "local"}},
        {"client.mount": levels},
        measured="200ms",
        target=str(folder / "data"),
    )
    before = options_of(folder)
    outcome = asyncio.run(run(experiment, tmp_path / "campaigns", program=own_agent(tmp_path)))
    assert outcome.finished == 2 and options_of(folder) == before
    for manifest in manifests(outcome.folder):
        setting = manifest["hosts"]["client"]["tunables"]["mount"]
        assert setting["obtained"] == manifest["levels"]["client.mount"]
        assert setting["restored"] == setting["before"] == f"{folder} relatime,async"


_EXPERIMENT = """
name: killed
hosts: {{client: {{access: local}}}}
workload: {{kind: disk, hosts: client, target: "{folder}/data", working_set: 1MiB}}
tunables: {{client: {{mount: "{folder} noatime,sync"}}}}
windows: {{warm_up: 100ms, measured: 60s}}
"""


@pytest.mark.alone  # Any other lab that begins restores what is left.
@pytest.mark.parametrize("whom", ["lab", "all"])
def test_after_a_kill_the_options_are_as_they_were(whom: str, folder: Path, tmp_path: Path) -> None:
    program, file, before = own_agent(tmp_path), tmp_path / "experiment.yaml", options_of(folder)
    file.write_text(_EXPERIMENT.format(folder=folder))
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()"]
    environment = os.environ | {"IODYNO_AGENT": str(program.path)}
    lab = subprocess.Popen(
        [*command, "run", file, "--into", tmp_path / "campaigns"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert seen_within(HUNG_S, lambda: bool(list(tmp_path.glob("campaigns/*/trials/.*")))), (
            "no trial began"
        )
        assert seen_within(60, lambda: {"noatime", "sync"} <= options_of(folder))
        for pid in processes_of(program.path) if whom == "all" else []:
            os.kill(pid, 9)
        lab.kill()
        lab.wait()
        if whom == "all":
            subprocess.run([*command, "restore"], env=environment, check=True, stdout=subprocess.DEVNULL)
        assert seen_within(60, lambda: options_of(folder) == before), options_of(folder)
        assert seen_within(60, lambda: not processes_of(program.path))
    finally:
        lab.kill()
        lab.wait()


def test_nfs_is_mounted_anew_for_what_it_agrees_on_with_its_server() -> None:
    """From a recorded line: the kernel here need not have NFS."""
    tunable = TURNED["mount"]

    def steps(options: str) -> tuple[str, list[list[str]], list[list[str]]]:
        place = Place("lo", mount=checked_mount(f"/mnt/nfs data {options}"))
        state = tunable.state(place, [Seen(NFS, None)])
        asked = [step["run"] for step in tunable.steps(place, state, place.mount)]
        return str(state.level), asked, [step["run"] for step in tunable.undo(place, state)]

    level, (umount, mount), (back,) = steps("rsize=64KiB,nconnect=4,soft,noatime")
    assert level == "/mnt/nfs data rsize=1048576,nconnect=1,hard,relatime"
    assert umount == ["umount", "/mnt/nfs data"]
    kept = "rw,nosuid,vers=4.2,wsize=1048576,namlen=255,proto=tcp,timeo=600,retrans=2,sec=sys,local_lock=none"
    assert mount[:4] == ["mount", "-t", "nfs4", "-o"] and mount[5:] == ["filer:/export", "/mnt/nfs data"]
    assert set(mount[4].split(",")) == {
        *kept.split(","), "diratime", "rsize=65536", "nconnect=4", "soft", "noatime",
    }  # fmt: skip
    assert "hard" in back[2] and "rsize=1048576" in back[2] and "nconnect" not in back[2]
    # What is the mount's own is set while it is in use.
    _, (remount,), _ = steps("noatime")
    assert remount[4] == "remount,bind,rw,nosuid,noatime,diratime"
    assert TURNED["mount"].state(Place("lo", mount="/mnt noatime"), [Seen(NFS, None)]).unsupported


@pytest.mark.parametrize(
    ("written", "said"),
    [("data noatime", "a folder and options"), ("/data noatime,relatime", "one of them"), ("/data fast", "NAME=VALUE"),
     ("/mnt nconnect=17", "1 to 16"), ("/mnt rsize=much", "much")],
)  # fmt: skip
def test_a_malformed_value_is_one_clear_error(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_mount(written)
