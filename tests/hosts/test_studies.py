"""The smaller studies run as they ship, but for hosts that are made here and shorter windows."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import command_server
import pytest
from places import HUNG_S, data_link, done_or_void, ssh_place

STUDIES = Path(__file__).parents[2] / "studies"
SHORT = """  windows: {warm_up: 50ms, measured: 300ms, drain: 50ms, interval: 100ms}
limits: {background: 1, background_window: 100ms}
"""

pytestmark = pytest.mark.root


def campaign_of(study: str, changes: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """Runs the quick form of the study with lines that begin like the keys of `changes` changed; its points."""
    lines = (STUDIES / study).read_text(encoding="utf-8").splitlines()
    for start, line in changes.items():
        places = [index for index, text in enumerate(lines) if text.startswith(start)]
        assert places, f"{study} has no line that begins with {start!r}"
        lines[places[-1]] = line
    text = "\n".join(line for line in lines if "windows:" not in line or not line.startswith("  "))
    path = folder / study
    path.write_text(f"{text}\n{SHORT}", encoding="utf-8")
    ran = subprocess.run(
        [*command_server.iodyno(), "run", path, "--quick", "--json"],
        cwd=folder, capture_output=True, text=True, timeout=HUNG_S, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done_or_void(ran), ran.stdout + ran.stderr
    outcome = json.loads(ran.stdout)
    assert all("the generator fell behind" in each["reason"] for each in outcome["failed"]), outcome["failed"]
    shown = subprocess.run(
        [*command_server.iodyno(), "report", outcome["campaign"], "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(shown.stdout)["points"]
    return found


def test_tcp_transmit_over_ssh(tmp_path: Path) -> None:
    with (
        ssh_place(tmp_path / "a", 3) as first,
        ssh_place(tmp_path / "b", 4) as second,
        data_link(first, second) as at,
    ):
        hosts = {
            name: json.dumps({"access": "ssh", **place.options, "address": address})
            for name, place, address in zip(("client", "server"), (first, second), at, strict=True)
        }
        changes = {f"  {name}: {{access": f"  {name}: {written}" for name, written in hosts.items()}
        changes |= {
            "    connections:": "    connections: [1, 8]",
            "  window:": "  window: [256k]",
            "  size:": "  size: [64KiB, 1KiB]",
            "design:": "design: {kind: full_factorial, replicates: 2, blocks: true, seed: 20081217}",
        }
        points = campaign_of("tcp-transmit-ssh.yaml", changes, tmp_path)
    assert {(p["levels"]["connections"], p["levels"]["size"]) for p in points} == {
        (connections, size) for connections in (1, 8) for size in (65536, 1024)
    }
    for point in points:
        assert point["outcomes"]["goodput_bits_per_s"]["estimate"] > 0
        assert point["outcomes"]["goodput_bits_per_s"]["n"] == 2
        # A busy machine may have left nothing to tell the load's cost from in a trial.
        assert point["outcomes"]["client.cpu_ns_per_kib"]["n"] <= 2


def test_tcp_options(tmp_path: Path) -> None:
    points = campaign_of("tcp-options.yaml", {"  design:": "  design: {replicates: 1}"}, tmp_path)
    assert len(points) == 8
    for point in points:
        assert set(point["levels"]) == {"size", "nagle", "congestion_control"}
        assert point["outcomes"]["goodput_bits_per_s"]["estimate"] > 0
        assert not any("option_not_obtained" in str(warning) for warning in point["warnings"])


def test_storage_lso(tmp_path: Path) -> None:
    changes = {
        "  size:": "  size: [128KiB]",
        "    all.gso_max_size:": "    all.gso_max_size: [4KiB, 64KiB]",
        "  design:": "  design: {replicates: 1}",
    }
    small, large = (
        point["outcomes"]["device_segment_bytes"]["estimate"]
        for point in campaign_of("storage-lso.yaml", changes, tmp_path)
    )
    # What is handed to the device is bounded by the tunable, headers and all.
    assert small <= 4096 < large


def test_storage_latency(tmp_path: Path) -> None:
    changes = {
        "    server.blanking:": "    server.blanking: [0s, 200us]",
        "  connections:": "  connections: [1]",
        "  design:": "  design: {replicates: 1}",
    }
    _, held = campaign_of("storage-latency.yaml", changes, tmp_path)
    # A request waits until the timer of the server's device is due; some come when it has just been set.
    assert held["outcomes"]["latency_p50_ns"]["estimate"] > 150_000


def test_storage_traffic(tmp_path: Path) -> None:
    changes = {"    connections:": "    connections: [1]", "  design:": "  design: {replicates: 1}"}
    points = campaign_of("storage-traffic.yaml", changes, tmp_path)
    assert len(points) == 10
    by_name = {point["levels"]["variant"]: point["outcomes"] for point in points}
    segments = {name: outcomes["device_segment_bytes"]["estimate"] for name, outcomes in by_name.items()}
    # Without offload a segment is a packet: the MTU and the 14 bytes of an Ethernet header bound it.
    assert segments["no_lso"] <= 1514 < segments["no_lso_jumbo"] <= 9014 < segments["lso"]
    for outcomes in by_name.values():
        # A busy machine may have left nothing to tell the load's cost from; then it says why.
        worth = outcomes["server.bytes_per_cycle"]
        assert (worth["estimate"] or 0) > 0 or worth["missing"]


def test_storage_traffic_of_several_clients(tmp_path: Path) -> None:
    changes = {
        "  client: {access": "  client: {access: netns, count: 4}",
        "  response_size:": "  response_size: [128KiB]",
        "  server_engine:": "  server_engine: [epoll, io_uring]",
        "  design:": "  design: {replicates: 1}",
    }
    points = campaign_of("storage-traffic-clients.yaml", changes, tmp_path)
    assert {point["levels"]["server_engine"] for point in points} == {"epoll", "io_uring"}
    for outcomes in (point["outcomes"] for point in points):
        bits, reads = (outcomes[name]["estimate"] for name in ("goodput_bits_per_s", "operations_per_s"))
        # A read is a request of 64 bytes and its answer.
        assert bits == pytest.approx(8 * (64 + (128 << 10)) * reads, rel=0.1)
        assert 1 / 4 <= outcomes["fairness"]["estimate"] <= 1


@pytest.mark.parametrize("study", ["host-vs-zone.yaml", "host-vs-zone-packets.yaml"])
def test_host_vs_zone(study: str, tmp_path: Path) -> None:
    changes = {
        "  path:": "  path: [loopback, zone, relay, relay_offload]",
        "    connections:": "    connections: [2]",
        "  design: {replicates": "  design: {replicates: 1}",
    }
    points = campaign_of(study, changes, tmp_path)
    assert {point["levels"]["path"] for point in points} == {"loopback", "zone", "relay", "relay_offload"}
    for point in points:
        assert point["skipped"] is None or "tun" in point["skipped"]
        assert point["skipped"] or point["outcomes"]["messages_per_s"]["estimate"] > 0


def test_datagram_servers(tmp_path: Path) -> None:
    changes = {
        "    levels:": "    levels: [recvmmsg, v2, v3-16, v3-64, xdp]",
        "      server_engine:": "      server_engine: [recvmmsg, packet_v2, packet_v3, packet_v3, xdp]",
        "      block_packets:": "      block_packets: [32, 32, 16, 64, 32]",
        "      block_timeout:": "      block_timeout: [10ms, 10ms, 10ms, 100ms, 10ms]",
        "      adaptive:": "      adaptive: [off, off, off, off, off]",
        "  response_size:": "  response_size: [1024B]",
        "  design:": "  design: {replicates: 1}",
    }
    points = campaign_of("datagram-servers.yaml", changes, tmp_path)
    found = {point["levels"]["variant"]: point["outcomes"] for point in points}
    assert set(found) == {"recvmmsg", "v2", "v3-16", "v3-64", "xdp"}
    for label, outcomes in found.items():
        assert outcomes["operations_per_s"]["estimate"] > 0, label
        assert outcomes["server_batch_mean"]["estimate"] >= 1, label
        assert outcomes["server_polls_per_s"]["estimate"] >= 0, label
        # A bound by law: 64 requests every 100 ms, and one round that the window of 300 ms cuts.
        assert (outcomes["block_law_ratio"]["estimate"] is not None) == (label == "v3-64")
    assert found["v3-64"]["operations_per_s"]["estimate"] <= 640 * 1.34
    assert found["v3-16"]["operations_per_s"]["estimate"] > 640 * 1.34


def test_datagram_ingest(tmp_path: Path) -> None:
    changes = {
        "    levels:": "    levels: [recvmmsg, v3]",
        "      server_engine:": "      server_engine: [recvmmsg, packet_v3]",
        "      adaptive:": "      adaptive: [off, off]",
        # No more than the sending end can do on any machine.
        "search:": "search: {goals: [loss = 0], min_load: 1000, max_load: 50000, width: 20%, search_duration: 5s}",
    }
    points = campaign_of("datagram-ingest.yaml", changes, tmp_path)
    assert {point["levels"]["server_engine"] for point in points} == {"recvmmsg", "packet_v3"}
    (folder,) = (tmp_path / "campaigns").iterdir()
    shown = subprocess.run(
        [*command_server.iodyno(), "report", folder], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    # A level is told as it was written, and what is set together with it is not told again.
    for name in ("recvmmsg", "v3"):
        assert f"The largest rate with loss = 0 at variant {name} " in shown.stdout, shown.stdout


def test_lock_manager(tmp_path: Path) -> None:
    changes = {
        "    connections:": "    connections: [1, 4, 16]",
        "  all.mtu:": "  all.mtu: [9000]",
        "  design:": "  design: {replicates: 1}",
    }
    points = campaign_of("lock-manager.yaml", changes, tmp_path)
    assert len(points) == 3 * 2
    got = expected = 0.0
    for point in points:
        outcomes, levels = point["outcomes"], point["levels"]
        assert outcomes["operations_per_s"]["estimate"] > 0
        # One thread computes 20 us for each answer, whatever else it does: a bound by law.
        assert outcomes["operations_per_s"]["estimate"] <= 50_000 * 1.01
        got += outcomes["goodput_bits_per_s"]["estimate"]
        expected += outcomes["operations_per_s"]["estimate"] * (512 + 8192) * 8
        assert (outcomes["loss_ratio"]["estimate"] is not None) == (levels["transport"] == "udp")
    # Both are delivered: requests of 512 bytes, 6 % of all, and blocks of 8 KiB. Each end has its own window, which a
    # machine that halts for 13 ms moves by 4 % of 300 ms; not in all six points.
    assert got == pytest.approx(expected, rel=0.03)
    (folder,) = (tmp_path / "campaigns").iterdir()
    shown = subprocess.run(
        [*command_server.iodyno(), "report", folder, "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    walls = json.loads(shown.stdout)["walls"]
    assert {(wall["levels"]["transport"], wall["levels"]["all.mtu"]) for wall in walls} == {
        (transport, 9000) for transport in ("udp", "tcp")
    }
    for wall in walls:
        # On a noisy machine two short trials may not carry a wall; then it says why.
        clients = wall["clients"]
        assert clients.get("missing") or clients["low"] <= clients["estimate"] <= clients["high"]
        assert wall["loads"] == [1, 4, 16]


def test_lock_manager_of_eighteen_hosts(tmp_path: Path) -> None:
    changes = {
        "    connections:": "    connections: [1]",
        "  design:": "  design: {replicates: 1}",
    }
    points = campaign_of("lock-manager-clients.yaml", changes, tmp_path)
    assert {point["levels"]["transport"] for point in points} == {"udp", "tcp"}
    for point in points:
        outcomes = {name: found["estimate"] for name, found in point["outcomes"].items()}
        # The server's one thread computes 20 us for each answer.
        assert 0 <= outcomes["operations_per_s"] <= 50_000 * 1.01
        if not outcomes["operations_per_s"]:
            # A busy machine may keep all answers of a point beyond the timeout of datagrams.
            assert point["levels"]["transport"] == "udp"
            continue
        assert 1 / 18 <= outcomes["fairness"] <= 1
        each = [outcomes[f"client-{number}.operations_per_s"] for number in range(1, 19)]
        assert sum(each) == pytest.approx(outcomes["operations_per_s"], rel=0.1)


def test_request_cost(tmp_path: Path) -> None:
    # Half of the factors: the shape of the whole design is that of its plan.
    changes = {"  response_size: [": "  response_size: [512B]", "  design: {": "  design: {replicates: 1}"}
    points = campaign_of("request-cost.yaml", changes, tmp_path)
    seen = {
        (point["levels"]["transport"], point["levels"]["size"], point["levels"]["rate"]) for point in points
    }
    corners = {(name, size, rate) for name in ("tcp", "udp") for size in (512, 8192) for rate in (1000, 4000)}
    assert seen == corners | {("tcp", 4352, 2500), ("udp", 4352, 2500)}
    for point in points:
        if not point["finished"]:
            continue  # Void, as where a busy machine kept the generator from its CPU.
        offered = point["outcomes"]["offered_operations_per_s"]["estimate"]
        # 300 arrivals at the least: 6 % of standard error, four of those.
        assert offered == pytest.approx(point["levels"]["rate"], rel=0.25)
    # A busy machine may keep all answers of a point beyond the timeout, which is two thirds of its time.
    carried = {
        point["levels"]["transport"] for point in points if point["outcomes"]["operations_per_s"]["estimate"]
    }
    assert carried == {point["levels"]["transport"] for point in points if point["finished"]}


def test_protocol_cost(tmp_path: Path) -> None:
    """Reads alone and writes alone, on a local device and through a server."""
    changes = {
        "  random: [": "  random: [100%]",
        "  block: [": "  block: [4KiB]",
        "  rate: [": "  rate: [1000]",
        "  design: {": "  design: {replicates: 1}",
    }
    points = campaign_of("protocol-cost.yaml", changes, tmp_path)
    assert {(point["levels"]["volume"], point["levels"]["read"]) for point in points} == {
        (volume, read) for volume in ("loop", "nfs") for read in (0, 10**6)
    }
    for point in points:
        if not point["finished"]:
            continue  # Void, as where a busy machine kept the generator from its CPU.
        outcomes = point["outcomes"]
        # 300 arrivals: 6 % of standard error, four of those. What is due in the window may be done after it.
        assert outcomes["offered_operations_per_s"]["estimate"] == pytest.approx(1000, rel=0.25)
        assert outcomes["iops"]["estimate"] > 0
        # A role that has no process here has no cost; the server of the one that has is seen.
        assert (outcomes["client.cpu_server_us_per_io"]["estimate"] is not None) == (
            point["levels"]["volume"] == "nfs"
        )
