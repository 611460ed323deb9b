"""The simulated agent keeps to its truth: cost, rate and background can be read off what it sends."""

from __future__ import annotations

import asyncio
import json
import statistics
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest
from places import MS, PROFILE_HZ, experiment, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.core.experiment import DesignSpec, HostSpec, Windows
from iodyno.core.factor import Factor
from iodyno.hosts.access import AgentProgram
from iodyno.session.simulated import LOAD_SHARES, Truth

TRUTH = {
    "per_kib_ns": 150,
    "per_message_ns": 2000,
    "per_connection_ns": 0.1,
    "background_ratio": 0.04,
    "seed": 5,
}


@pytest.mark.parametrize("exact", [True, False])
def test_cost_and_rate_of_a_point_are_what_the_truth_says(exact: bool, tmp_path: Path) -> None:
    truth = Truth(**TRUTH, exact=exact)  # type: ignore[arg-type]
    hosts = {
        name: HostSpec(name, "simulated", {"truth": {**TRUTH, "exact": exact}})
        for name in ("client", "server")
    }
    asked = experiment(
        hosts=hosts,
        factors=(Factor("connections", (10, 1000)), Factor("size", (1024,))),
        windows=Windows(0, 4_000 * MS, 0, 1_000 * MS),
    )
    asked = replace(asked, design=DesignSpec(replicates=20, seed=1))
    program = AgentProgram(Path("/nowhere"), "0" * 64, "b")
    folder = asyncio.run(run(asked, tmp_path, program=program)).folder
    rows = duckdb.sql(
        f"""
        with busy as (
            select filename, host, sum(value) as ns from read_parquet('{folder}/trials/*/series.parquet', filename = true)
            where metric in ('cpu.user_ns', 'cpu.system_ns', 'cpu.softirq_ns') group by all),
        moved as (
            select filename, host, sum(bytes) as bytes, sum(end_ns - begin_ns) as ns, max(connections_active) as conns
            from read_parquet('{folder}/trials/*/records.parquet', filename = true) group by all)
        select moved.host, conns, busy.ns - {truth.background_ratio} * moved.ns as cost_ns, bytes, moved.ns
        from moved join busy on busy.host = moved.host
            and replace(busy.filename, 'series', '') = replace(moved.filename, 'records', '')
        """
    ).fetchall()
    assert len(rows) == 2 * 2 * 20
    for role, host in (("send", "client"), ("receive", "server")):
        for connections in (10, 1000):
            mine = [row for row in rows if row[0] == host and row[1] == connections]
            # Noise between trials is 2 %, so the mean of 20 has a standard error of 0.45 %; four of those.
            cost = statistics.mean(float(row[2]) / float(row[3]) * 1024 for row in mine)
            assert cost == pytest.approx(truth.cpu_ns_per_kib(connections, 1024, role), rel=0.02)
            rate = statistics.mean(float(row[3]) * 8e9 / float(row[4]) for row in mine)
            assert rate == pytest.approx(truth.rate_bits_per_s(connections, 1024, 1), rel=0.02)


@pytest.mark.parametrize("bpf", [True, False])
def test_classes_of_both_hosts_are_what_the_truth_says(bpf: bool, tmp_path: Path) -> None:
    truth = Truth(**TRUTH, bpf=bpf)  # type: ignore[arg-type]
    hosts = {
        name: HostSpec(name, "simulated", {"truth": {**TRUTH, "bpf": bpf}}) for name in ("client", "server")
    }
    asked = experiment(
        hosts=hosts, factors=(Factor("size", (1024, 65536)),), windows=Windows(0, 4_000 * MS, 0, 1_000 * MS)
    )
    # Long, as a class of the background that is shorter than a tick of 10 ms may be missed.
    limits = replace(asked.limits, background_ns=20_000 * MS)
    asked = replace(asked, design=DesignSpec(replicates=20, seed=1), limits=limits)
    program = AgentProgram(Path("/nowhere"), "0" * 64, "b")
    summary = analyse(read_dataset(asyncio.run(run(asked, tmp_path, program=program)).folder))
    assert summary.accounting.tier == ("bpf" if bpf else "tick")
    # What /proc/stat cannot see: a hard interrupt is booked as a soft one there.
    shares = LOAD_SHARES if bpf else LOAD_SHARES | {"irq": 0.0, "softirq": 0.33}
    for point in summary.points:
        for host, role in (("client", "send"), ("server", "receive")):
            cost = truth.cpu_ns_per_kib(1, int(point.levels["size"]), role)
            for kind, share in shares.items():
                found = point.outcomes[f"{host}.cpu_{kind}_ns_per_kib"]
                # The mean of 20 trials is known to 0.45 %; four of those, and what samples and ticks leave open.
                assert found.estimate == pytest.approx(share * cost, rel=0.02, abs=0.01 * cost)
                assert f"tier {summary.accounting.tier}:" in found.method
            other = point.outcomes[f"{host}.cpu_other_ratio"]
            assert other.estimate == (pytest.approx(0.8 * 0.04, rel=1e-3) if bpf else None)


@pytest.mark.parametrize("exact", [True, False])
def test_functions_have_the_shares_that_the_truth_says(exact: bool, tmp_path: Path) -> None:
    truth = Truth(**TRUTH, exact=exact)  # type: ignore[arg-type]
    hosts = {
        name: HostSpec(name, "simulated", {"truth": {**TRUTH, "exact": exact}})
        for name in ("client", "server")
    }
    sizes = (1024, 65536)
    asked = experiment(
        hosts=hosts,
        factors=(Factor("connections", (10,)), Factor("size", sizes)),
        windows=Windows(0, 10_000 * MS, 0, 1_000 * MS),
        profile_hz=PROFILE_HZ,
    )
    program = AgentProgram(Path("/nowhere"), "0" * 64, "b")
    folder = asyncio.run(run(asked, tmp_path, program=program)).folder
    rows = duckdb.sql(
        f"""
        select regexp_extract(stacks.filename, 'trials/([^/]+)', 1), host, functions[-1], sum("count")
        from read_parquet('{folder}/trials/*/stacks.parquet', filename = true) as stacks
        where owner != 'other' group by all
        """
    ).fetchall()
    manifests = {
        path.parent.name: json.loads(path.read_text()) for path in folder.glob("trials/*/manifest.json")
    }
    copied: dict[int, float] = {}
    for trial, manifest in manifests.items():
        size = manifest["settings"]["size"]
        for role, host in (("send", "client"), ("receive", "server")):
            costs = truth.function_ns_per_kib(10, size, role)
            assert sum(costs.values()) == pytest.approx(truth.cpu_ns_per_kib(10, size, role))
            counts = {name: count for t, h, name, count in rows if (t, h) == (trial, host)}
            samples = sum(counts.values())
            facts = manifest["hosts"][host]["profile"]
            assert facts["samples"] >= samples > 0
            # Noise may ask more of a host than it has.
            assert facts["idle_samples"] + facts["samples"] >= 9960
            for name, cost in costs.items():
                share = cost / sum(costs.values())
                # Rounded, or five standard errors of a binomial share.
                error = 1 if exact else 1 + 5 * (share * (1 - share) * samples) ** 0.5
                assert counts.get(name, 0) == pytest.approx(share * samples, abs=error), (trial, host, name)
            if role == "send":
                copied[size] = costs["_copy_from_iter"]
    assert copied[1024] == copied[65536]
