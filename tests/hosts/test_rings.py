"""Servers of datagrams on packet rings and AF_XDP, and the client in the kernel, between two real namespaces."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import HUNG_S, MS, carried_out, experiment

from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.experiment import Experiment, Windows, WorkloadSpec
from iodyno.hosts.access import AgentProgram

pytestmark = pytest.mark.root

SERVERS = ("packet_v2", "packet_v3", "xdp")
CLIENTS = ("epoll", "reflector")
RING_CLIENTS = ("packet_v2", "packet_v3", "xdp")
SHORT = Windows(50 * MS, 500 * MS, 50 * MS, 125 * MS)
BRIEF = Windows(50 * MS, 250 * MS, 50 * MS, 250 * MS)
"""For what holds of any trial in which there was a load at all."""
LONG = Windows(0, 120_000 * MS, 50 * MS, 250 * MS)
# A machine that others use may leave a client without a CPU for a while; no request is lost by that.
PATIENT = 5000 * MS


def asked(**settings: Any) -> Experiment:
    found = experiment("netns")
    kind = str(settings.pop("kind", "request_response"))
    answer = {"response_size": 1024} if kind == "request_response" else {}
    settings = {"transport": "udp", "connections": 16, "size": 512, **answer, **settings}
    workload = WorkloadSpec(kind, ("client",), ("server",), settings)
    made: Experiment = replace(found, workload=workload)
    return made


class Counted:
    """What the two ends counted, over all records."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.operations = {"client": 0, "server": 0}
        self.measured = {"client": 0, "server": 0}
        self.span_ns = 0
        self.metrics: dict[tuple[str, str], int] = {}
        self.looks = 0

    def take(self, host: str, record: dict[str, Any]) -> None:
        self.operations[host] += record["load"]["operations"]
        if record["load"]["operations"]:
            self.begun.set()
        if batch := record["load"].get("batch") if host == "server" else None:
            self.looks += batch["count"]
        if record["window"] == "measured":
            self.measured[host] += record["load"]["operations"]
            self.span_ns += record["end_ns"] - record["begin_ns"] if host == "client" else 0
        for reading in record["sensors"]:
            for metric, _, value in reading["values"]:
                if metric.startswith(("datagram.", "server.")):
                    key = (host, metric)
                    self.metrics[key] = self.metrics.get(key, 0) + value

    def of(self, host: str, metric: str) -> int:
        return self.metrics[host, metric]


async def trial(
    testbed: Testbed, windows: Windows = SHORT, counted: Counted | None = None, **settings: Any
) -> Counted:
    counted = counted or Counted()
    levels = testbed.experiment.settings({"response_timeout": PATIENT, **settings})
    await carried_out(testbed, levels, windows, counted.take)
    return counted


async def brief(testbed: Testbed, **settings: Any) -> Counted:
    """A brief trial; one of eight times its length where a stall of the machine left no operation in it."""

    async def of(longer: int) -> Counted:
        windows = replace(BRIEF, measured_ns=longer * BRIEF.measured_ns)
        try:
            return await trial(testbed, windows, **settings)
        except TrialError as error:
            if error.code == "nothing_arrived":
                error.code = "nothing_done"
            raise

    return await testbed.in_time(of)


async def without_loss(
    testbed: Testbed, carried: Callable[..., Awaitable[Counted]] = brief, **settings: Any
) -> Counted:
    """A trial in which every request had its answer. What has none half a second after the end counts as lost, too: on a busy
    machine that is so now and then, where a path has no room it is so each time.
    """
    for _ in range(3):
        counted = await carried(testbed, **settings)
        if counted.of("client", "datagram.lost") == 0:
            return counted
    pytest.fail(f"{settings}: requests were lost in each of three trials: {counted.metrics}")


def between(program: AgentProgram, scenario: Callable[[Testbed], Awaitable[None]], **settings: Any) -> None:
    async def whole() -> None:
        async with Testbed(asked(**settings), program) as testbed:
            await scenario(testbed)

    asyncio.run(whole())


async def under_way(testbed: Testbed, **settings: Any) -> tuple[asyncio.Task[Counted], Counted]:
    """A long trial, once operations have been counted."""
    counted = Counted()
    running = asyncio.create_task(trial(testbed, LONG, counted, **settings))
    begun = asyncio.create_task(counted.begun.wait())
    await asyncio.wait([running, begun], return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running.exception()
    return running, counted


async def ended(running: asyncio.Task[Counted]) -> None:
    """Ends it before its time."""
    running.cancel()
    await asyncio.wait([running])


def inside(testbed: Testbed, host: str, script: str) -> subprocess.Popen[str]:
    """Python in the namespace of a host."""
    namespace = testbed.hosts.accesses[host].reached.path["namespace"]
    command = ["ip", "netns", "exec", namespace, "python3", "-c", script]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_request_is_answered(client: str, program: AgentProgram) -> None:
    async def scenario(testbed: Testbed) -> None:
        for server in SERVERS:
            for answer in (1024, 8192):
                counted = await without_loss(
                    testbed, client_engine=client, server_engine=server, response_size=answer
                )
                assert counted.operations["client"] > 0, (server, answer)
                # What the last answers were to when the client stopped, the server has counted and nobody else.
                assert 0 <= counted.operations["server"] - counted.operations["client"] <= 32
                assert (
                    counted.of("client", "datagram.duplicates")
                    == counted.of("server", "datagram.foreign")
                    == 0
                )
                assert counted.of("server", "server.requests") == counted.operations["server"]
                assert counted.of("server", "server.wakeups") <= counted.of("server", "server.polls")

    between(program, scenario)


@pytest.mark.parametrize("client", RING_CLIENTS)
def test_a_client_on_a_ring_asks_any_server(client: str, program: AgentProgram) -> None:
    """Every request has its answer, the ends of the flows are said, and nobody counts a stranger."""

    async def scenario(testbed: Testbed) -> None:
        # Each server by one at a time of some clients, and by eight of the others.
        for number, server in enumerate(("recvfrom", "recvmmsg", "io_uring", "packet_v2", "xdp")):
            queue_depth = 8 if (number + RING_CLIENTS.index(client)) % 2 else 1
            settings = {"server_engine": server, "queue_depth": queue_depth, "block_packets": 4}
            # One in flight a flow always finds room; 128 at once may find a server's socket full.
            carried = without_loss if queue_depth == 1 else brief
            counted = await carried(testbed, client_engine=client, **settings)
            case = (server, queue_depth, counted.metrics)
            assert counted.operations["client"] > 0, case
            sent, lost = counted.of("client", "datagram.sent"), counted.of("client", "datagram.lost")
            assert sent == counted.of("client", "datagram.received") + lost, case
            assert counted.operations["client"] <= counted.operations["server"] <= sent, case
            for name in ("datagram.duplicates", "datagram.foreign"):
                assert counted.of("client", name) == counted.of("server", name) == 0, case

    between(program, scenario)


@pytest.mark.parametrize("client", [*RING_CLIENTS, "io_uring", "io_uring_zero_copy"])
def test_a_stream_from_a_ring_came_or_is_counted_as_lost(client: str, program: AgentProgram) -> None:
    async def scenario(testbed: Testbed) -> None:
        for sizes in ({"size": 64}, {"size": 1400}, {"sizes": "uniform(64, 1400)"}):
            counted = await brief(
                testbed, client_engine=client, server_engine="recvmmsg", connections=3, **sizes
            )
            sent, came = counted.of("client", "datagram.sent"), counted.of("server", "datagram.received")
            case = (sizes, counted.metrics)
            assert came > 0, case
            assert sent == counted.operations["client"], case
            # Behind a queue that overflowed datagrams come late, which were counted as lost before.
            assert sent == came + counted.of("server", "datagram.lost"), case
            assert counted.of("server", "datagram.duplicates") == 0, case
            assert counted.of("server", "datagram.foreign") == 0, case

    between(program, scenario, kind="stream")


@pytest.mark.parametrize("server", [*SERVERS, "adaptive", "recvmmsg"])
def test_a_stream_into_a_server_came_or_is_counted_as_lost(server: str, program: AgentProgram) -> None:
    """Input at a rate that the server's own work can bear, and at one that it cannot."""
    fitted = (
        {"server_engine": "packet_v3", "adaptive": True}
        if server == "adaptive"
        else {"server_engine": server}
    )

    async def scenario(testbed: Testbed) -> None:
        for compute in (0, 200_000):
            # Twice what the server's CPU bears: what a ring has let in, a busy machine gets done in time, too.
            rate = 10_000 if compute else 20_000
            settings = {"connections": 3, "rate": rate, "arrivals": "poisson", "server_compute": compute}
            counted = await brief(testbed, client_engine="epoll", size=1400, **fitted, **settings)
            sent, came = counted.of("client", "datagram.sent"), counted.of("server", "datagram.received")
            case = (compute, counted.metrics)
            assert came > 0 and came == counted.operations["server"], case
            assert sent == counted.operations["client"], case
            assert sent == came + counted.of("server", "datagram.lost"), case
            for name in ("datagram.duplicates", "datagram.foreign"):
                assert counted.of("server", name) == 0, case
            if compute:
                # Its CPU cannot do more than 5000 in a second. A socket's buffer has no room for the rest; a ring may have.
                assert counted.measured["server"] <= 5000 * counted.span_ns / 1e9 * 1.05, case
                assert server != "recvmmsg" or counted.of("server", "datagram.lost") > 0, case

    between(program, scenario, kind="stream")


def test_blocks_that_never_get_full_keep_the_law(program: AgentProgram) -> None:
    """X = N / T on a machine that is not too busy. On one that is, timers are late, those that follow come the sooner for it,
    and still a block has the requests of all flows.
    """
    flows, timeout_ms = 16, 20
    rounds = SHORT.measured_ns / (timeout_ms * MS)

    async def scenario(testbed: Testbed) -> None:
        ratios, shares = [], []
        for block_packets in (16, 64, 16, 64, 16, 64):
            settings = {
                "server_engine": "packet_v3",
                "block_packets": block_packets,
                "block_timeout": timeout_ms * MS,
            }
            counted = await trial(testbed, client_engine="reflector", connections=flows, **settings)
            law = flows * counted.span_ns / (timeout_ms * MS)
            ratios.append(counted.measured["client"] / law)
            # A round that the window cuts counts whole or not at all.
            if abs(ratios[-1] - 1) <= 0.01 + 1 / rounds:
                return
            blocks = counted.of("server", "server.wakeups")
            shares.append(counted.of("server", "server.requests") / flows / blocks)
        # In two halves it would be 0.5; a stall between two requests cuts a round now and then.
        assert min(ratios) < 1 and max(shares) > 0.75, (ratios, shares)

    between(program, scenario)


def test_blocks_that_follow_the_load_leave_the_cliff(program: AgentProgram) -> None:
    """At first no block gets full, and 64 requests wait for 200 ms: 320/s by law."""

    async def scenario(testbed: Testbed) -> None:
        settings = {"server_engine": "packet_v3", "block_packets": 64, "block_timeout": 200 * MS}
        for adaptive in (False, True):
            counted = await without_loss(
                testbed, trial, client_engine="reflector", connections=64, adaptive=adaptive, **settings
            )
            law = 64 * counted.span_ns / (200 * MS)
            if adaptive:
                # 190 times the law on a machine that is not busy, 2.2 on one that is.
                assert counted.measured["client"] > 1.5 * law
            else:
                assert counted.measured["client"] <= 1.3 * law

    between(program, scenario)


def test_blocks_stay_large_where_the_server_is_what_comes_late(program: AgentProgram) -> None:
    """It works on a block for longer than the timeout, so that others are handed over by it while 64 are in flight all the
    time: those say nothing of the load. A client that stands still says less is in flight, which a busy machine may make it do.
    """

    async def scenario(testbed: Testbed) -> None:
        settings = {"block_packets": 32, "block_timeout": 5 * MS, "server_compute": 400_000}
        means = []
        for _ in range(3):
            counted = await trial(
                testbed,
                client_engine="reflector",
                server_engine="packet_v3",
                adaptive=True,
                connections=64,
                **settings,
            )
            means.append(counted.of("server", "server.requests") / counted.looks)
            if means[-1] > 8:
                return
        pytest.fail(f"packets of a block, on average: {means}")

    between(program, scenario)


ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("0.0.0.0", 9999)); print("up", flush=True)
while True:
    d, a = s.recvfrom(2048); s.sendto(d, a)
"""
ASK = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(60); n = 0
for i in range(50):
    s.sendto(b"%d" % i, ("198.18.0.2", 9999)); n += s.recv(100) == b"%d" % i
print(n)
"""
LISTEN = """
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(("veth0", 0)); s.settimeout(60)
n = 0; end = time.time() + 60
while n < 50 and time.time() < end:
    d = s.recv(2048); n += len(d) == 42 + 512
print(n)
"""


@pytest.mark.parametrize("server", SERVERS)
def test_other_traffic_of_the_device_goes_on(server: str, program: AgentProgram) -> None:
    """Other ports, and whoever looks at packets."""

    async def scenario(testbed: Testbed) -> None:
        echo = inside(testbed, "server", ECHO)
        try:
            assert echo.stdout is not None and echo.stdout.readline() == "up\n"
            running, counted = await under_way(testbed, client_engine="epoll", server_engine=server)
            others = [inside(testbed, "client", ASK)]
            if server != "xdp":
                # What XDP takes, it takes in front of everything.
                others.append(inside(testbed, "server", LISTEN))
            for other in others:
                assert (await asyncio.to_thread(other.communicate, timeout=HUNG_S))[0] == "50\n"
            while counted.operations["client"] <= 100 and not running.done():
                await asyncio.sleep(0.05)
            assert not running.done(), running.exception()
            await ended(running)
        finally:
            echo.kill()
            echo.communicate()

    between(program, scenario)


@pytest.mark.parametrize("server", SERVERS)
def test_what_does_not_show_the_token_is_counted_and_ignored(server: str, program: AgentProgram) -> None:
    async def scenario(testbed: Testbed) -> None:
        running, counted = await under_way(testbed, client_engine="epoll", server_engine=server)
        namespace = testbed.hosts.accesses["server"].reached.path["namespace"]
        shown = subprocess.run(
            ["ip", "netns", "exec", namespace, "cat", "/proc/net/udp"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (port,) = {int(line.split()[1].partition(":")[2], 16) for line in shown.splitlines()[1:]}
        script = f"import socket; s = socket.socket(2, 2); [s.sendto(b'x' * 512, ('198.18.0.2', {port})) for i in range(20)]"
        spoof = inside(testbed, "client", script)
        spoof.communicate(timeout=HUNG_S)
        assert spoof.returncode == 0
        while counted.metrics.get(("server", "datagram.foreign"), 0) < 20 and not running.done():
            await asyncio.sleep(0.05)
        assert not running.done(), running.exception()
        await ended(running)
        assert counted.of("server", "datagram.foreign") == 20
        assert counted.of("client", "datagram.lost") == counted.of("client", "datagram.foreign") == 0

    between(program, scenario)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_device_that_goes_ends_the_trial_with_one_error(
    client: str, server: str, program: AgentProgram
) -> None:
    async def scenario(testbed: Testbed) -> None:
        running, _ = await under_way(
            testbed, client_engine=client, server_engine=server, response_timeout=100 * MS
        )
        namespace = testbed.hosts.accesses["server"].reached.path["namespace"]
        subprocess.run(["ip", "-n", namespace, "link", "delete", "veth0"], check=True)
        with pytest.raises(TrialError):
            await asyncio.wait_for(running, 100)

    between(program, scenario)


def test_a_program_leaves_with_its_agent_however_that_ends(program: AgentProgram) -> None:
    """SIGKILL: the links of the programs belong to the process."""

    async def scenario(testbed: Testbed) -> None:
        def attached(host: str) -> bool:
            namespace = testbed.hosts.accesses[host].reached.path["namespace"]
            shown = ["ip", "-n", namespace, "-details", "link", "show", "veth0"]
            return "xdp" in subprocess.run(shown, capture_output=True, text=True, check=True).stdout

        running, _ = await under_way(testbed, client_engine="reflector", server_engine="xdp")
        assert attached("client") and attached("server")
        for session in testbed.sessions.values():
            await session.kill()
        with pytest.raises(TrialError):
            await asyncio.wait_for(running, 100)
        for _ in range(600):
            if not attached("client") and not attached("server"):
                return
            await asyncio.sleep(0.1)
        pytest.fail("a program is still attached")

    between(program, scenario)


REFUSED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"server_engine": "packet_v2", "size": 4096}, "do not fit into one frame"),
    ({"server_engine": "packet_v2", "adaptive": True}, "only a ring of blocks"),
    ({"server_engine": "packet_v3", "block_timeout": 1_500_000}, "whole milliseconds"),
    ({"client_engine": "reflector", "queue_depth": 2}, "queue_depth"),
    ({"client_engine": "packet_v2", "size": 4096}, "do not fit into one frame"),
    ({"client_engine": "xdp", "response_size": 4096}, "come in fragments"),
    ({"client_engine": "io_uring", "busy_poll": 50_000}, "does not look at the device"),
    ({"server_engine": "xdp", "reader_think": 1000}, "neither pauses"),
)


def test_what_cannot_be_says_why_and_the_agents_take_the_next_trial(program: AgentProgram) -> None:
    async def scenario(testbed: Testbed) -> None:
        for settings, reason in REFUSED:
            with pytest.raises(TrialError, match=reason) as refused:
                await trial(testbed, **{"client_engine": "epoll", **settings})
            await testbed.recover(refused.value)
        assert (await brief(testbed, client_engine="epoll", server_engine="recvmmsg")).operations[
            "client"
        ] > 0

    between(program, scenario)


@pytest.mark.parametrize("server", ["packet_v2", "xdp"])
def test_without_the_right_to_packet_sockets_it_is_one_error_that_names_the_right(
    server: str, program: AgentProgram, tmp_path: Path
) -> None:
    drop = "-net_raw,-bpf"
    prefix = ("setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}")
    if shutil.which("setpriv") is None or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("needs setpriv to drop rights")
    words = [
        "rr",
        "--transport",
        "udp",
        "--server-engine",
        server,
        "--seconds",
        "0.3",
        "--into",
        str(tmp_path),
    ]
    lab = subprocess.run(
        [*prefix, sys.executable, "-c", "from iodyno.cli.main import main; main()", *words],
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        env=os.environ | {"IODYNO_AGENT": str(program.path)},
        check=False,
    )
    assert lab.returncode in (4, 5), lab.stderr
    assert "is not allowed to use" in lab.stderr
    assert "CAP_NET_RAW" in lab.stderr or "CAP_BPF" in lab.stderr
    assert "Traceback" not in lab.stderr
