"""The levels of `path`: made, measured over, skipped with a reason, broken in the middle, and gone afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import (
    MS,
    QUIET,
    SOON_S,
    Notes,
    carried_out,
    experiment,
    gone_within,
    namespaces_of,
    processes_of,
    run,
)

from iodyno.campaign.account import Account
from iodyno.campaign.ledger import manifests
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor
from iodyno.core.search import SearchSpec, parse_goal
from iodyno.core.warnings import WarningCode
from iodyno.hosts import guest, sandbox
from iodyno.hosts.access import AgentProgram
from iodyno.session import path_levels

pytestmark = pytest.mark.root

SHORT = Windows(50 * MS, 600 * MS, 50 * MS, 100 * MS)
LONG = Windows(0, 60_000 * MS, 50 * MS, 250 * MS)
LEVELS = ("loopback", "zone", "relay", "relay_offload", "sandbox", "guest", "sandboxes", "guests")
SECOND = Windows(100 * MS, 1000 * MS, 100 * MS, 500 * MS)
"""For levels with a kernel of their own, which may take long to their first byte."""


_KERNELS = {"sandbox": "runsc", "guest": "qemu-system"}
"""What runs the kernel of a level."""


def needs(level: str) -> None:
    if why := path_levels.unavailable(level):
        pytest.skip(f"no path {level} here: {why}")


async def load(
    testbed: Testbed, windows: Windows = SHORT, account: Account | None = None, **levels: Any
) -> int:
    """Bytes that the server got in a trial."""
    moved = 0

    def count(host: str, record: dict[str, Any]) -> None:
        nonlocal moved
        moved += record["load"]["bytes"] if host == "server" else 0

    settings = testbed.experiment.settings({"connections": 2, "path": testbed.path, **levels})
    await carried_out(testbed, settings, windows, count, account)
    return moved


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_carries_data_again_and_again_and_leaves_nothing(level: str, program: AgentProgram) -> None:
    needs(level)

    async def scenario() -> None:
        async with Testbed(experiment("netns", **QUIET), program, level) as testbed:
            for _ in range(2):
                assert await load(testbed, SECOND if testbed.observers else SHORT) > 0

    asyncio.run(scenario())
    assert not namespaces_of(os.getpid())
    assert gone_within(SOON_S, program.path)
    assert not children_named("qemu", os.getpid()) + children_named("runsc", os.getpid())


def test_a_relay_counts_what_it_carries(program: AgentProgram) -> None:
    """Offload hands segments over whole: fewer frames for the same bytes than the MTU allows."""
    needs("relay")

    async def scenario(level: str) -> dict[str, Any]:
        async with Testbed(experiment("netns", **QUIET), program, level) as testbed:
            account = Account()
            moved = await load(testbed, account=account)
            assert account.path is not None
            counted: dict[str, Any] = account.path["relay"]
            assert counted["missing"] is None
            assert counted["bytes"][0] > moved, "headers come on top, and what was sent in the other windows"
            assert counted["cpu_ns"] > 0
            return counted

    plain, offload = asyncio.run(scenario("relay")), asyncio.run(scenario("relay_offload"))
    assert plain["bytes"][0] / plain["frames"][0] <= 1514
    assert offload["bytes"][0] / offload["frames"][0] > 1514


@pytest.mark.parametrize("level", ["sandbox", "guest", "sandboxes", "guests"])
def test_a_kernel_of_its_own_is_seen_from_outside(level: str, program: AgentProgram) -> None:
    """Its agent cannot see the CPUs; the machine's sensors and the load's own devices are in one record."""
    needs(level)
    found: list[dict[str, Any]] = []

    async def scenario() -> None:
        async with Testbed(experiment("netns", **QUIET), program, level) as testbed:
            inside = ["client", "server"] if level.endswith("s") else ["server"]
            assert sorted(testbed.observers) == inside
            for host in inside:
                assert testbed.sessions[host].hello["host"]["kernel"] != os.uname().release
                assert testbed.observers[host].hello["host"]["kernel"] == os.uname().release
            settings = testbed.experiment.settings({"connections": 1, "path": level})
            keep = lambda host, record: found.append(record) if host == "server" else None  # noqa: E731
            await carried_out(testbed, settings, SECOND, keep)

    asyncio.run(scenario())
    measured = [record for record in found if record["window"] == "measured"]
    moved = sum(record["load"]["bytes"] for record in measured)
    assert moved > 0
    devices = [r for record in measured for r in record["sensors"] if r["sensor"] == "net_devices"]
    received = sum(v for r in devices for metric, _, v in r["values"] if metric == "net.rx_bytes")
    assert received > 0.5 * moved, "the device is seen from the side of the host that receives"
    for record in measured:
        (times,) = [r for r in record["sensors"] if r["sensor"] == "cpu_times"]
        assert sum(value for _, _, value in times["values"]) > 0
    assert [record["index"] for record in found] == list(range(len(found)))


def test_the_link_between_two_guests_can_be_shaped(program: AgentProgram) -> None:
    needs("guests")

    async def scenario() -> int:
        async with Testbed(experiment("netns", **QUIET), program, "guests") as testbed:
            return await load(testbed, SECOND, link_rate=8_000_000, link_queue=64 << 10)

    # A second at 1 MB/s with headers and what the queue holds, and not what a guest does (tens of MB).
    assert 0 < asyncio.run(scenario()) < 3_000_000


def test_levels_that_cannot_be_had_are_skipped_and_said_so(
    program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "find_runsc", lambda: None)
    monkeypatch.setattr(path_levels, "_NEEDS", {"sandbox": sandbox.unavailable})
    notes = Notes()
    asked = experiment("netns", factors=(Factor("path", ("sandbox", "zone")),), connections=1)
    outcome = asyncio.run(run(asked, tmp_path / "campaigns", notes=notes, program=program))
    assert outcome.finished == 1 and not outcome.failed
    (skipped,) = outcome.skipped
    assert skipped.reason is not None and "no runsc" in skipped.reason
    assert [manifest["levels"]["path"] for manifest in manifests(outcome.folder)] == ["zone"]
    assert [warning.where for warning in notes.warnings if warning.code == WarningCode.SKIPPED] == [
        "path sandbox"
    ]
    again = asyncio.run(run(asked, tmp_path, resume=outcome.folder, program=program))
    assert again.finished == 1 and len(again.skipped) == 1, "resumed, it is what it was"


def test_a_search_at_a_level_that_cannot_be_had_ends_and_the_others_go_on(
    program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_levels, "_NEEDS", {"sandbox": lambda: "there is none"})
    goal = SearchSpec((replace(parse_goal("mean <= 1s"), width=0.5),), min_load=100, max_load=200)
    plain = experiment("netns", factors=(Factor("path", ("sandbox", "zone")),), connections=1)
    workload = replace(plain.workload, kind="request_response", settings={"arrivals": "constant"})
    asked = replace(plain, workload=workload, search=goal)
    outcome = asyncio.run(run(asked, tmp_path, program=program))
    (skipped,) = outcome.skipped
    first, second = outcome.answers["search"].content["goal_results"]
    assert (first["ended"], first["warning"], first["trials"]) == ("failed", skipped.reason, 0)
    assert second["ended"] and second["trials"] == outcome.finished > 0


def test_without_any_level_it_is_an_error(
    program: AgentProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(path_levels, "_NEEDS", {"relay": lambda: "there is no /dev/net/tun"})
    asked = experiment("netns", factors=(Factor("path", ("relay",)),), connections=1)
    with pytest.raises(AccessError, match="there is no /dev/net/tun"):
        asyncio.run(run(asked, tmp_path / "campaigns", program=program))
    assert not namespaces_of(os.getpid())


@pytest.mark.parametrize("level", ["loopback", "zone", "relay", "sandbox"])
def test_a_path_that_is_taken_away_fails_one_trial(level: str, program: AgentProgram) -> None:
    needs(level)

    async def scenario() -> None:
        async with Testbed(experiment("netns", **QUIET), program, level) as testbed:
            moving = asyncio.Event()

            async def trial() -> None:
                settings = testbed.experiment.settings({"connections": 2, "path": level})
                await carried_out(testbed, settings, LONG, lambda host, record: moving.set())

            task = asyncio.create_task(trial())
            await asyncio.wait(
                [task, asyncio.create_task(moving.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            assert not task.done(), task.exception()
            end = testbed.hosts.paths[0].ends["server"]
            if level == "relay":
                relays = [pid for pid in processes_of(program.path) if b"relay" in command_of(pid)]
                os.kill(relays[0], signal.SIGKILL)
            elif level == "loopback":
                subprocess.run(["ip", "-n", end.namespace, "link", "set", "lo", "down"], check=True)
            else:
                subprocess.run(["ip", "-n", end.namespace, "link", "delete", end.device], check=True)
            began = time.monotonic()
            with pytest.raises(TrialError) as failed:
                await task
            assert time.monotonic() - began < 50, "before the end of the load"
            assert failed.value.what
            if level == "loopback":
                subprocess.run(["ip", "-n", end.namespace, "link", "set", "lo", "up"], check=True)
            await testbed.recover(failed.value)
            assert await load(testbed) > 0, "the path is made anew"

    asyncio.run(scenario())
    assert not namespaces_of(os.getpid())


def test_a_lab_that_is_killed_leaves_no_process(program: AgentProgram, tmp_path: Path) -> None:
    """Agents, relay and sandbox end with the lab; its namespaces are removed by the next one."""
    levels = [level for level in ("relay", "sandbox", "guest") if not path_levels.unavailable(level)]
    if not levels:
        pytest.skip("neither relay nor sandbox nor guest can be had here")
    file = tmp_path / "experiment.yaml"
    file.write_text(
        "name: killed\nhosts: {client: {access: netns}, server: {access: netns}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\n"
        f"factors: {{path: [{', '.join(levels)}]}}\nwindows: {{measured: 60s}}\nprofile: off\n"
    )
    main = "from iodyno.cli.main import main; main()"
    command = [sys.executable, "-c", main, "run", str(file), "--into", str(tmp_path / "c")]
    environment = os.environ | {"IODYNO_AGENT": str(program.path)}
    lab = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        assert lab.stdout is not None
        for line in lab.stdout:
            if b"measuring the background" in line:
                break
        kernels, end = {}, time.monotonic() + 60
        while time.monotonic() < end:
            kernels = {level: children_named(name, lab.pid) for level, name in _KERNELS.items()}
            if {level for level, found in kernels.items() if found} == set(levels) & set(_KERNELS):
                break
            time.sleep(0.1)
        assert {level for level, found in kernels.items() if found} == set(levels) & set(_KERNELS)
        sandboxes = [pid for found in kernels.values() for pid in found]
    finally:
        lab.kill()
        lab.communicate()
    assert gone_within(SOON_S, program.path)
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in sandboxes) and time.monotonic() < end:
        time.sleep(0.05)
    assert not [pid for pid in sandboxes if Path(f"/proc/{pid}").exists()]
    path_levels.veth.remove_leftovers()
    sandbox.remove_leftovers()
    guest.remove_leftovers()
    assert not namespaces_of(lab.pid)


def test_a_path_between_machines_cannot_be_made(program: AgentProgram) -> None:
    asked = experiment("simulated")

    async def scenario() -> None:
        async with Testbed(replace(asked), program, "zone"):
            pass

    with pytest.raises(Exception, match="reached by simulated"):
        asyncio.run(scenario())


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def children_named(name: str, ancestor: int) -> list[int]:
    """Descendants of a process whose command has this word."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = (int(fields[1]), command_of(int(entry.name)))
            except OSError:
                continue
    found, changed = {ancestor}, True
    while changed:
        more = {pid for pid, (parent, _) in parents.items() if parent in found} - found
        changed = bool(more)
        found |= more
    return [pid for pid in found if pid != ancestor and name.encode() in parents[pid][1]]
