"""Which limiter the rules name on made evidence, and what a proof makes of pairs of trials."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
from made_limits import BUFFERS, FULL, INTERVALS, QUOTA, SHAPED, SPAN, Shares, trial
from scipy import stats

from iodyno.analysis.limiter import rules, verdict
from iodyno.analysis.limiter.elasticity import Pair, elasticity, judge
from iodyno.analysis.readings import Reading
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import LIMITERS, UNKNOWN, Elasticity, Finding, Perturbation, Proof, Suspect, Verdict
from iodyno.report.headline import limited_by
from iodyno.report.limiter import finding_json, sentence, short

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "nothing": (UNKNOWN, {}),
    "sender's CPU": ("client.cpu", {"sender": FULL}),
    "receiver's CPU": ("server.cpu", {"receiver": FULL, "flow": {"rwnd": 0.9}}),
    "sender's CPU with no time left, by small windows": ("client.cpu", {"sender": FULL, "flow": {"rwnd": 0.6}}),
    "a small window that leaves a twentieth of the CPU": (
        "receive_window",
        {"sender": {**FULL, "app": 0.65}, "flow": {"rwnd": 0.6}},
    ),
    "both CPUs, and the sender waits for the receiver": (
        "server.cpu",
        {"sender": FULL, "receiver": FULL, "flow": {"rwnd": 0.6}},
    ),
    "interrupts": ("server.softirq", {"receiver": {**FULL, "app": 0.05, "softirq": 0.94}}),
    "neighbours": ("client.run_queue", {"sender": {"app": 0.3, "other": 0.6, "run": 0.3, "wait": 0.65}}),
    "a neighbour of one who sleeps": (
        "receive_window",
        {"sender": {"app": 0.1, "other": 0.8, "run": 0.1, "wait": 0.1}, "flow": {"rwnd": 0.8}},
    ),
    "neighbours that go from CPU to CPU, of one that idles for a fifth": (
        "client.run_queue",
        {"sender": {"app": 0.3, "softirq": 0.0, "other": 0.5, "run": 0.3, "wait": 0.4}},
    ),
    "neighbours of a CPU that idles for a fifth, for which nobody waits": (
        UNKNOWN,
        {"sender": {"app": 0.3, "softirq": 0.0, "other": 0.5, "run": 0.3, "wait": 0.05}},
    ),
    "steal of a CPU that idles for a fifth": (
        UNKNOWN,
        {"sender": {"app": 0.6, "softirq": 0.2, "run": 0.6, "wait": 0.02, "steal": 0.2}},
    ),
    "quota": ("client.cpu_quota", {"sender": {"run": 0.5, "wait": 0.5}, "sending": QUOTA}),
    "a quota not used": (UNKNOWN, {"sender": {"app": 0.2, "run": 0.2}, "sending": QUOTA}),
    "steal": ("client.steal", {"sender": {**FULL, "steal": 0.2}}),
    "steal of a CPU that idles a twelfth of the time": (
        "client.steal",
        {"sender": {"app": 0.82, "run": 0.82, "steal": 0.2}},
    ),
    "steal of a CPU that idles an eighth of the time": (
        UNKNOWN,
        {"sender": {"app": 0.775, "run": 0.775, "steal": 0.2}},
    ),
    "steal of a CPU that idles a quarter of the time": (
        UNKNOWN,
        {"sender": {"app": 0.65, "run": 0.65, "steal": 0.2}},
    ),
    "a CPU that a neighbour has a seventh of": (
        "server.cpu",
        {
            "sender": {"app": 0.2, "run": 0.1, "in_call": 0.9},
            "receiver": {"app": 0.80, "softirq": 0.05, "other": 0.15, "run": 0.80, "wait": 0.15},
        },
    ),
    "a neighbour who takes what the load leaves": (
        UNKNOWN,
        {"receiver": {"app": 0.78, "softirq": 0.07, "other": 0.15, "run": 0.80, "wait": 0.01}},
    ),
    "own code": ("client.generator", {"sender": {**FULL, "user": 0.6}}),
    "paced": (
        "client.application",
        {"sender": {"app": 0.1, "run": 0.1, "in_call": 0.2}, "flow": {"unsent": 0}, "receiver": {"app": 0.1}},
    ),
    "many who pause share a full link": (
        "link_rate",
        {
            "sender": {"app": 0.1, "run": 0.1, "in_call": 0.4},
            "flow": {"unsent": 0, "Mbit_s": 945.0},
            "receiver": {"app": 0.1},
            "path": SHAPED,
            "connections": 16,
        },
    ),
    "paced to a link that is nearly full": (
        "client.application",
        {
            "sender": {"app": 0.1, "run": 0.1, "in_call": 0.2},
            "flow": {"unsent": 0, "Mbit_s": 880.0},
            "receiver": {"app": 0.1},
            "path": SHAPED,
        },
    ),
    "many who pause share a server's CPU that is full": (
        "server.cpu",
        {
            "sender": {"app": 0.1, "run": 0.1, "in_call": 0.4},
            "flow": {"unsent": 0},
            "receiver": FULL,
            "connections": 16,
        },
    ),
    "a sender whose long writes were not counted": (
        UNKNOWN,
        {"sender": {"app": 0.1, "run": 0.1, "in_call": 0.2}, "flow": {"unsent": 4e6}},
    ),
    "slow reader": (
        "server.application",
        {"receiver": {"app": 0.05, "run": 0.05, "in_call": 0.1}, "flow": {"rwnd": 0.99}},
    ),
    "lock": (
        "client.lock",
        {
            "sender": {"app": 0.1, "run": 0.02, "in_call": 0.25},
            "flow": {"unsent": 0},
            "connections": 4,
            "sending": {"job": {"serialised": True}},
        },
    ),
    "pauses so long that one operation is in flight by chance": (
        "client.application",
        {"sender": {"app": 0.1, "run": 0.02, "in_call": 0.25}, "flow": {"unsent": 0}, "connections": 4},
    ),
    "receive window": ("receive_window", {"flow": {"rwnd": 0.57}}),
    "send buffer as the kernel counts it": ("send_buffer", {"flow": {"sndbuf": 0.5}}),
    "send buffer as the sender feels it": ("send_buffer", {"sender": {"run": 0.4}, "sending": BUFFERS}),
    "a full CPU but for moments in which the buffer is full": (
        "client.cpu",
        {"sender": {"app": 0.6, "softirq": 0.3, "run": 0.88}, "sending": BUFFERS},
    ),
    "a buffer that is full for a sixth of the time, half of it the kernel's": (
        "send_buffer",
        {"sender": {"app": 0.5, "softirq": 0.34, "run": 0.83}, "flow": {"cwnd": 7.0}, "sending": BUFFERS},
    ),
    "a congestion window that the buffer holds": (
        UNKNOWN,
        {"sender": {"app": 0.5, "softirq": 0.34, "run": 0.83}, "flow": {"cwnd": 4.0}, "sending": BUFFERS},
    ),
    "congestion window": ("congestion_window", {"sender": {"run": 0.1}, "flow": {"cwnd": 72.0}}),
    "loss": ("loss", {"flow": {"retransmitted": 0.01}}),
    "loss of a full link": (
        "link_rate",
        {"flow": {"Mbit_s": 930.0, "retransmitted": 0.01}, "path": SHAPED},
    ),
    "link": ("link_rate", {"flow": {"Mbit_s": 930.0}, "path": SHAPED}),
    "queue": ("queue", {"flow": {"Mbit_s": 300.0}, "path": SHAPED}),
    "requests one at a time": ("concurrency", {"sending": {"job": {"workload": "request_response"}}}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_limiter_is_named(case: str) -> None:
    expected, made = CASES[case]
    found = verdict.of_trial(trial(**made))
    assert found.name == expected, [(s.name, s.held, s.evidence) for s in found.ranked]
    if expected != UNKNOWN:
        suspect = found.suspect
        assert suspect is not None and suspect.held == 1.0
        for evidence in suspect.evidence:
            assert evidence.value is not None and evidence.cite and evidence.source
            assert (
                evidence.above == (evidence.value >= evidence.threshold)
                or evidence.value == evidence.threshold
            )


@pytest.mark.parametrize("case", ["nothing", "sender's CPU", "neighbours", "paced", "congestion window"])
def test_a_sample_of_thousands_of_workers_stands_for_all_of_them(case: str) -> None:
    whole, sampled = (trial(**{**CASES[case][1], "connections": 4000}) for _ in range(2))
    for data in sampled.hosts.values():
        for reading in data.readings["threads"].values():
            for what in ("run", "wait"):
                key = (f"thread.{what}_ns", "worker=all")
                reading.values[key] = round(reading.values[key] * 1024 / 4000)
            del reading.values["thread.busiest_run_ns", "worker=busiest"]
            reading.values["thread.workers", ""] = 1024
    assert verdict.of_trial(sampled).name == verdict.of_trial(whole).name
    known, found = verdict.signals_of(whole), verdict.signals_of(sampled)
    assert known is not None and found is not None
    for name, signal in known.items():
        busiest = name.endswith(".busiest_thread_ratio")
        assert found[name].values == pytest.approx({} if busiest else signal.values, rel=1e-6, abs=1e-6), name


def test_a_signal_must_hold_in_four_of_five_intervals() -> None:
    for disturbed, expected in ((2, "receive_window"), (3, UNKNOWN)):
        made = trial(flow={"rwnd": 0.9})
        for index in range(disturbed):
            made.hosts["client"].readings["tcp_info"][index].values["tcp.rwnd_limited_ns", ""] = 0
        assert verdict.of_trial(made).name == expected


@pytest.mark.parametrize(("stolen", "expected"), [(5, "client.cpu"), (6, UNKNOWN)])
def test_intervals_in_which_the_hypervisor_took_cpu_time_are_left_out_where_others_are_most(
    stolen: int, expected: str
) -> None:
    """The receiver's CPU is taken away, and the sender waits for it."""
    made, disturbed = trial(sender=FULL), trial(sender={"app": 0.3, "run": 0.3}, receiver={"steal": 0.3})
    for name, data in made.hosts.items():
        for sensor, readings in data.readings.items():
            readings.update(dict(list(disturbed.hosts[name].readings[sensor].items())[:stolen]))
    found = verdict.of_trial(made)
    assert (found.name, found.stolen) == (expected, stolen > 5)
    calm = verdict.of_trial(trial(sender=FULL))
    assert verdict.of_point([found, found, calm]).name == "client.cpu"
    assert verdict.of_point([found] * 3).name == expected


def test_others_that_go_from_host_to_host_are_named_where_they_are_most_often() -> None:
    busy = {"app": 0.4, "other": 0.5, "run": 0.4, "wait": 0.5}
    for at_the_client, expected in ((10, "client"), (6, "client"), (3, "server")):
        made, calm = trial(sender=busy, receiver=busy), trial(sender={"run": 0.9}, receiver={"run": 0.9})
        for name, intervals in (
            ("client", range(at_the_client, len(made.hosts["client"].records))),
            ("server", range(at_the_client)),
        ):
            for sensor in ("threads", "cpu_exact"):
                kept, of_calm = made.hosts[name].readings[sensor], calm.hosts[name].readings[sensor]
                kept.update({index: of_calm[index] for index in intervals if index in of_calm})
        found = verdict.of_trial(made)
        assert found.name == f"{expected}.run_queue", [(s.name, s.held) for s in found.ranked]


def test_of_two_small_buffers_the_one_that_is_full_most_of_the_time_is_named() -> None:
    """Intervals fall to either side of the window's threshold: that is no reason to know neither."""
    for window_full, expected in ((4, "send_buffer"), (8, "receive_window")):
        made = trial(sender={"run": 0.4}, flow={"rwnd": 0.15}, sending=BUFFERS)
        for index in range(window_full):
            made.hosts["client"].readings["tcp_info"][index].values["tcp.rwnd_limited_ns", ""] = int(
                0.25 * SPAN
            )
        assert verdict.of_trial(made).name == expected


def test_segments_sent_again_in_one_stall_do_not_limit_the_rest() -> None:
    for intervals, expected in ((1, "receive_window"), (3, "loss")):
        made = trial(flow={"rwnd": 0.9, "retransmitted": 0.0})
        for index in range(intervals):
            made.hosts["client"].readings["tcp_info"][index].values["tcp.retransmitted_segments", ""] = 300
        assert verdict.of_trial(made).name == expected


def test_what_was_not_measured_is_named_and_lowers_what_can_be_said() -> None:
    whole = verdict.of_trial(trial(flow={"rwnd": 0.9}))
    assert not any("tcp_info" in text for text in whole.unseen)
    blind = verdict.of_trial(trial(flow={"rwnd": 0.9}, without=("tcp_info",)))
    assert blind.name == UNKNOWN
    assert any(text.startswith("receive_window:") and "tcp_info" in text for text in blind.unseen)


def test_a_trial_with_one_end_is_unknown_and_says_why() -> None:
    made = trial()
    del made.hosts["server"]
    found = verdict.of_trial(made)
    assert found.name == UNKNOWN and "two ends" in found.unseen[0]


def test_without_exact_accounting_proc_stat_tells_of_the_whole_window() -> None:
    made = trial(sender=FULL, without=("cpu_exact",))
    for data in made.hosts.values():
        for index, reading in data.readings["cpu_times"].items():
            # Ticks of 10 ms: an interval of 250 ms sees 240 or 250 ms busy.
            idle = (index % 2) * 10_000_000 if data.role == "send" else SPAN // 2
            busy = {
                "user": 0,
                "nice": 0,
                "system": SPAN - idle,
                "idle": idle,
                "iowait": 0,
                "irq": 0,
                "softirq": 0,
            }
            reading.values.update({(f"cpu.{state}_ns", "cpu=0"): ns for state, ns in busy.items()})
    for reading in made.hosts["client"].readings["process"].values():
        reading.values["process.cpu_ns", ""] = int(0.97 * SPAN)
    found = verdict.of_trial(made)
    assert found.name == "client.cpu"
    assert found.suspect is not None and found.suspect.evidence[0].value == pytest.approx(0.02)


def test_a_point_takes_its_trials_together() -> None:
    window, cpu = (verdict.of_trial(trial(**made)) for made in ({"flow": {"rwnd": 0.9}}, {"sender": FULL}))
    assert verdict.of_point([window] * 5).name == "receive_window"
    assert verdict.of_point([window] * 4 + [cpu]).name == "receive_window"
    assert verdict.of_point([window] * 3 + [cpu] * 2).name == UNKNOWN
    apart = verdict.of_point([window] * 3 + [cpu] * 2)
    assert apart.apart == (("receive_window", 3), (cpu.name, 2))
    said = sentence(Finding(apart))
    assert "trials of this point differ: receive window in 3, " in said and said.endswith("of 5"), said
    assert short(Finding(apart)) == f"unknown: receive window or {cpu.name.replace('.cpu', ': CPU')}"
    assert finding_json(Finding(apart))["apart"] == {"receive_window": 3, cpu.name: 2}
    assert not verdict.of_point([window] * 4 + [cpu]).apart
    assert verdict.of_point([]).trials == 0


def test_every_rule_names_a_limiter_in_the_order_of_causes() -> None:
    named = [rule.limiter for rule in rules.RULES]
    assert set(named) <= set(LIMITERS)
    places = [list(LIMITERS).index(name) for name in named]
    assert places == sorted(places)
    for rule in rules.RULES:
        for criterion in rule.criteria:
            assert criterion.cite, f"{rule.limiter}: {criterion.name} has no source"


STEADY, UNSTEADY = (2_500_000, 2_520_000), (2_500_000, 3_400_000)


@pytest.mark.parametrize(
    ("host", "device", "waits", "waiting", "passed", "expected"),
    [
        ("client", "veth0", 130, 0, STEADY, "link_rate"),
        ("client", "veth0", 130, 0, UNSTEADY, UNKNOWN),  # as much as there was to send
        ("client", "veth0", 0, 0, STEADY, UNKNOWN),
        ("client", "veth0", 20, 2, UNSTEADY, "link_rate"),  # it never runs dry
        ("server", "ifb0", 20, 2, STEADY, "link_rate"),  # of what comes in
        ("server", "eth1", 20, 2, STEADY, "link_rate"),  # of what acknowledges
        ("server", "eth2", 130, 2, STEADY, UNKNOWN),  # of other traffic
        ("client", "lo", 130, 2, STEADY, UNKNOWN),
    ],
)
def test_a_shaper_that_somebody_else_set_is_a_link_of_unknown_rate(
    host: str, device: str, waits: int, waiting: int, passed: tuple[int, int], expected: str
) -> None:
    made = trial(path={"device": "veth0"})
    for index in range(INTERVALS):
        counts = {
            "overlimits": waits,
            "backlog_packets": waiting,
            "sent_packets": 1_000,
            "sent_bytes": passed[index % 2],
            "drops": 0,
        }
        values = {(f"qdisc.{name}", f"dev={device},kind=htb"): count for name, count in counts.items()}
        made.hosts[host].readings.setdefault("qdisc", {})[index] = Reading(SPAN, 20_000, None, values)
        carried = {("net.tx_bytes", "dev=eth1"): 20_000, ("net.tx_bytes", "dev=eth2"): 10_000}
        made.hosts["server"].readings.setdefault("net_devices", {})[index] = Reading(
            SPAN, 20_000, None, carried
        )
    assert verdict.of_trial(made).name == expected


@pytest.mark.parametrize("tunable", ["client.tcp_wmem_max", "all.tcp_wmem_max", "server.tcp_wmem_max"])
def test_a_send_buffer_that_the_experiment_lets_grow_no_further_is_the_limit(tunable: str) -> None:
    made = trial(sender={"run": 0.4}, flow={"cwnd": 60.0})
    made.settings[tunable] = 65_536  # type: ignore[index]
    limits = tunable.startswith(("client", "all"))
    assert verdict.of_trial(made).name == ("send_buffer" if limits else "congestion_window")


def pairs(
    truth: float, noise: float, count: int, source: random.Random, direction: str = "relax"
) -> list[Pair]:
    ratio = 2.0 if direction == "relax" else 0.5
    change = Perturbation("receive_window", direction, "receive_buffer", 1, 2, ratio)  # type: ignore[arg-type]
    found = []
    for _ in range(count):
        level = 1e9 * source.lognormvariate(0, 0.5)  # what drifts from block to block
        rates = [level * source.lognormvariate(0, noise) for _ in range(2)]
        found.append(Pair(change, rates[0], rates[1] * ratio**truth))
    return found


def test_the_interval_of_an_elasticity_holds_the_truth_in_95_of_100() -> None:
    source, held, runs = random.Random(20081217), 0, 400
    for _ in range(runs):
        found = elasticity(pairs(0.7, 0.05, 4, source))
        assert found is not None and found.low is not None and found.high is not None
        held += found.low <= 0.7 <= found.high
    low, high = stats.binom.interval(0.999, runs, 0.95)
    assert low <= held <= high


@pytest.mark.parametrize(
    ("truth", "direction", "said"),
    [
        (1.0, "relax", "proved"),
        (0.0, "relax", "contradicted"),
        (1.0, "tighten", "proved"),
        (0.0, "tighten", "contradicted"),
    ],
)
def test_a_proof_says_whether_the_rate_follows(truth: float, direction: str, said: str) -> None:
    assert judge("receive_window", pairs(truth, 0.01, 4, random.Random(1), direction)).verdict == said


def test_a_rate_that_follows_more_than_the_resource_can_give_proves_nothing() -> None:
    found = judge("concurrency", pairs(2.0, 0.05, 6, random.Random(1)))
    assert found.verdict == "undecided" and "something else changed with it" in found.why


def test_few_or_scattered_pairs_decide_nothing() -> None:
    assert judge("receive_window", []).verdict == "undecided"
    assert judge("receive_window", pairs(1.0, 0.0, 1, random.Random(1))).verdict == "undecided"
    assert judge("receive_window", pairs(0.3, 0.5, 4, random.Random(1))).verdict == "undecided"


def test_less_of_a_resource_with_slack_does_not_prove_what_more_of_it_denies() -> None:
    source = random.Random(1)
    found = judge("receive_window", [*pairs(0.0, 0.01, 4, source), *pairs(0.8, 0.01, 4, source, "tighten")])
    assert found.verdict == "contradicted"
    assert set(found.by_direction) == {"relax", "tighten"}


def test_more_of_a_resource_that_helps_by_chance_lets_less_of_it_prove_nothing() -> None:
    """Nothing follows from more of it, all from less; steps of a quarter, trials that differ by 8 %: six blocks, 300 times."""
    source = random.Random(20081217)

    def quarter(truth: float, direction: str) -> list[Pair]:
        ratio = 1.25 if direction == "relax" else 0.8
        change = Perturbation("receive_window", direction, "receive_buffer", 1, 2, ratio)  # type: ignore[arg-type]
        rates = [[1e9 * source.lognormvariate(0, 0.08) for _ in range(2)] for _ in range(6)]
        return [Pair(change, first, second * ratio**truth) for first, second in rates]

    runs = 300
    slack = sum(
        judge("receive_window", [*quarter(0, "relax"), *quarter(1, "tighten")]).verdict == "proved"
        for _ in range(runs)
    )
    sole = sum(
        judge("receive_window", [*quarter(1, "relax"), *quarter(1, "tighten")]).verdict == "proved"
        for _ in range(runs)
    )
    # 2.5 % by its level; it was a tenth where the estimate alone had to be above the threshold.
    assert slack <= 0.05 * runs
    assert sole >= 0.9 * runs


def test_what_is_proved_names_the_limiter() -> None:
    suspected = verdict.of_trial(trial(flow={"rwnd": 0.9}))

    def proof(limiter: str, said: str, low: float, direction: str = "relax") -> Proof:
        found = Elasticity(low + 0.1, low, low + 0.2, 4, "t")
        return Proof(limiter, said, "because", found, {direction: found})  # type: ignore[arg-type]

    assert (Finding(suspected).name, Finding(suspected).status) == ("receive_window", "suspected")
    contradicted = proof("receive_window", "contradicted", -0.1)
    finding = Finding(suspected, (contradicted, proof("client.cpu", "proved", 0.8, "tighten")))
    assert (finding.name, finding.status) == ("client.cpu", "proved")
    finding = Finding(
        suspected, (proof("client.cpu", "proved", 0.9, "tighten"), proof("receive_window", "proved", 0.4))
    )
    assert finding.name == "receive_window", "more of it raised the rate"
    finding = Finding(suspected, (contradicted,))
    assert (finding.name, finding.status) == (UNKNOWN, "undecided"), "what is refuted is not named"
    assert "names receive window, and the experiment spoke against it" in sentence(finding)
    runner_up = replace(suspected.ranked[0], name="send_buffer")
    second = replace(suspected, ranked=(suspected.ranked[0], runner_up))
    assert Finding(second, (contradicted,)).name == "send_buffer"
    second = replace(second, ranked=(second.ranked[0], replace(runner_up, held=0.7)))
    assert Finding(second, (contradicted,)).name == UNKNOWN
    shown = finding_json(Finding(suspected, (proof("receive_window", "proved", 0.4),)))
    assert shown["verdict"] == "proved" and shown["elasticity"]["low"] == 0.4
    assert shown["evidence"][0]["signal"] == "client.rwnd_limited_ratio" and shown["ranked"][0]["refuted_by"]


def test_the_words_for_a_finding() -> None:
    suspected = verdict.of_trial(trial(flow={"rwnd": 0.9}))
    assert short(Finding(suspected)) == "receive window"
    assert "client.rwnd_limited_ratio 0.9" in sentence(Finding(suspected))
    assert short(Finding(Verdict(UNKNOWN))) == "unknown"
    quota = replace(suspected, name="client.cpu_quota")
    assert (
        short(Finding(quota, (Proof("client.cpu_quota", "not_testable", "no"),)))
        == "client: CPU quota (not testable)"
    )


def test_elasticity_is_the_slope_of_the_logarithms() -> None:
    change = Perturbation("link_rate", "tighten", "link_rate", 100, 80, 0.8)
    found = elasticity([Pair(change, 100.0, 80.0), Pair(change, 200.0, 160.0)])
    assert found is not None and found.estimate == pytest.approx(1.0) and found.n == 2
    half = elasticity([Pair(change, 100.0, 100.0 * math.sqrt(0.8))] * 3)
    assert half is not None and half.estimate == pytest.approx(0.5)


def of_script(
    transactions: list[dict[str, Any]], account: list[dict[str, Any]], sender: Shares | None = None
) -> Trial:
    """A trial of a script of one group, of which the sender tells this."""
    made = trial(sender=sender)
    client = made.hosts["client"]
    client.manifest["job"] = {"script": {"groups": [{"transactions": transactions}]}}
    client.manifest["result"] = {"script": {"groups": [{"transactions": account}]}}
    return made


def accounted(iterations: int, missed: int = 0, threads: int = 2, **calls: float) -> dict[str, Any]:
    """A transaction of 2.5 s; `calls`: share of the threads' time in each."""
    span_ns = 2_500_000_000
    operations = [
        {"call": call, "operations": 2 * iterations, "samples": iterations, "bytes": 128 * iterations,
         "time": {"sum_ns": int(share * threads * span_ns / 2)}}
        for call, share in calls.items()
    ]  # fmt: skip
    return {
        "begin_ns": 0, "end_ns": span_ns, "threads_done": threads, "iterations": iterations, "missed_iterations": missed,
        "operations": operations,
    }  # fmt: skip


CONNECT = {"rate": None, "operations": [{"call": "connect"}]}
PACED = {"rate": {"iterations": 100, "period_ns": 10**9}, "operations": [{"call": "write"}]}
FREE = {"rate": None, "operations": [{"call": "write"}, {"call": "read"}]}
OPENED = {**accounted(2), "end_ns": 100_000}


@pytest.mark.parametrize(
    ("sizes", "limiter"), [((8192, 8192), "send_buffer"), ((8192, None), UNKNOWN), ((8 << 20,), UNKNOWN)]
)
def test_a_send_buffer_that_all_connections_of_a_script_ask_for_is_named(
    sizes: tuple[int | None, ...], limiter: str
) -> None:
    connects = [
        {"rate": None, "operations": [{"call": "connect", "socket": {"send_buffer_bytes": size}}]}
        for size in sizes
    ]
    made = of_script(
        [*connects, FREE],
        [*(OPENED for _ in sizes), accounted(1000, write=0.3, read=0.1)],
        sender={"run": 0.4},
    )
    assert verdict.of_trial(made).name == limiter


@pytest.mark.parametrize(
    ("asked", "told", "limiter"),
    [
        ([CONNECT, PACED], [OPENED, accounted(500, write=0.1)], "offered_load"),
        ([CONNECT, PACED], [OPENED, accounted(480, 20, write=0.1)], None),
        # Late for its rate: it made all its iterations, in more time than they were to take.
        ([CONNECT, PACED], [OPENED, accounted(400, write=0.1)], None),
        ([CONNECT, PACED, FREE], [OPENED, accounted(500, write=0.1), accounted(9, write=0.5)], None),
        ([CONNECT, FREE], [OPENED, accounted(9, write=0.1, read=0.8)], "concurrency"),
        ([CONNECT, FREE], [OPENED, accounted(9, write=0.8, read=0.1)], None),
        ([CONNECT, FREE], [OPENED, accounted(9, write=0.9)], None),
    ],
)
def test_a_script_tells_its_rate_and_its_exchanges(
    asked: list[dict[str, Any]], told: list[dict[str, Any]], limiter: str | None
) -> None:
    named = [
        suspect.name for suspect in verdict.of_trial(of_script(asked, told)).ranked if suspect.held == 1.0
    ]
    assert [name for name in named if name in ("offered_load", "concurrency")] == (
        [limiter] if limiter else []
    )


def test_without_tcp_a_full_cpu_of_the_sender_is_named() -> None:
    made = trial(sender={"app": 0.9, "softirq": 0.1, "run": 1.0})
    for name in ("client", "server"):
        made.hosts[name].manifest["job"] = {"transport": "udp"}
        made.hosts[name].readings.pop("tcp_info", None)
    assert verdict.of_trial(made).name == "client.cpu"


@pytest.mark.parametrize(("held", "near"), [(0.004, False), (0.3, True)])
def test_evidence_that_held_in_none_of_the_intervals_is_near_nothing(held: float, near: bool) -> None:
    finding = Finding(Verdict(UNKNOWN, (Suspect("client.client_application", 0.1, held, ()),)))
    assert [("nearest" in said) for said in (limited_by(finding), sentence(finding))] == [near, near]
