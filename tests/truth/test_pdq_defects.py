"""Nine cases that PDQ 7.0.1 gets wrong or refuses, each in its own calls, with the right answer.

Right answers are from closed forms, chains with 60 digits and enumeration (`test_networks.py`), and by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, localcontext

import pytest

from iodyno import pdq
from iodyno.analysis.queueing.networks.solve import How, solve


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


def test_1_cen_in_a_multi_server_node_is_answered() -> None:
    """PDQ 7 exits with `Must specify either MSO or MSC`; the answers are M/M/8 by Erlang C."""
    found = []
    for share in range(5):
        pdq.Init("published")
        pdq.CreateOpen("work", share / 5 * 8 / 127e-6)
        pdq.CreateMultiNode(8, "cores", pdq.CEN, pdq.FCFS)
        pdq.SetDemand("cores", "work", 127e-6)
        pdq.Solve(pdq.CANON)
        found.append(pdq.GetResponse(pdq.TRANS, "work"))
        assert pdq.GetUtilization("cores", "work", pdq.TRANS) == pytest.approx(share / 5)
    assert found == pytest.approx([127.000e-6, 127.005e-6, 127.489e-6, 132.538e-6, 163.326e-6], rel=5e-6)


@pytest.mark.parametrize("old", [False, True])
def test_2_the_utilisation_of_a_multi_server_node_is_that_of_one_server(old: bool) -> None:
    """PDQ 7 says 1.6 for 8 servers that are busy for a fifth of the time."""
    pdq.Init("mso")
    pdq.CreateOpen("w", 1.6)
    if old:
        pdq.CreateNode("cpu", 8, pdq.MSQ)
    else:
        pdq.CreateMultiNode(8, "cpu", pdq.MSO, pdq.FCFS)
    pdq.SetDemand("cpu", "w", 1.0)
    pdq.Solve(pdq.STREAMING)
    assert pdq.GetUtilization("cpu", "w", pdq.TRANS) == pytest.approx(0.2)


@pytest.mark.parametrize("order", [("cpu", "wan"), ("wan", "cpu")])
def test_3_a_delay_node_is_a_delay_wherever_it_is_declared(order: Sequence[str]) -> None:
    """PDQ 7 queues at it, unless it is the first: 1.111. A delay of .9 is a think time of .9."""
    pdq.Init("delay")
    pdq.CreateClosed("w", pdq.BATCH, 10, 0)
    for name in order:
        pdq.CreateNode(name, *((pdq.CEN, pdq.FCFS) if name == "cpu" else (pdq.DLY, pdq.ISRV)))
    pdq.SetDemand("cpu", "w", 0.1)
    pdq.SetDemand("wan", "w", 0.9)
    pdq.Solve(pdq.EXACT)
    found = pdq.GetThruput(pdq.BATCH, "w")
    assert found == pytest.approx(finite_population(10, 1, ".1", ".9"), rel=1e-12)
    assert found == pytest.approx(8.320, abs=5e-4)


@pytest.mark.parametrize(
    ("jobs", "servers", "demand", "think", "right"),
    [(500, 8, ".000127", ".001", 62_992.126), (1200, 300, ".444", ".5", 675.6757)],
)
def test_4_and_5_many_servers_are_never_negative(
    jobs: int, servers: int, demand: str, think: str, right: float
) -> None:
    """PDQ 7 says -30 345/s and 20.6/s: its p(0) is 1 - sum."""
    pdq.Init("msc")
    pdq.CreateClosed("w", pdq.TERM, jobs, float(think))
    pdq.CreateMultiNode(servers, "cpu", pdq.MSC, pdq.FCFS)
    pdq.SetDemand("cpu", "w", float(demand))
    assert pdq.Solve(pdq.EXACT).method.exact
    found = pdq.GetThruput(pdq.TERM, "w")
    assert found == pytest.approx(right, rel=1e-7)
    assert found == pytest.approx(finite_population(jobs, servers, demand, think), rel=1e-9)


def test_6_a_multi_server_node_may_follow_another_node() -> None:
    """PDQ 7 takes the 4 servers for one, without a warning, where a CEN stands before their MSC."""
    found = []
    for order in (("disk", "cpu"), ("cpu", "disk")):
        pdq.Init("both")
        pdq.CreateClosed("w", pdq.TERM, 20, 0)
        for name in order:
            if name == "disk":
                pdq.CreateNode(name, pdq.CEN, pdq.FCFS)
            else:
                pdq.CreateMultiNode(4, name, pdq.MSC, pdq.FCFS)
        pdq.SetDemand("disk", "w", 0.05)
        pdq.SetDemand("cpu", "w", 0.2)
        pdq.Solve(pdq.EXACT)
        found.append(pdq.GetThruput(pdq.TERM, "w"))
    # G by the definition, in whole numbers: x^n at the disk, (4x)^n / beta(n) at the servers, in units of the disk.
    constants = [
        sum(4**n / math.prod(min(i, 4) for i in range(1, n + 1)) for n in range(jobs + 1))
        for jobs in (19, 20)
    ]
    assert found == pytest.approx([20 * constants[0] / constants[1]] * 2, rel=1e-12)
    assert found[0] > 15


def test_7_two_open_classes_may_share_a_multi_server_node() -> None:
    """PDQ 7 exits. Both together are M/M/4 at .7: Erlang's C is .4287."""
    pdq.Init("two")
    pdq.CreateOpen("a", 0.8)
    pdq.CreateOpen("b", 2.0)
    pdq.CreateMultiNode(4, "cpu", pdq.MSO, pdq.FCFS)
    pdq.SetDemand("cpu", "a", 1.0)
    pdq.SetDemand("cpu", "b", 1.0)
    pdq.Solve(pdq.STREAMING)
    load, servers = 2.8, 4
    last = load**servers / math.factorial(servers) / (1 - load / servers)
    waits = last / (sum(load**n / math.factorial(n) for n in range(servers)) + last)
    found = [pdq.GetResponse(pdq.TRANS, name) for name in "ab"]
    assert found == pytest.approx([1 + waits / (servers - load)] * 2)


def lengths_by_order(order: str, how: How) -> list[float]:
    demands = {"a": (0.30, 0.29, 0.28), "b": (0.10, 0.11, 0.12)}
    pdq.Init("order")
    for name in order:
        pdq.CreateClosed(name, pdq.BATCH, 100, 0)
    for k in range(3):
        pdq.CreateNode(f"s{k}", pdq.CEN, pdq.PSHR)
        for name in order:
            pdq.SetDemand(f"s{k}", name, demands[name][k])
    solution = pdq.Solve(pdq.APPROX)
    if how != "auto":
        solution = solve(solution.network, how)
        assert not solution.method.exact
    return [station.queue_length for station in solution.stations]


@pytest.mark.parametrize("how", ["auto", "schweitzer", "linearizer"])
def test_8_the_approximation_does_not_depend_on_the_order_of_classes(how: How) -> None:
    """PDQ 7 watches the last class only, and ends at 66.8/66.7/66.5 or 71.2/66.5/62.3 jobs by the order."""
    lengths = [lengths_by_order(order, how) for order in ("ab", "ba")]
    assert lengths[0] == pytest.approx(lengths[1], rel=1e-8)
    assert sum(lengths[0]) == pytest.approx(200, rel=1e-9)


def test_9_there_is_no_limit_of_nodes_jobs_or_multi_server_nodes() -> None:
    """PDQ 7 ends at 1000 jobs, overruns its arrays at the eleventh node, and takes one multi-server node."""
    pdq.Init("large")
    pdq.CreateClosed("w", pdq.TERM, 5000, 1.5)
    for k in range(15):
        pdq.CreateMultiNode(1 + k % 3, f"s{k}", pdq.MSC, pdq.FCFS)
        pdq.SetDemand(f"s{k}", "w", 0.01 * (1 + k % 3))
    pdq.Solve(pdq.EXACT)
    rate = pdq.GetThruput(pdq.TERM, "w")
    # 15 balanced stations: X is near N' / (N' + K - 1) of the most, with the 4850 jobs that do not think.
    assert rate == pytest.approx(100 / (1 + 14 / 4850), rel=1e-3)
    names = [f"s{k}" for k in range(15)]
    assert all(0 <= pdq.GetUtilization(name, "w", pdq.TERM) <= 1 + 1e-12 for name in names)
    inside = sum(pdq.GetQueueLength(name, "w", pdq.TERM) for name in names)
    assert inside + 1.5 * rate == pytest.approx(5000, rel=1e-9)
