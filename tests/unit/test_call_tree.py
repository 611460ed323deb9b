"""Call trees: costs of paths agree with the table of functions, kinds and verdicts with what was made."""

from __future__ import annotations

import pytest
from made_calls import cost, receiver, sender
from made_campaign import Truth, changed, make_campaign

from iodyno.analysis import call_tree as module
from iodyno.analysis.call_tree import CallTree, call_tree, merged_stacks
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.functions import Profiles, read_profiles


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Profiles:
    points = []
    for size, calls in ((65536, sender()), (1024, sender(calls=60.0, ack=70.0))):
        truth = changed(
            Truth(background=0.0),
            cost_ns_per_kib={"client": cost(calls), "server": cost(receiver())},
            calls={"client": calls, "server": receiver()},
        )
        points.append(({"connections": 1, "size": size}, truth))
    return read_profiles(read_dataset(make_campaign(tmp_path_factory.mktemp("tree") / "c", points)))


def callers(tree: CallTree, number: int) -> list[str]:
    """Names from the root to a node."""
    names: list[str] = []
    depth = tree.nodes[number].depth + 1
    for node in reversed(tree.nodes[: number + 1]):
        if node.depth < depth:
            depth = node.depth
            names.insert(0, node.function.name if node.function else node.owner)
    return names


def test_costs_of_paths_are_those_of_functions(profiles: Profiles) -> None:
    profile = profiles.found["p01", "client"]
    tree = call_tree(profile)
    assert tree.nodes[0].ns_per_kib == pytest.approx(profile.cost.estimate)
    assert tree.samples == (profile.seen, 0)
    found = {each.function.name: each.inclusive_ns_per_kib.estimate for each in profile.functions()}
    for name in ("tcp_sendmsg", "_copy_from_iter", "worker_thread"):
        nodes = [node for node in tree.nodes if node.function and node.function.name == name]
        assert sum(node.ns_per_kib for node in nodes) == pytest.approx(found[name])


def test_a_child_takes_no_more_than_its_caller_and_stands_below_it(profiles: Profiles) -> None:
    tree = call_tree(profiles.found["p01", "client"])
    for number, node in enumerate(tree.nodes[1:], start=1):
        above = next(n for n in reversed(tree.nodes[:number]) if n.depth < node.depth)
        assert above.depth == node.depth - 1
        assert node.ns_per_kib <= above.ns_per_kib + 1e-9
    place = next(
        n for n, node in enumerate(tree.nodes) if node.function and node.function.name == "veth_xmit"
    )
    assert callers(tree, place)[:4] == ["", "app", "clone3", "run_worker"]


def test_kinds(profiles: Profiles) -> None:
    kinds = {n.function.name: n.kind for n in call_tree(profiles.found["p01", "client"]).nodes if n.function}
    assert kinds["run_worker"] == "user"
    assert kinds["tcp_sendmsg"] == "system"
    assert kinds["asm_sysvec_call_function_single"] == "hardirq"
    assert kinds["handle_softirqs"] == kinds["tcp_ack"] == "softirq"


def test_two_points_in_one_tree(profiles: Profiles) -> None:
    first, second = (profiles.found[point, "client"] for point in ("p01", "p02"))
    tree = call_tree(second, first)
    root = tree.nodes[0]
    assert (root.before, root.ns_per_kib) == pytest.approx((first.cost.estimate, second.cost.estimate))
    verdicts = {n.function.name: n.verdict for n in tree.nodes if n.function}
    assert root.verdict == verdicts["tcp_ack"] == verdicts["do_syscall_64"] == "rises"
    assert verdicts["_copy_from_iter"] == verdicts["veth_xmit"] == "unchanged"


def test_a_large_tree_keeps_its_costliest_paths(profiles: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATHS_MOST", 10)
    tree = call_tree(profiles.found["p01", "client"])
    assert 2 <= len(tree.nodes) <= 10
    assert tree.nodes[0].depth == 0
    for number, node in enumerate(tree.nodes[1:], start=1):
        assert any(above.depth == node.depth - 1 for above in tree.nodes[:number])


def test_merged_stacks_hold_every_sample_and_cost(profiles: Profiles) -> None:
    profile = profiles.found["p02", "client"]
    stacks = merged_stacks(profile)
    assert sum(stack.samples for stack in stacks) == profile.seen
    assert sum(stack.ns_per_kib for stack in stacks) == pytest.approx(profile.cost.estimate)
