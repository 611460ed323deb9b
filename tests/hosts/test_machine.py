"""Tunables and NUMA nodes on a machine with adapters and disks of many queues, and two nodes: what a veth has not."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import made_devices
import one_machine
import pytest
from one_machine import Machine
from places import own_agent, run

from iodyno.analysis.cost import CostBasis
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.outcomes import measure_named
from iodyno.campaign.ledger import manifests
from iodyno.core.workload import Level
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.guard import Guard
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import HostTunables
from iodyno.session.accesses import OpenHosts

# Its instructions are translated, by one CPU of those that all tests would share.
pytestmark = [pytest.mark.root, pytest.mark.translated]

DISKS = ("nvme0n1", "vda")
RESTORED_S = 60.0
"""Chosen: some ten times what a guard there takes from the end of its lab."""


@dataclass(frozen=True)
class Adapter:
    """One of the machine's. `turned`: a level of each tunable that its driver sets, other than its own; `refused`: those that it
    shows and does not set; `absent`: those that it has not.
    """

    device: str
    inside: str
    turned: Mapping[str, Level]
    refused: Mapping[str, Level]
    absent: tuple[str, ...]


_ALL: Mapping[str, Level] = {
    "mtu": 1400,
    "ring_receive": 128,
    "ring_transmit": 128,
    "gro": False,
    "threaded": True,
}
ADAPTERS = (
    Adapter(
        "data",
        "",
        {
            **_ALL,
            "queues": 2,
            "rss_fields_udp": "addresses",
            "irq_affinity": "spread",
            "rps": "own",
            "xps": "off",
        },
        {"coalesce_receive": 50_000},
        ("coalesce_adaptive", "transmit_queues", "lro", "flow_control"),
    ),
    Adapter(
        "vmxnet3",
        "",
        {**_ALL, "rss_queues": 2, "lro": False, "irq_affinity": "spread", "xps": "spread"},
        {"queues": 2},
        ("coalesce_receive", "coalesce_adaptive", "rss_fields_tcp", "flow_control"),
    ),
    Adapter(
        "e1000e",
        "other",
        {**_ALL, "coalesce_receive": 50_000, "flow_control": False, "irq_affinity": "spread"},
        {"rss_fields_tcp": "addresses"},
        ("queues", "rss_queues", "coalesce_transmit", "coalesce_adaptive", "lro"),
    ),
)
OF_DISKS: Mapping[str, Level] = {
    **{"io_scheduler": "mq-deadline", "nr_requests": 64, "read_ahead": 64 << 10, "max_sectors": 128 << 10},
    **{"rq_affinity": 2, "nomerges": 2, "wbt_latency": 0},
}

OF_NVME = ("poll_queues", "power_latency")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    if why := one_machine.unavailable():
        pytest.skip(f"no machine of many queues here: {why}")
    with one_machine.booted(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@contextlib.asynccontextmanager
async def turning(
    machine: Machine, program: AgentProgram, adapter: Adapter, disks: tuple[str, ...] = DISKS
) -> AsyncIterator[HostTunables]:
    guard = await Guard.start(machine.access("far", one_machine.NEAR, adapter.inside), program)
    try:
        await guard.claim("a test")
        yield HostTunables(guard, cpus=(0, 1), device=adapter.device, disks=lambda: disks)
    finally:
        await guard.close()


def everything(machine: Machine, adapter: Adapter) -> list[str]:
    """All that is set there, as other commands than the tunables' own show it."""
    device, folder = adapter.device, f"/sys/class/net/{adapter.device}"
    script = f"""
      for what in k l g c x a; do ethtool -$what {device} 2>&1 | sed "s/^/$what /"; done
      ethtool -n {device} rx-flow-hash udp4; tc qdisc show dev {device}
      ip -d link show dev {device}; grep -H . {folder}/threaded {folder}/queues/*/[rx]ps_cpus /proc/irq/*/smp_affinity
      for disk in {" ".join(DISKS)}; do grep -sH . /sys/block/$disk/queue/*; done; true
    """
    inside = f"ip netns exec {adapter.inside} " if adapter.inside else ""
    return machine.said(f"{inside}sh -c {shlex.quote(script)}").splitlines()


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.device)
def test_what_a_driver_has_is_set_and_restored_and_what_it_has_not_is_said(
    adapter: Adapter, machine: Machine, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with turning(machine, own_agent(tmp_path), adapter) as tunables:
            before = await asyncio.to_thread(everything, machine, adapter)
            states = await tunables.read([*adapter.turned, *adapter.refused, *adapter.absent])
            assert [name for name in adapter.absent if not states[name].unsupported] == []
            asked = {**adapter.turned, **adapter.refused}
            assert [name for name, level in asked.items() if states[name].level == level] == []
            settings = await tunables.set(asked)
            wrong = {name: settings[name].why for name in adapter.turned if settings[name].differs}
            assert wrong == {} and all(settings[name].why for name in adapter.refused)
            assert await asyncio.to_thread(everything, machine, adapter) != before
            restored, wrong_after = await tunables.restore()
            assert wrong_after == []
            assert {name: one.restored for name, one in restored.items()} == {
                n: states[n].level for n in asked
            }
            assert await asyncio.to_thread(everything, machine, adapter) == before

    asyncio.run(scenario())


def test_a_number_of_queues_brings_the_masks_back_that_its_driver_has_chosen_anew(
    machine: Machine, tmp_path: Path
) -> None:
    adapter = ADAPTERS[0]
    queues = "/sys/class/net/data/queues"
    machine.said(f"echo 8 >{queues}/rx-0/rps_cpus; echo 2 >{queues}/tx-1/xps_cpus")
    machine.said(
        "for irq in /sys/class/net/data/device/../msi_irqs/*; do echo 8 >/proc/irq/${irq##*/}/smp_affinity; done"
    )

    async def scenario() -> None:
        before = await asyncio.to_thread(everything, machine, adapter)
        async with turning(machine, own_agent(tmp_path), adapter) as tunables:
            assert (await tunables.set({"queues": 2}))["queues"].obtained == 2
            assert await asyncio.to_thread(everything, machine, adapter) != before
            assert (await tunables.restore())[1] == []
            assert await asyncio.to_thread(everything, machine, adapter) == before

    asyncio.run(scenario())


@pytest.mark.parametrize("whom", ["lab", "guard"])
def test_after_a_kill_adapters_and_disks_are_as_they_were(
    whom: str, machine: Machine, tmp_path: Path
) -> None:
    adapter, program = ADAPTERS[0], own_agent(tmp_path)

    async def scenario() -> None:
        before = await asyncio.to_thread(everything, machine, adapter)
        async with turning(machine, program, adapter) as tunables:
            settings = await tunables.set({**adapter.turned, **OF_DISKS})
            assert {name: one.why for name, one in settings.items() if one.differs} == {}
            assert await asyncio.to_thread(everything, machine, adapter) != before
            if whom == "lab":
                process = tunables.guard._streams.process
                os.kill(process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
            else:
                machine.said(
                    f"for at in /proc/[0-9]*; do [ $at/exe -ef /host{program.path} ] && kill -9 ${{at#/proc/}}; done"
                )
        if whom == "guard":  # the next one does it
            async with turning(machine, program, adapter):
                pass
        end = time.monotonic() + RESTORED_S
        while (now := await asyncio.to_thread(everything, machine, adapter)) != before:
            assert time.monotonic() < end, sorted({*now} ^ {*before})

    asyncio.run(scenario())


def test_every_tunable_of_a_disk_is_of_nvme_and_virtio_too(machine: Machine) -> None:
    of_disks = {name for name, tunable in TURNED.items() if tunable.scope == "disk"}
    assert of_disks == {*OF_DISKS, *OF_NVME}
    # The NVMe disk has a queue that is polled, the other one has none.
    assert machine.said("cat /sys/block/nvme0n1/queue/io_poll /sys/block/vda/queue/io_poll") == "1\n0\n"


def test_queues_that_are_polled_are_set_and_restored_on_nvme_alone(machine: Machine, tmp_path: Path) -> None:
    def said() -> str:
        """The driver's own words of the queues that it made, and its parameter."""
        number = "/sys/module/nvme/parameters/poll_queues"
        words = machine.said(f"dmesg | grep -o '[^ ]* default/read/poll queues' | tail -n 1; cat {number}")
        return " ".join(words.split())

    async def scenario() -> None:
        program, (adapter, *_) = own_agent(tmp_path), ADAPTERS
        async with turning(machine, program, adapter, ("nvme0n1",)) as tunables:
            before = await asyncio.to_thread(said)
            assert before.endswith("/0/1 default/read/poll queues 1")
            # QEMU's disk goes into no power state by itself.
            assert (await tunables.read(["power_latency"]))["power_latency"].level is None
            settings = await tunables.set({"poll_queues": 2})
            assert settings["poll_queues"].obtained == 2, settings
            assert (await asyncio.to_thread(said)).endswith("/0/2 default/read/poll queues 2")
            assert not (await tunables.restore())[1]
            assert await asyncio.to_thread(said) == before
        async with turning(machine, program, adapter, ("vda",)) as tunables:
            (state,) = (await tunables.read(["poll_queues"])).values()
            assert state.unsupported == "the disk is none of the driver nvme"

    asyncio.run(scenario())


@pytest.mark.parametrize(("device", "node"), [("nvme0n1", 1), ("vda", 0)])
def test_a_load_near_a_disk_has_cpus_and_memory_of_its_node(
    device: str, node: int, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_hosts(*_: object, **__: object) -> OpenHosts:
        return OpenHosts(accesses={"client": machine.access("client", one_machine.NEAR)})

    monkeypatch.setattr("iodyno.campaign.testbed.accesses.open_hosts", open_hosts)
    client = {"access": "ssh", "to": "far", "cpus": f"near {device}"}
    target = {"target": f"/dev/{device}", "pattern": "random"}
    experiment = made_devices.asked({"client": client}, {"queue_depth": [1]}, measured="3s", **target)
    program = own_agent(tmp_path)
    placed = ""

    async def look() -> None:
        nonlocal placed
        script = f"""for at in /proc/[0-9]*/task/*; do [ $at/exe -ef /host{program.path} ] || continue
          grep -h allowed_list $at/status; grep -h bind $at/numa_maps; done"""
        while "bind" not in placed:
            with contextlib.suppress(subprocess.CalledProcessError):  # one of its tasks has ended meanwhile
                placed = await asyncio.to_thread(machine.said, script)

    async def scenario() -> Path:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(look())
            outcome = await run(experiment, tmp_path / "campaigns", program=program)
            looking.cancel()
        return outcome.folder

    (manifest,) = manifests(asyncio.run(scenario()))
    cpus = [2 * node, 2 * node + 1]
    assert manifest["status"] == "finished" and manifest["hosts"]["client"]["cpus"] == cpus
    assert manifest["hosts"]["client"]["job"]["memory_node"] == node
    assert f"bind:{node}" in placed and f"bind:{1 - node}" not in placed and f"{cpus[0]}" in placed


def test_pages_of_another_node_are_those_that_a_program_was_given_from_there(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a load that takes none, a program on CPUs of one node that may have memory of the other alone."""

    async def open_hosts(*_: object, **__: object) -> OpenHosts:
        return OpenHosts(accesses={"client": machine.access("client", one_machine.NEAR)})

    monkeypatch.setattr("iodyno.campaign.testbed.accesses.open_hosts", open_hosts)
    client = {"access": "ssh", "to": "far", "cpus": "near vda"}
    target = {"target": "/dev/vda", "pattern": "random", "direct": "on"}
    experiment = made_devices.asked({"client": client}, {"queue_depth": [1]}, "2s", retries=3, **target)
    group = "/sys/fs/cgroup/of-the-other-node"

    def remote() -> tuple[float, str]:
        folder = asyncio.run(run(experiment, tmp_path / "campaigns", program=own_agent(tmp_path))).folder
        *_, trial = read_dataset(folder).trials
        assert trial.status == "finished", trial.reason
        pages, loads = (
            measure_named(trial, f"client.remote_{what}_ratio", CostBasis()) for what in ("pages", "loads")
        )
        assert pages.value is not None and loads.value is None, (pages, loads)
        return pages.value, str(loads.missing)

    calm, why = remote()
    assert "no hardware counters here" in why
    machine.said(f"""
      echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; mkdir {group}
      echo 0-1 >{group}/cpuset.cpus; echo 1 >{group}/cpuset.mems
      setsid sh -c 'echo $$ >{group}/cgroup.procs; while :; do dd if=/dev/zero of=/dev/null bs=4M count=1; done' \
        >/dev/null 2>&1 </dev/null &
    """)
    try:
        beside, _ = remote()
    finally:
        machine.said(f"echo 1 >{group}/cgroup.kill; until rmdir {group}; do sleep 0.1; done")
    # Without that program a second hands out some sixty pages, of which others' take a share of the other node.
    assert calm < 0.5 and beside > 0.7, (calm, beside)
