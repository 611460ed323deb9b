"""Loads of datagrams between real namespaces, and what can happen to them: loss, strangers, a path that is too small or
gone. What was sent is what came and what was lost, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import MS, UNSET, Notes, experiment, namespaces_of, run

from iodyno.analysis.datagrams import check, loss_ratio
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.trial import Trial
from iodyno.cli.execute import failed
from iodyno.core.design import PlannedTrial
from iodyno.core.errors import PreflightError
from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode

pytestmark = pytest.mark.root
WINDOWS = Windows(100 * MS, 600 * MS, 50 * MS, 100 * MS)


def asked(kind: str, flows: int, **settings: Any) -> Any:
    """One trial over UDP between two namespaces."""
    found = experiment(
        "netns", factors=(Factor("connections", (flows,)),), windows=WINDOWS, transport="udp", **settings
    )
    return replace(found, workload=replace(found.workload, kind=kind))


def counted(trial: Trial, host: str, name: str) -> int:
    """A counter over all windows of the trial."""
    readings = trial.hosts[host].readings["datagram"].values()
    return sum(reading.values.get((f"datagram.{name}", ""), 0) for reading in readings)


class Before(Notes):
    """Does something just before the trial, so that all of its load meets it."""

    def __init__(self, do: Callable[[], None]) -> None:
        super().__init__()
        self._do = do

    def on_trial_start(self, planned: object, attempt: int) -> None:
        self._do()


def carried_out(
    wanted: Any, tmp_path: Path, meanwhile: Callable[[], None] | None = None, notes: Notes | None = None
) -> Any:
    """Runs it; `meanwhile` is done once the load is on."""
    notes = notes or Notes()

    async def scenario() -> Any:
        task = asyncio.create_task(run(wanted, tmp_path / "campaigns", notes=notes))
        while meanwhile and notes.records < 4 and not task.done():
            await asyncio.sleep(0.02)
        if meanwhile:
            meanwhile()
        return await task

    outcome = asyncio.run(scenario())
    assert not namespaces_of(os.getpid())
    return outcome


def only_trial(outcome: Any) -> Trial:
    assert outcome.finished == 1, outcome
    (trial,) = [trial for trial in read_dataset(outcome.folder).trials if trial.finished]
    return trial


def namespace(end: str) -> str:
    (name,) = [name for name in namespaces_of(os.getpid()) if name.endswith(f"-{end}")]
    return name


def inside(end: str, *command: str) -> str:
    """Runs a command in the namespace of one end; what it says."""
    done = subprocess.run(
        ["ip", "netns", "exec", namespace(end), *command], check=True, capture_output=True, text=True
    )
    return done.stdout


class Disorder(Notes):
    """A path for datagrams of one kind, of which every fourth number waits in a slow queue of a few places while the others
    pass, and every eighth goes a second way as well. It is there before the load is.
    """

    def __init__(self, kind: int) -> None:
        super().__init__()
        self._kind = kind
        self.dropped = self.doubled = 0

    def numbered(self, remainder: int, of: int) -> tuple[str, ...]:
        """Those whose number leaves a remainder: bytes 40 and 44 are kind and number, behind the headers of IPv4 and UDP."""
        kind = ("match", "u8", hex(self._kind), "0xff", "at", "40")
        return ("u32", *kind, "match", "u8", hex(remainder), hex(of - 1), "at", "44")

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        super().on_trial_start(planned, attempt)
        # The second way ends at a device that the kernel takes for the first: it has the same address.
        address = json.loads(inside("server", "ip", "-j", "link", "show", "dev", "veth0"))[0]["address"]
        slow, twice = " ".join(self.numbered(3, 4)), " ".join(self.numbered(1, 8))
        inside("client", "sh", "-ec", f"""
            {UNSET}
            tc qdisc replace dev veth0 root handle 1: htb default 1
            tc class add dev veth0 parent 1: classid 1:1 htb rate 10gbit quantum 60000
            tc class add dev veth0 parent 1: classid 1:2 htb rate 1mbit burst 1k cburst 1k
            tc qdisc add dev veth0 parent 1:2 pfifo limit 20
            tc filter add dev veth0 protocol ip parent 1: {slow} flowid 1:2
            ip link add second type veth peer name second netns {namespace("server")} address {address}
            ip link set second up
            tc qdisc add dev veth0 clsact
            tc filter add dev veth0 protocol ip egress {twice} action mirred egress mirror dev second
        """)  # fmt: skip
        inside("server", "sh", "-ec", """
            ip link set second up
            sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.second.rp_filter=0
        """)  # fmt: skip

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        super().on_trial_end(planned, manifest)
        shown = inside("client", "tc", "-s", "qdisc", "show", "dev", "veth0").partition("pfifo")[2]
        self.dropped = int(shown.partition("dropped ")[2].partition(",")[0])
        shown = inside("client", "tc", "-s", "filter", "show", "dev", "veth0", "egress")
        self.doubled = int(shown.rpartition("bytes ")[2].partition(" pkt")[0])


@pytest.mark.parametrize(("kind", "number"), [("stream", 3), ("request_response", 1)])
def test_what_overtakes_and_what_comes_twice_is_counted_once(kind: str, number: int, tmp_path: Path) -> None:
    """The kernel's own counts of the path are the second account."""
    many = {"rate": 4000} if kind == "stream" else {"queue_depth": 8, "response_timeout": 200 * MS}
    path = Disorder(number)
    outcome = carried_out(asked(kind, 2, size=100, engine="epoll", **many), tmp_path, notes=path)
    # Void where a busy machine kept the generator from its rate: its counts are as good.
    (trial,) = read_dataset(outcome.folder).trials
    assert outcome.finished == 1 and trial.status in ("finished", "void"), trial.reason
    sent = counted(trial, "client", "sent")
    assert path.doubled > 0
    if kind == "request_response":
        names = ("received", "lost", "retries", "duplicates", "late")
        received, lost, retries, twice, late = (counted(trial, "client", name) for name in names)
        assert sent == received + lost + retries
        # Those that a busy machine answers after the timeout are late as well.
        assert 0 < twice + late <= path.doubled + retries + lost, "a second answer is none"
        return
    names = ("received", "lost", "reordered", "duplicates", "late")
    came, lost, overtaken, twice, late = (counted(trial, "server", name) for name in names)
    assert sent == came + lost, "each number came or was lost, and none was both"
    assert overtaken > 0 and twice > 0
    assert came + late + twice <= sent - path.dropped + path.doubled, "no more than the path let through"
    assert twice <= path.doubled
    assert trial.hosts["server"].manifest["result"]["bytes"] == 100 * came


def test_sixty_four_flows_are_answered_by_one_socket(tmp_path: Path) -> None:
    servers = ("recvfrom", "recvmmsg", "epoll", "segments", "io_uring")
    wanted = asked("request_response", 64, size=512, response_size=1024, engine="epoll")
    wanted = replace(wanted, factors=(*wanted.factors, Factor("server_engine", servers)))
    outcome = carried_out(wanted, tmp_path)
    assert outcome.finished == len(servers), outcome
    for trial in read_dataset(outcome.folder).trials:
        server, client = trial.levels["server_engine"], trial.hosts["client"]
        assert client.manifest["result"]["connections_carrying"] == 64, server
        sent, received, lost = (counted(trial, "client", name) for name in ("sent", "received", "lost"))
        assert sent == received + lost and received > 64, server
        assert counted(trial, "server", "received") <= sent, server
        assert loss_ratio(trial).value is not None, server
        assert (trial.hosts["server"].growth("server", "server.requests") or 0) > 0, server
        assert bool(trial.hosts["server"].batches) == (server in ("recvmmsg", "segments", "io_uring")), server


@pytest.mark.parametrize("syscalls", ["read_write", "batch"])
def test_what_a_narrow_path_drops_is_counted(syscalls: str, tmp_path: Path) -> None:
    wanted = asked("stream", 2, size=1000, syscalls=syscalls, link_rate=20_000_000, link_queue=20_000)
    trial = only_trial(carried_out(wanted, tmp_path))
    sent = counted(trial, "client", "sent")
    came, lost = (counted(trial, "server", name) for name in ("received", "lost"))
    # A send faster than 20 Mbit/s by far: a queue of 20 packets cannot hold it.
    assert lost > 0 and came > 0
    results = {name: host.manifest["result"] for name, host in trial.hosts.items()}
    assert results["server"]["operations"] + lost == results["client"]["operations"]
    assert (came, sent) == (results["server"]["operations"], results["client"]["operations"])
    assert WarningCode.DATAGRAMS_LOST in {warning.code for warning in check(trial)}


def test_requests_without_an_answer_are_sent_again_or_lost(tmp_path: Path) -> None:
    wanted = asked(
        "request_response",
        8,
        size=1000,
        response_size=1000,
        engine="epoll",
        response_timeout=20 * MS,
        retries=1,
    )

    def drop() -> None:
        inside("server", "tc", "qdisc", "replace", "dev", "veth0", "root", "tbf", "rate", "1mbit", "burst",
               "2000", "limit", "4000")  # fmt: skip

    trial = only_trial(carried_out(wanted, tmp_path, notes=Before(drop)))
    sent, received, lost = (counted(trial, "client", name) for name in ("sent", "received", "lost"))
    retries = counted(trial, "client", "retries")
    assert retries > 0
    assert sent == received + lost + retries


def test_strangers_are_ignored_and_counted(tmp_path: Path) -> None:
    knock = """
import socket
stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for line in open("/proc/net/udp").readlines()[1:]:
    address, port = line.split()[1].split(":")
    for length in (0, 5, 24, 900):
        stranger.sendto(bytes(length), (socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
"""

    def strangers() -> None:
        inside("server", sys.executable, "-c", knock)

    wanted = asked("request_response", 4, engine="epoll")
    # Long enough for a stranger to find the way in on a busy machine.
    wanted = replace(wanted, windows=replace(WINDOWS, measured_ns=4_000 * MS))
    trial = only_trial(carried_out(wanted, tmp_path, strangers))
    assert counted(trial, "server", "foreign") == 4
    assert counted(trial, "client", "received") > 0


def test_a_datagram_that_the_path_does_not_take_whole_is_said(tmp_path: Path) -> None:
    trial = only_trial(carried_out(asked("stream", 1, size=4000), tmp_path))
    (warning,) = [warning for warning in check(trial) if warning.code == WarningCode.FRAGMENTS]
    assert "messages of 4000 bytes" in warning.text and "1472 bytes" in warning.text
    with pytest.raises(PreflightError, match="cannot be cut by the kernel: the path takes 1472 at most"):
        carried_out(asked("stream", 1, size=4000, syscalls="segments"), tmp_path)
    assert not namespaces_of(os.getpid())


def test_a_pacing_rate_that_nothing_keeps_is_said(tmp_path: Path) -> None:
    trial = only_trial(carried_out(asked("stream", 2, size=1000, pacing_rate=8_000_000), tmp_path))
    (warning,) = [warning for warning in check(trial) if "pacing rate was not kept" in warning.text]
    assert "of 16 Mbit/s: of datagrams only the qdisc fq" in warning.text


def test_an_interface_deleted_mid_trial_fails_it_soon(tmp_path: Path) -> None:
    wanted = asked("request_response", 4, engine="epoll")
    wanted = replace(wanted, windows=replace(WINDOWS, measured_ns=60_000 * MS))
    deleted: list[float] = []

    def delete() -> None:
        inside("client", "ip", "link", "delete", "veth0")
        deleted.append(time.monotonic())

    outcome = carried_out(wanted, tmp_path, delete)
    # Before the load was to stop, on a busy machine, too.
    assert time.monotonic() - deleted[0] < 50
    (failed,) = outcome.failed
    assert "the device veth0 of host " in str(failed.reason) and " is gone: " in str(failed.reason)
    assert any(why in str(failed.reason) for why in ("all connections ended", "no byte moved"))


def test_a_datagram_too_long_for_its_buffer_fails_once_and_names_the_buffer(tmp_path: Path) -> None:
    wanted = asked("stream", 1, connections=1, send_buffer=4096)
    wanted = replace(
        wanted, factors=(Factor("size", (1000, 60_000)),), limits=replace(wanted.limits, retries=1)
    )
    notes = Notes()
    outcome = carried_out(wanted, tmp_path, notes=notes)
    # A second attempt would fail in the same way.
    assert sorted((found["attempt"], found["status"]) for found in notes.manifests) == [
        (1, "failed"),
        (1, "finished"),
    ]
    told = failed(outcome, 2, outcome.folder, "--resume")
    assert "60000 bytes" in told.what and "send buffer" in told.what
    assert "send_buffer" in told.advice and "--resume" not in told.advice


def test_a_path_that_is_tried_with_such_a_datagram_is_not_what_is_blamed(tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as refused:
        carried_out(asked("request_response", 1, size=64, response_size=60_000, window=4096), tmp_path)
    assert "send buffer" in refused.value.what and "window" in refused.value.advice
