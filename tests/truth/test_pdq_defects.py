"""Nine cases that PDQ 7.0.1 gets wrong or refuses, each as a script in its own calls, with the right answer.

Right answers are from closed forms, chains with 60 digits and enumeration (`test_networks.py`), and by hand.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal, localcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

from iodyno.cli.main import iodyno

SOURCE = Path(__file__).parents[1] / "fixtures" / "pdq" / "mm8.pl"


def solved(tmp_path: Path, script: str, *arguments: str) -> list[dict]:  # type: ignore[type-arg]
    """The rows that `iodyno model solve` prints of a script."""
    file = tmp_path / "model.r"
    file.write_text(script, encoding="utf-8")
    return run(file, *arguments)


def run(file: Path, *arguments: str) -> list[dict]:  # type: ignore[type-arg]
    ran = CliRunner().invoke(
        iodyno, ["model", "solve", str(file), *arguments, "--json"], catch_exceptions=False
    )
    assert ran.exit_code == 0, ran.output
    rows = json.loads(ran.stdout)["rows"]
    assert isinstance(rows, list)
    return rows


def finite_population(jobs: int, servers: int, demand_s: str, think_s: str) -> float:
    """Throughput of M/M/m//N by its birth-death chain, with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        weight = whole = Decimal(1)
        busy = Decimal(0)
        for n in range(1, jobs + 1):
            weight *= (jobs - n + 1) / Decimal(think_s) * Decimal(demand_s) / min(n, servers)
            whole += weight
            busy += weight * min(n, servers)
        return float(busy / whole / Decimal(demand_s))


def test_1_the_published_script_with_cen_in_a_multi_server_node_is_answered() -> None:
    """PDQ 7 exits with `Must specify either MSO or MSC`; the answers are M/M/8 by Erlang C."""
    rows = run(SOURCE, "8", "0.000127")
    times = [row["classes"][0]["response_time_s"] for row in rows]
    assert times == pytest.approx([127.000e-6, 127.005e-6, 127.489e-6, 132.538e-6, 163.326e-6], rel=5e-6)
    assert [row["stations"][0]["utilisation_ratio"] for row in rows] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8])
    again = [row["classes"][0]["response_time_s"] for row in run(SOURCE, "8", "0.000081")]
    assert again == pytest.approx([81.000e-6, 81.003e-6, 81.312e-6, 84.532e-6, 104.168e-6], rel=5e-6)


def test_2_the_utilisation_of_a_multi_server_node_is_that_of_one_server(tmp_path: Path) -> None:
    """PDQ 7 says 1.6 for 8 servers that are busy for a fifth of the time."""
    (row,) = solved(
        tmp_path,
        """
        Init("mso")
        CreateOpen("w", 1.6)
        CreateMultiNode(8, "cpu", MSO, FCFS)
        SetDemand("cpu", "w", 1.0)
        Solve(STREAMING)
        u <- GetUtilization("cpu", "w", TRANS)
        """,
    )
    assert row["answers"] == [{"call": "GetUtilization(cpu, w)", "value": pytest.approx(0.2)}]


def test_3_a_delay_node_is_a_delay_wherever_it_is_declared(tmp_path: Path) -> None:
    """PDQ 7 queues at it, unless it is the first: 1.111. A delay of .9 is a think time of .9."""
    first = """
        Init("delay")
        CreateClosed("w", BATCH, 10, 0)
        CreateNode("cpu", CEN, FCFS)
        CreateNode("wan", DLY, ISRV)
        SetDemand("cpu", "w", 0.1)
        SetDemand("wan", "w", 0.9)
        Solve(EXACT)
        """
    lines = first.splitlines()
    second = "\n".join([*lines[:3], lines[4], lines[3], *lines[5:]])
    for script in (first, second):
        (row,) = solved(tmp_path, script)
        assert row["classes"][0]["throughput_per_s"] == pytest.approx(
            finite_population(10, 1, ".1", ".9"), rel=1e-12
        )
        assert row["classes"][0]["throughput_per_s"] == pytest.approx(8.320, abs=5e-4)


@pytest.mark.parametrize(
    ("case", "jobs", "servers", "demand", "think", "right"),
    [(4, 500, 8, ".000127", ".001", 62_992.126), (5, 1200, 300, ".444", ".5", 675.6757)],
)
def test_4_and_5_many_servers_are_never_negative(
    tmp_path: Path, case: int, jobs: int, servers: int, demand: str, think: str, right: float
) -> None:
    """PDQ 7 says -30 345/s and 20.6/s: its p(0) is 1 - sum."""
    (row,) = solved(
        tmp_path,
        f"""
        Init("msc")
        CreateClosed("w", TERM, {jobs}, {think})
        CreateMultiNode({servers}, "cpu", MSC, FCFS)
        SetDemand("cpu", "w", {demand})
        Solve(EXACT)
        """,
    )
    found = row["classes"][0]["throughput_per_s"]
    assert found == pytest.approx(right, rel=1e-7)
    assert found == pytest.approx(finite_population(jobs, servers, demand, think), rel=1e-9)
    assert row["method"]["exact"]


def test_6_a_multi_server_node_may_follow_another_node(tmp_path: Path) -> None:
    """PDQ 7 takes the 4 servers for one, without a warning, where a CEN stands before their MSC."""
    lines = [
        'CreateNode("disk", CEN, FCFS)',
        'CreateMultiNode(4, "cpu", MSC, FCFS)',
    ]
    found = []
    for order in (lines, lines[::-1]):
        nodes = "\n".join(order)
        (row,) = solved(
            tmp_path,
            f"""
Init("both")
CreateClosed("w", TERM, 20, 0)
{nodes}
SetDemand("disk", "w", 0.05)
SetDemand("cpu", "w", 0.2)
Solve(EXACT)
""",
        )
        found.append(row["classes"][0]["throughput_per_s"])
    # G by the definition, in whole numbers: x^n at the disk, (4x)^n / beta(n) at the servers, in units of the disk.
    constants = [
        sum(4**n / math.prod(min(i, 4) for i in range(1, n + 1)) for n in range(jobs + 1))
        for jobs in (19, 20)
    ]
    assert found == pytest.approx([20 * constants[0] / constants[1]] * 2, rel=1e-12)
    assert found[0] > 15


def test_7_two_open_classes_may_share_a_multi_server_node(tmp_path: Path) -> None:
    """PDQ 7 exits. Both together are M/M/4 at .7: Erlang's C is .4287."""
    (row,) = solved(
        tmp_path,
        """
        Init("two")
        CreateOpen("a", 0.8)
        CreateOpen("b", 2.0)
        CreateMultiNode(4, "cpu", MSO, FCFS)
        SetDemand("cpu", "a", 1.0)
        SetDemand("cpu", "b", 1.0)
        Solve(STREAMING)
        """,
    )
    load, servers = 2.8, 4
    last = load**servers / math.factorial(servers) / (1 - load / servers)
    waits = last / (sum(load**n / math.factorial(n) for n in range(servers)) + last)
    assert [c["response_time_s"] for c in row["classes"]] == pytest.approx([1 + waits / (servers - load)] * 2)


@pytest.mark.parametrize("method", ["approximate", "schweitzer", "linearizer"])
def test_8_the_approximation_does_not_depend_on_the_order_of_classes(tmp_path: Path, method: str) -> None:
    """PDQ 7 watches the last class only, and ends at 66.8/66.7/66.5 or 71.2/66.5/62.3 jobs by the order."""
    demands = {"a": (0.30, 0.29, 0.28), "b": (0.10, 0.11, 0.12)}
    lengths = []
    for order in ("ab", "ba"):
        script = ['Init("order")']
        script += [f'CreateClosed("{c}", BATCH, 100, 0)' for c in order]
        script += [f'CreateNode("s{k}", CEN, PSHR)' for k in range(3)]
        script += [f'SetDemand("s{k}", "{c}", {demands[c][k]})' for c in order for k in range(3)]
        script += ["Solve(APPROX)"]
        (row,) = solved(tmp_path, "\n".join(script), "--method", method)
        assert not row["method"]["exact"]
        lengths.append([s["queue_length"] for s in row["stations"]])
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-8)
    assert sum(lengths[0]) == pytest.approx(200, rel=1e-9)


def test_9_there_is_no_limit_of_nodes_jobs_or_multi_server_nodes(tmp_path: Path) -> None:
    """PDQ 7 ends at 1000 jobs, overruns its arrays at the eleventh node, and takes one multi-server node."""
    nodes = "\n".join(
        f'CreateMultiNode({1 + k % 3}, "s{k}", MSC, FCFS)\nSetDemand("s{k}", "w", {0.01 * (1 + k % 3)})'
        for k in range(15)
    )
    (row,) = solved(tmp_path, f'Init("large")\nCreateClosed("w", TERM, 5000, 1.5)\n{nodes}\nSolve(EXACT)')
    assert len(row["stations"]) == 15
    # 15 balanced stations: X is near N' / (N' + K - 1) of the most, with the 4850 jobs that do not think.
    assert row["classes"][0]["throughput_per_s"] == pytest.approx(100 / (1 + 14 / 4850), rel=1e-3)
    assert all(0 <= s["utilisation_ratio"] <= 1 + 1e-12 for s in row["stations"])
    inside = sum(s["queue_length"] for s in row["stations"])
    assert inside + 1.5 * row["classes"][0]["throughput_per_s"] == pytest.approx(5000, rel=1e-9)
