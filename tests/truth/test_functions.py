"""Known shares of made campaigns are recovered: cost by function, and why one point costs more than another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from draws import count_between, draws
from made_calls import SOFTIRQ, cost, receiver, sender
from made_campaign import Call, Truth, changed, make_campaign
from made_classes import ExactTruth

from iodyno.analysis.call_tree import merged_stacks
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.function_change import FunctionChange, ProfileChange, profile_change, why_not_compared
from iodyno.analysis.functions import FunctionCost, PointProfile, Profiles, class_weights, read_profiles
from iodyno.analysis.readings import Reading
from iodyno.analysis.stacks import read_stacks
from iodyno.analysis.summary import analyse
from iodyno.report.function_json import profile_values
from iodyno.report.function_tables import basis_note, function_table
from iodyno.store.writer import write_document

LARGE, SMALL = sender(), sender(calls=60.0, ack=70.0)


def truth(calls: tuple, samples: int = 4000, between: float = 0.05) -> Truth:  # type: ignore[type-arg]
    # The busy time of the host is its work and its background; the calls are what all of it goes into.
    return changed(
        Truth(between=0.01, within=0.005, background=0.0, samples=samples, calls_between=between),
        cost_ns_per_kib={"client": cost(calls), "server": cost(receiver())},
        calls={"client": calls, "server": receiver()},
    )


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Profiles:
    points = [
        ({"connections": 32, "size": size}, truth(calls)) for size, calls in ((65536, LARGE), (1024, SMALL))
    ]
    folder = make_campaign(tmp_path_factory.mktemp("functions") / "c", points)
    return read_profiles(read_dataset(folder))


def named(profile: PointProfile) -> dict[str, FunctionCost]:
    return {cost.function.name: cost for cost in profile.functions()}


def holds(found: FunctionCost, exclusive: float, inclusive: float) -> None:
    """Within a sixth of the truth: 12 000 samples and 5 % between trials. How often intervals hold is tested below."""
    for estimate, known in ((found.exclusive_ns_per_kib, exclusive), (found.inclusive_ns_per_kib, inclusive)):
        assert estimate.low is not None and estimate.high is not None and estimate.estimate is not None
        assert estimate.low <= estimate.estimate <= estimate.high
        assert estimate.estimate == pytest.approx(known, rel=0.16, abs=1.5)


def test_cost_by_function_is_recovered(profiles: Profiles) -> None:
    found = named(profiles.found["p01", "client"])
    holds(found["_copy_from_iter"], 100, 100)
    holds(found["tcp_sendmsg"], 0, 100 + 5 + 40)
    holds(found["__tcp_transmit_skb"], 25, 40)
    holds(found["veth_xmit"], 15, 15)
    assert found["veth_xmit"].function.module == "veth"


def test_exclusive_costs_add_up_to_the_busy_time(profiles: Profiles) -> None:
    for profile in profiles.found.values():
        total = sum(each.exclusive_ns_per_kib.estimate or 0.0 for each in profile.functions())
        assert total == pytest.approx(profile.busy.estimate)
        assert sum(each.exclusive_ratio.estimate or 0.0 for each in profile.functions()) == pytest.approx(1)
        assert sum(each.ratio.estimate or 0.0 for each in profile.classes()) == pytest.approx(1)


def test_recursion_is_counted_once(profiles: Profiles) -> None:
    found = named(profiles.found["p01", "client"])["__netif_receive_skb"]
    holds(found, 8, 8)
    assert found.exclusive_ns_per_kib.estimate == found.inclusive_ns_per_kib.estimate


def test_sides_and_owners_are_told_apart(profiles: Profiles) -> None:
    found = named(profiles.found["p01", "client"])
    assert {name for name, each in found.items() if each.function.space == "user"} == {
        "clone3", "run_worker", "write",
    }  # fmt: skip
    assert found["tcp_ack"].owners["idle"] == pytest.approx(0.3, abs=0.12)
    assert found["worker_thread"].owners == {"other": 1.0}
    classes = {
        (each.owner, each.mode): each.ratio.estimate for each in profiles.found["p01", "client"].classes()
    }
    assert set(classes) == {("app", "user"), ("app", "kernel"), ("other", "kernel"), ("idle", "kernel")}
    assert classes["app", "user"] == pytest.approx(5 / cost(LARGE), abs=0.02)


def test_the_difference_of_two_points_names_its_causes(profiles: Profiles) -> None:
    change = profile_change(profiles.found["p01", "client"], profiles.found["p02", "client"])
    whole = cost(SMALL) - cost(LARGE)
    assert change.moved
    assert change.total.low is not None and change.total.high is not None
    assert change.total.low <= whole <= change.total.high
    by_name = _by_name(change)
    # Entering the kernel: 10 to 60 in do_syscall_64; acknowledgements: 20 to 70 in tcp_ack.
    for name, before, after in (("do_syscall_64", 10, 60), ("tcp_ack", 20, 70)):
        one = by_name[name]
        assert one.verdict == "rises" and one.certain
        assert one.ratio.estimate == pytest.approx(after / before, rel=0.2)
        assert one.explains.estimate == pytest.approx((after - before) / whole, abs=0.1)
    assert {change.ranked(top=2)[0].function.name, change.ranked(top=2)[1].function.name} == {
        "do_syscall_64", "tcp_ack",
    }  # fmt: skip
    for name in ("_copy_from_iter", "veth_xmit", "__tcp_transmit_skb"):
        assert by_name[name].verdict == "unchanged", name
        assert not by_name[name].certain
    # The caller is not where the time itself goes: unchanged by itself, costlier with all that it calls.
    assert by_name["handle_softirqs"].inclusive_verdict == "rises"
    parts = sum(one.explains.estimate or 0.0 for one in change.functions)
    assert parts + change.rest / (change.total.estimate or 1) == pytest.approx(1)


def test_other_programs_are_left_out_but_not_the_interrupts_on_top_of_them(tmp_path: Path) -> None:
    alien = ("rustc:main", "rustc:compile")
    foreign = (
        Call(alien, 150.0, "other", "user"),
        Call((*alien, "kernel:entry_SYSCALL_64_after_hwframe", "kernel:ksys_write"), 40.0, "other"),
        # Where the user's own frames could not be read.
        Call(("kernel:asm_exc_page_fault", "kernel:handle_mm_fault"), 10.0, "other"),
    )
    interrupts = (Call((*alien, *SOFTIRQ, "kernel:tcp_v4_rcv", "kernel:tcp_rcv_established"), 30.0, "other"),)
    calls = (*LARGE, *foreign, *interrupts)
    folder = make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, truth(calls))])
    profile = read_profiles(read_dataset(folder)).found["p01", "client"]
    found = named(profile)
    assert not {"main", "compile", "ksys_write", "handle_mm_fault"} & {
        name for name, each in found.items() if each.owners.keys() == {"other"}
    }
    holds(found["tcp_rcv_established"], 30, 30)
    holds(found["_copy_from_iter"], 100, 100)
    assert profile.foreign_ratio == pytest.approx(200 / cost(calls), abs=0.03)
    assert profile.cost.estimate == pytest.approx(cost(calls) - 200, rel=0.08)
    total = sum(each.exclusive_ns_per_kib.estimate or 0.0 for each in found.values())
    assert total == pytest.approx(profile.cost.estimate)
    assert "other programs" in profile.warnings[0].text


def test_programs_that_serve_the_load_are_in_its_cost(tmp_path: Path) -> None:
    server = (Call(("nbd-server:main", "nbd-server:serve"), 200.0, "other", "user"),)
    calls = (*LARGE, *server)
    folder = make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, truth(calls))])
    dataset = read_dataset(folder)
    for trial in dataset.trials:
        host = trial.hosts["client"]
        seen = {("role.cpu_ns", "role=server"): 1}
        host.readings["roles"] = {record.index: Reading(1, 0, None, seen) for record in host.measured}
    profile = read_profiles(dataset).found["p01", "client"]
    holds(named(profile)["serve"], 200, 200)
    assert profile.cost.estimate == pytest.approx(profile.busy.estimate) and profile.foreign_ratio == 0
    assert not profile.warnings
    assert profile_values(profile)["with_other_programs"] is True
    assert "other programs are in it, as some of them serve the load" in basis_note(profile)


def test_a_point_against_itself_is_unchanged(profiles: Profiles) -> None:
    mine = profiles.found["p01", "client"]
    change = profile_change(mine, mine)
    assert not change.moved
    assert all(one.verdict == "unchanged" and one.explains.estimate is None for one in change.functions)


def test_two_campaigns_are_joined_by_symbol(profiles: Profiles, tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 32, "size": 1024}, truth(SMALL[::-1]))], seed=7)
    other = read_profiles(read_dataset(folder)).found["p01", "client"]
    one = _by_name(profile_change(profiles.found["p01", "client"], other))["do_syscall_64"]
    assert one.verdict == "rises"
    assert one.ratio.estimate == pytest.approx(6, rel=0.35)


def test_intervals_hold_and_few_functions_are_called_changed_by_chance(tmp_path: Path) -> None:
    """Points with one truth, each function known: as many intervals hold it as should."""
    count = draws(80)
    points = [
        ({"connections": number, "size": 65536}, truth(LARGE, 1500, 0.1)) for number in range(1, count + 1)
    ]
    found = read_profiles(read_dataset(make_campaign(tmp_path / "c", points, seed=3)))
    known = {
        "_copy_from_iter": 100,
        "__tcp_transmit_skb": 25,
        "veth_xmit": 15,
        "tcp_ack": 20,
        "worker_thread": 4,
    }
    held = [
        (estimate.low or 0.0) <= known[each.function.name] <= (estimate.high or 0.0)
        for profile in (found.found[f"p{number:02d}", "client"] for number in range(1, count + 1))
        for each in profile.functions()
        if each.function.name in known
        for estimate in [each.exclusive_ns_per_kib]
    ]
    assert len(held) == 5 * count
    assert sum(held) >= count_between(0.95, len(held))[0]
    compared = differing = certain = 0
    for number in range(1, count, 2):
        change = profile_change(*(found.found[f"p{n:02d}", "client"] for n in (number, number + 1)))
        compared += change.compared
        differing += sum(one.verdict != "unchanged" for one in change.functions)
        certain += sum(one.certain for one in change.functions)
    assert compared > 7 * count
    assert differing <= count_between(0.05, compared)[1]
    assert certain / compared < 0.01


def test_what_the_interval_of_a_difference_says_that_of_the_ratio_says_too(tmp_path: Path) -> None:
    """Of functions with hundreds of samples and with a few, changed and unchanged: never one without the other."""
    points = [
        ({"connections": number, "size": 65536}, truth(LARGE if number % 2 else SMALL, samples, 0.2))
        for number, samples in ((1, 1500), (2, 1500), (3, 40), (4, 40), (5, 300))
    ]
    found = read_profiles(read_dataset(make_campaign(tmp_path / "c", points, seed=11)))
    profiles = [found.found[f"p{number:02d}", "client"] for number in range(1, 6)]
    verdicts = set()
    for first in profiles:
        for second in profiles:
            for one in profile_change(first, second).functions:
                assert one.difference.low is not None and one.difference.high is not None
                differs = not one.difference.low <= 0 <= one.difference.high
                assert (one.verdict != "unchanged") == differs, one
                above = one.ratio.low is not None and one.ratio.low > 1
                below = one.ratio.high is not None and one.ratio.high < 1
                assert (above or below) == differs, one
                verdicts.add(one.verdict)
    assert verdicts == {"rises", "falls", "unchanged"}


SEND = ("iodyno-agent:write", "kernel:entry_SYSCALL_64_after_hwframe", "kernel:tcp_sendmsg")
TIMER = ("kernel:asm_sysvec_apic_timer_interrupt", "kernel:sysvec_apic_timer_interrupt")
RECEIVE = ("kernel:handle_softirqs", "kernel:net_rx_action", "kernel:tcp_v4_rcv")


def test_a_timer_that_shuns_code_with_interrupts_off_does_not_move_cost_to_the_soft_interrupts(
    tmp_path: Path,
) -> None:
    """Of the time, 60 % is the load's tasks, 15 % are handlers, 25 % soft interrupts; of the samples 40, none and 60 %."""
    exact = ExactTruth(load={"usr": 0.1, "sys": 0.5, "irq": 0.15, "softirq": 0.25}, hz=0.0)
    late = (*SEND, *TIMER, "kernel:__irq_exit_rcu", "kernel:handle_softirqs")
    calls = (Call(SEND, 40.0), Call((*SEND, *RECEIVE), 20.0), Call(late, 40.0))
    made = changed(
        truth(calls, samples=1000), cost_ns_per_kib={"client": 400.0, "server": 300.0}, exact=exact
    )
    dataset = read_dataset(make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, made)]))
    profile = read_profiles(dataset).found["p01", "client"]
    found = named(profile)
    outcomes = analyse(dataset).points[0].outcomes
    for name, part in (("handle_softirqs", "softirq"), ("sysvec_apic_timer_interrupt", "irq")):
        estimate, known = found[name].inclusive_ns_per_kib, outcomes[f"client.cpu_{part}_ns_per_kib"].estimate
        assert estimate.low is not None and estimate.high is not None and known is not None
        assert estimate.low <= known <= estimate.high
        assert estimate.estimate == pytest.approx(known, rel=0.02), name
    assert found["tcp_sendmsg"].exclusive_ns_per_kib.estimate == pytest.approx(0.6 * 400, rel=0.03)
    assert profile.by_class and profile.cost.estimate == pytest.approx(profile.busy.estimate)
    # The flame graph and other viewers have the same.
    stacks = merged_stacks(profile)
    assert sum(one.ns_per_kib for one in stacks) == pytest.approx(profile.cost.estimate)
    soft = [one for one in stacks if any(f.name == "handle_softirqs" for f in one.functions)]
    assert sum(one.ns_per_kib for one in soft) == pytest.approx(
        found["handle_softirqs"].inclusive_ns_per_kib.estimate
    )


def test_a_load_on_disks_costs_per_operation(profiles: Profiles, tmp_path: Path) -> None:
    """The same work as that of messages of 64 KiB, of clients that need no other end."""
    dataset = read_dataset(
        make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, truth(LARGE))])
    )
    for trial in dataset.trials:
        trial.clients = {"client": trial.hosts["client"]}
    found = read_profiles(dataset).found["p01", "client"]
    alike = profiles.found["p01", "client"]
    assert (found.unit, alike.unit) == ("ns/operation", "ns/KiB")
    assert found.cost.estimate == pytest.approx(64 * (alike.cost.estimate or 0), rel=0.03)
    told = profile_values(found, 1)
    assert told["cost_ns_per_operation"]["estimate"] == pytest.approx(found.cost.estimate)
    assert "exclusive_ns_per_operation" in told["functions"][0] and "ns_per_kib" not in json.dumps(told)
    assert "ns/operation" in {column.title for column in function_table(found, 1).columns}
    # Nothing follows from a KiB against an operation.
    assert "operation" in why_not_compared(alike, found)
    assert profile_change(found, found).total.unit == "ns/operation"


def test_a_class_of_few_samples_is_taken_with_its_neighbour() -> None:
    """App, handlers, soft interrupts, others: four samples are no measure of a class."""
    times = np.asarray([60.0, 15.0, 25.0, 0.0])
    assert class_weights(np.asarray([40, 20, 40, 0]), times) == pytest.approx([1.5, 0.75, 0.625, 1.5])
    assert class_weights(np.asarray([56, 4, 40, 0]), times)[1:3] == pytest.approx(40 / 44)
    assert class_weights(np.asarray([97, 1, 2, 0]), times) == pytest.approx(1)
    assert class_weights(np.asarray([97, 1, 2, 0]), None) == pytest.approx(1)


def test_a_program_that_gives_way_to_the_load_is_no_cost_of_it(tmp_path: Path) -> None:
    """Its own frames cannot be read; the interrupt that ends its turn came out of user code."""
    given_way = (*TIMER, "kernel:irqentry_exit_to_user_mode", "kernel:schedule")
    calls = (*LARGE, Call(given_way, 50.0, "other"))
    folder = make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, truth(calls))])
    profile = read_profiles(read_dataset(folder)).found["p01", "client"]
    assert profile.foreign_ratio == pytest.approx(50 / cost(calls), abs=0.02)


USER_ONLY = "only user code of the agent's own threads is sampled: run with CAP_PERFMON, or set kernel.perf_event_paranoid to 0"


@pytest.mark.parametrize(("exact", "share"), [(None, 0.1), (ExactTruth(hz=0.0), 0.08)])
def test_samples_of_user_code_alone_cost_no_more_than_user_time(
    tmp_path: Path, exact: ExactTruth | None, share: float
) -> None:
    """Of /proc/stat a tenth is user time, of exact classes 0.08: the sum over all functions is that of the class `usr`."""
    step = Call(("iodyno-agent:step",), 15.0, mode="user")
    calls = (*(call for call in LARGE if call.mode == "user"), step)
    made = changed(
        truth(calls),
        cost_ns_per_kib={"client": 400.0, "server": 300.0},
        profile_missing=USER_ONLY,
        exact=exact,
    )
    dataset = read_dataset(make_campaign(tmp_path / "c", [({"connections": 32, "size": 65536}, made)]))
    profile = read_profiles(dataset).found["p01", "client"]
    assert profile.reach == "user" and profile.lacks == (USER_ONLY,)
    assert profile.cost.estimate == pytest.approx(share * 400, rel=0.05)
    assert named(profile)["step"].exclusive_ns_per_kib.estimate == pytest.approx(0.75 * share * 400, rel=0.1)
    usr = analyse(dataset).points[0].outcomes["client.cpu_usr_ns_per_kib"]
    assert profile.cost.estimate == pytest.approx(usr.estimate, rel=0.02)
    assert [warning.text for warning in profile.warnings] == [f"client: {USER_ONLY}"]


def test_trials_of_which_less_was_sampled_than_of_others_do_not_count(tmp_path: Path) -> None:
    point = {"connections": 32, "size": 65536}
    folder = make_campaign(tmp_path / "c", [(point, truth(LARGE))])
    manifest = folder / "trials" / "00001-1" / "manifest.json"
    written = json.loads(manifest.read_text())
    written["hosts"]["client"]["profile"]["missing"] = USER_ONLY
    write_document(manifest, written)
    profile = read_profiles(read_dataset(folder)).found["p01", "client"]
    assert profile.reach == "all" and len(profile.rows) == 2
    assert any(
        "1 of 3 trials have no profile: only user code" in warning.text for warning in profile.warnings
    )
    assert profile.cost.estimate == pytest.approx(cost(LARGE), rel=0.08)


def test_why_a_profile_is_missing_is_said(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 1, "size": 65536}, Truth())])
    dataset = read_dataset(folder)
    assert not read_stacks(dataset).functions
    profiles = read_profiles(dataset)
    assert not profiles
    assert profiles.missing["p01", "client"] == "no profile was taken on client"


def _by_name(change: ProfileChange) -> dict[str, FunctionChange]:
    return {one.function.name: one for one in change.functions}
