"""Tunables of disks and of writing back: set on a real device, read back as the kernel tells them, restored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest
from made_devices import asked, loop_device
from places import own_agent, run

from iodyno.campaign.ledger import manifests
from iodyno.core.errors import AccessError
from iodyno.core.workload import Level
from iodyno.hosts.guard import Guard
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import HostTunables

# The settings of writing back are the machine's, which other tests work on.
pytestmark = [pytest.mark.root, pytest.mark.alone]

OTHER: Mapping[str, Level] = {
    **{"io_scheduler": "mq-deadline", "nr_requests": 64, "read_ahead": 64 << 10, "max_sectors": 128 << 10},
    **{"rq_affinity": 2, "nomerges": 2, "wbt_latency": 0},
    **{
        "dirty_bytes": 4 << 30,
        "dirty_ratio": 21,
        "dirty_background_bytes": 1 << 30,
        "dirty_background_ratio": 11,
    },
    **{"dirty_expire": 31 * 10**9, "dirty_writeback": 6 * 10**9, "swappiness": 61},
}
_VM = [f"dirty_{name}" for name in ("bytes", "ratio", "background_bytes", "background_ratio")]
_VM += ["dirty_expire_centisecs", "dirty_writeback_centisecs", "swappiness"]


def kernel_says(device: Path) -> dict[str, str]:
    queue = Path("/sys/block") / device.name / "queue"
    files = [queue / name for name in ("scheduler", "nr_requests", "read_ahead_kb", "max_sectors_kb")]
    files += [queue / name for name in ("rq_affinity", "nomerges", "wbt_lat_usec")]
    return {file.name: file.read_text() for file in files + [Path("/proc/sys/vm") / name for name in _VM]}


def test_each_is_set_read_back_and_restored(tmp_path: Path) -> None:
    async def scenario(device: Path) -> None:
        guard = await Guard.start(LocalAccess("disks"), own_agent(tmp_path))
        try:
            await guard.claim("a test")
            tunables = HostTunables(guard, disks=lambda: (device.name,))
            before = kernel_says(device)
            states = await tunables.read(OTHER)
            of_disks = {name for name, tunable in TURNED.items() if tunable.scope == "disk"}
            of_nvme = await tunables.read(of_disks - set(OTHER))
            assert {name for name, state in of_nvme.items() if state.unsupported} == {
                *("poll_queues", "power_latency")
            }
            for name, state in states.items():
                assert state.level is not None and state.level != OTHER[name], (name, state)
                settings = await tunables.set({name: OTHER[name]})
                assert settings[name].obtained == OTHER[name], settings[name].why
                changed = {file for file, text in kernel_says(device).items() if text != before[file]}
                assert changed, name
                restored, wrong = await tunables.restore()
                assert not wrong and restored[name].restored == state.level
                assert kernel_says(device) == before, name
            everything = {name: level for name, level in OTHER.items() if not name.startswith("dirty_")}
            assert not {n: s for n, s in (await tunables.set(everything)).items() if s.differs}
            assert not (await tunables.restore())[1]
            assert kernel_says(device) == before
            gone = HostTunables(guard, disks=lambda: ("nosuch0",))
            with pytest.raises(AccessError, match="there is no disk nosuch0"):
                await gone.read(["nr_requests"])
        finally:
            await guard.close()

    with loop_device(tmp_path / "image") as device:
        asyncio.run(scenario(device))


def test_they_are_factors_of_the_disk_under_the_target(tmp_path: Path) -> None:
    with loop_device(tmp_path / "image") as device:
        factors = {"client.io_scheduler": ["none", "mq-deadline"]}
        experiment = asked(
            {"client": {"access": "local"}}, factors, measured="200ms", target=str(device), pattern="random"
        )
        before = kernel_says(device)
        outcome = asyncio.run(run(experiment, tmp_path / "campaigns", program=own_agent(tmp_path)))
        assert outcome.finished == 2 and kernel_says(device) == before
        found = {
            manifest["levels"]["client.io_scheduler"]: manifest["hosts"]["client"]["tunables"]["io_scheduler"]
            for manifest in manifests(outcome.folder)
        }
    assert {level: setting["obtained"] for level, setting in found.items()} == {
        level: level for level in ("none", "mq-deadline")
    }
