"""Options of a mount of NFS, with Linux's client in a machine: some are set while it is mounted, others by mounting it anew."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import made_devices
import one_machine
import pytest
from one_machine import FAR, Machine
from places import own_agent, run

from iodyno.analysis import file_systems
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.outcomes import measure_named
from iodyno.analysis.summary import analyse
from iodyno.core.mount import checked_mount
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.guard import Guard
from iodyno.hosts.tunables.host import HostTunables, Setting
from iodyno.session.accesses import OpenHosts

# Its instructions are translated, by one CPU of those that all tests would share.
pytestmark = [pytest.mark.root, pytest.mark.translated]

_MOUNTED = """
modprobe() { busybox modprobe $1; }
modprobe crc32c_generic; modprobe ext4; modprobe nfsv4
for each in services netconfig protocols nsswitch.conf; do ln -s /host/etc/$each /etc; done
ln -s /proc/self/mounts /etc/mtab; mkdir -p /export /mnt/nfs /var/lib/nfs/ganesha; ip link set lo up
mkfs.ext4 -q /dev/vda; mount -t ext4 /dev/vda /export
cat >/ganesha.conf <<'end'
NFS_KRB5 { Active_krb5 = false; }
NFS_CORE_PARAM { Bind_addr = 127.0.0.1; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 4; }
NFSV4 { Graceless = true; RecoveryRoot = "/var/lib/nfs/ganesha"; }
EXPORT { Export_Id = 1; Path = "/export"; Pseudo = /disk; Access_Type = RW; Squash = no_root_squash; SecType = sys;
  Transports = TCP; Protocols = 4; FSAL { Name = VFS; } }
end
ganesha.nfsd -f /ganesha.conf -L /ganesha.log -p /ganesha.pid >/ganesha.said 2>&1
for try in $(seq 100); do grep -q 'SERVER INITIALIZED' /ganesha.log && break; sleep 0.2; done
mount -t nfs4 -o vers=4.1,noatime,timeo=500 127.0.0.1:/disk /mnt/nfs
"""
RESTORED_S = 60.0
"""Chosen: many times what it takes in a machine whose instructions are translated."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    why = one_machine.unavailable()
    if why or not Path("/usr/bin/ganesha.nfsd").exists() or not Path("/usr/sbin/mount.nfs").exists():
        pytest.skip(why or "no NFS (Debian: apt-get install nfs-common nfs-ganesha-vfs)")
    with one_machine.booted(tmp_path_factory.mktemp("machine")) as booted:
        said = booted.said(_MOUNTED)
        assert "127.0.0.1:/disk" in mounted(booted), said
        yield booted


@contextlib.asynccontextmanager
async def turning(machine: Machine, program: AgentProgram) -> AsyncIterator[HostTunables]:
    guard = await Guard.start(machine.access("nfs", FAR), program)
    try:
        await guard.claim("a test")
        yield HostTunables(guard, peer="127.0.0.1")
    finally:
        await guard.close()


def mounted(machine: Machine) -> str:
    """All that the kernel says of the mount but its numbers."""
    return machine.said("grep -o ' /mnt/nfs .*' /proc/self/mountinfo")


async def asked(tunables: HostTunables, options: str) -> Setting:
    (setting,) = (await tunables.set({"mount": checked_mount(f"/mnt/nfs {options}")})).values()
    return setting


def test_what_is_agreed_on_with_the_server_is_set_read_back_and_restored(
    machine: Machine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        before = mounted(machine)
        async with turning(machine, own_agent(tmp_path)) as tunables:
            for options, there in {
                "rsize=64KiB,wsize=32768,nconnect=4": ("rsize=65536", "wsize=32768", "nconnect=4", "noatime"),
                "relatime,sync": ("relatime", "sync", "rsize=1048576"),
                "soft,nodiratime": ("soft", "nodiratime", "noatime"),
            }.items():
                setting = await asked(tunables, options)
                assert not setting.differs, setting.why
                words = mounted(machine).replace(" ", ",").split(",")
                assert set(there) | {"timeo=500", "vers=4.1"} <= set(words), words
                assert (await tunables.restore())[1] == [] and mounted(machine) == before
            # What the kernel takes otherwise is told, and what it refuses when it is not mounted any more is brought back.
            assert (await asked(tunables, "rsize=100000")).obtained == "/mnt/nfs rsize=98304"
            assert (await tunables.restore())[1] == []
            assert "mount.nfs" in str((await asked(tunables, "proto=rdma")).why)
            assert (await tunables.restore())[1] == [] and mounted(machine) == before

    asyncio.run(scenario())


def test_while_it_is_in_use_it_is_refused_and_left_alone(machine: Machine, tmp_path: Path) -> None:
    async def scenario() -> None:
        before = mounted(machine)
        async with turning(machine, own_agent(tmp_path)) as tunables:
            with _user(machine):
                setting = await asked(tunables, "nconnect=2")
                assert "busy" in str(setting.why) and setting.obtained == setting.before
                assert mounted(machine) == before
            assert (await tunables.restore())[1] == []

    asyncio.run(scenario())


def test_operations_of_a_load_are_counted_by_what_they_do(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_hosts(*_: object, **__: object) -> OpenHosts:
        return OpenHosts(accesses={"client": machine.access("client", FAR)})

    monkeypatch.setattr("iodyno.campaign.testbed.accesses.open_hosts", open_hosts)
    machine.said("dd if=/dev/urandom of=/mnt/nfs/load bs=1M count=8")
    client = {"access": "ssh", "to": "far"}
    load = {"target": "/mnt/nfs/load", "direct": "on", "block": "16KiB"}
    experiment = made_devices.asked({"client": client}, {"queue_depth": [1]}, "3s", retries=3, **load)
    folder = asyncio.run(run(experiment, tmp_path / "campaigns", program=own_agent(tmp_path))).folder
    dataset = read_dataset(folder)
    *_, trial = dataset.trials
    assert trial.status == "finished", trial.reason
    (host,) = trial.hosts.values()
    found = file_systems.measured(host)
    reads = found["NFS /mnt/nfs", "read"]
    # Each read past the page cache is one of the protocol. Readings are as late as a translated machine makes them where others
    # use its CPUs: their window has another part of the load than the records, and no factor of a unit.
    assert 0.5 < (reads["per_s"].value or 0.0) / (measure_named(trial, "iops", CostBasis()).value or 0.0) < 2
    own = measure_named(trial, "service_time_mean_ns", CostBasis()).value or 0.0
    # The client counts whole milliseconds, which it cuts off.
    assert own / 2 - 1.5e6 < (reads["mean_ns"].value or 0.0) < 2 * own
    assert (reads["server_mean_ns"].value or 0.0) <= (reads["mean_ns"].value or 0.0)
    (point,) = analyse(dataset).points
    assert ("client", "NFS /mnt/nfs", "read") in [
        (one.host, one.file_system, one.operation) for one in point.file_operations
    ]


@pytest.mark.parametrize("whom", ["lab", "guard"])
def test_after_a_kill_it_is_mounted_as_it_was(whom: str, machine: Machine, tmp_path: Path) -> None:
    program = own_agent(tmp_path)

    async def scenario() -> None:
        before = mounted(machine)
        async with turning(machine, program) as tunables:
            assert not (await asked(tunables, "nconnect=2,rsize=4096")).differs
            if whom == "lab":
                # What has its files open ends a moment later, as a load does whose lab is gone.
                with _user(machine):
                    os.kill(tunables.guard._streams.process.pid, 9)  # type: ignore[attr-defined]
                    time.sleep(1)
            else:
                machine.said(
                    f"for at in /proc/[0-9]*; do [ $at/exe -ef /host{program.path} ] && kill -9 ${{at#/proc/}}; done"
                )
        if whom == "guard":  # the next one does it
            async with turning(machine, program):
                pass
        end = time.monotonic() + RESTORED_S
        while (now := mounted(machine)) != before:
            assert time.monotonic() < end, now
            time.sleep(0.2)

    asyncio.run(scenario())


@contextlib.contextmanager
def _user(machine: Machine) -> Iterator[None]:
    """Somebody in the folder."""
    words = machine.relay("cd /mnt/nfs && echo there && read -r word")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout and user.stdin and user.stdout.readline() == b"there\n"
        yield
        user.stdin.close()
