"""Time by layer; samples that a timer places at the end of what they are of; frames of the load's own threads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_calls import cost, receiver, sender
from made_campaign import Truth, changed, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.functions import PointProfile, read_profiles
from iodyno.analysis.layers import LAYERS, layers_of
from iodyno.analysis.stacks import stack_table
from iodyno.cli.main import run

ENTRY = (("run_worker", "iodyno-agent"), ("entry_SYSCALL_64", "kernel"), ("do_syscall_64", "kernel"))


def kernel(*names: str) -> list[tuple[str, str]]:
    return [*ENTRY, *((name, "kernel") for name in names)]


@pytest.mark.parametrize(
    ("names", "layer"),
    [
        (("tcp_sendmsg", "tcp_sendmsg_locked", "_copy_from_iter"), "copy"),
        (("tcp_sendmsg", "tcp_write_xmit", "__alloc_skb"), "TCP send"),
        (("tcp_sendmsg", "tcp_write_xmit", "__dev_queue_xmit", "veth_xmit"), "driver"),
        (("tcp_sendmsg", "handle_softirqs", "net_rx_action", "tcp_v4_rcv", "tcp_ack"), "TCP receive"),
        (("tcp_recvmsg", "schedule_timeout", "__schedule"), "scheduler"),
        (("asm_sysvec_apic_timer_interrupt", "hrtimer_interrupt"), "interrupt"),
        ((), "system call entry"),
    ],
)
def test_a_stack_is_that_of_its_innermost_function_with_a_layer(names: tuple[str, ...], layer: str) -> None:
    table = stack_table([("t", "h", "app", "kernel", kernel(*names), 1)])
    (found,) = layers_of(table, table.rows("t", "h")).tolist()
    assert LAYERS[found] == layer


@pytest.mark.parametrize(
    ("names", "end"),
    [
        (("try_to_wake_up", "_raw_spin_unlock_irqrestore"), "try_to_wake_up"),
        (("lapic_next_deadline", "paravirt_write_msr", "native_write_msr"), "lapic_next_deadline"),
        (("tcp_sendmsg",), "tcp_sendmsg"),
    ],
)
def test_what_a_timer_finds_at_an_end_is_of_the_caller(names: tuple[str, ...], end: str) -> None:
    rows = [("t", "h", "app", "kernel", kernel(*names), 3)]
    for by_timer, wanted in ((True, end), (False, names[-1])):
        table = stack_table(rows, by_timer)
        (stack,) = table.stacks(table.rows("t", "h"))
        assert table.functions[stack.frames[-1]].name == wanted and stack.count == 3


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    calls = sender()
    truth = changed(
        Truth(background=0.0, samples=3000),
        cost_ns_per_kib={"client": cost(calls), "server": cost(receiver())},
        calls={"client": calls, "server": receiver()},
    )
    return make_campaign(tmp_path_factory.mktemp("layers") / "c", [({"connections": 1, "size": 1024}, truth)])


def test_layers_are_all_of_the_cost_and_those_that_were_made(campaign: Path) -> None:
    profile = read_profiles(read_dataset(campaign)).found["p01", "client"]
    assert isinstance(profile, PointProfile)
    found = {each.layer: each.ns_per_kib for each in profile.layers()}
    assert sum(each.estimate or 0.0 for each in found.values()) == pytest.approx(profile.cost.estimate)
    # Of `sender`: a copy of 100 ns, 20 of acknowledgements, 15 of the device.
    for layer, truth in (("copy", 100.0), ("TCP receive", 20.0), ("driver", 23.0)):
        assert found[layer].low is not None and found[layer].high is not None
        assert found[layer].low <= truth <= found[layer].high


def test_own_threads_do_not_fill_the_ranking(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--by", "inclusive", "-v"]) == 0
    out = capsys.readouterr().out
    assert "By layer" in out and "TCP send" in out
    assert not [line for line in out.splitlines() if line.startswith(("clone3", "run_worker"))]
    assert "of the load's own threads, 3 functions" in out.lower().replace("\n", " ")
    assert run(["compare", str(campaign), "--points", "p01", "p01", "--functions", "--by", "inclusive"]) == 0
    out = capsys.readouterr().out
    assert "tcp_sendmsg" in out and not [line for line in out.splitlines() if line.startswith("run_worker")]
    assert run(["profile", str(campaign), "--by", "exclusive", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"copy", "TCP send"} <= {each["layer"] for each in found["layers"]}
