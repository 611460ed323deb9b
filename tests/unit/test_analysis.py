"""Outcomes, intervals and checks, on trials with a known answer."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_campaign import HELLO, Layout, Truth, changed, make_campaign

from iodyno.analysis.compare import change, difference, effects
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.histogram import BUCKETS, Histogram, bounds_of, bucket_of, merge
from iodyno.analysis.interval import batch_means, estimate, of_quantile, t_interval
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.steady_state import steady_state
from iodyno.analysis.summary import analyse
from iodyno.core.outcome import OUTCOMES, Estimate
from iodyno.core.warnings import WarningCode

STILL = Truth(between=0.0, within=0.0)
POINT = {"connections": 4, "size": 65536, "window": 262144}


def campaign(folder: Path, truth: Truth = STILL, layout: Layout | None = None) -> CampaignSummary:
    made = make_campaign(folder / "c", [(POINT, truth)], layout=layout)
    return analyse(read_dataset(made))


def codes(summary: CampaignSummary) -> set[str]:
    return {str(warning.code) for warning in summary.warnings}


def recorded(values: list[int]) -> Histogram:
    counts: dict[int, int] = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0) + 1
    pairs = sorted(counts.items())
    return Histogram(len(values), sum(values), tuple(b for b, _ in pairs), tuple(c for _, c in pairs))


# Histograms: the bounds are those of agent/core/src/histogram.rs.


def test_buckets_join_without_gap() -> None:
    assert BUCKETS == 4608
    assert all(bounds_of(index)[1] == bounds_of(index + 1)[0] for index in range(BUCKETS - 1))
    assert bounds_of(BUCKETS - 1)[1] == 1 << 42
    assert bucket_of(2**64 - 1) == BUCKETS - 1
    # Values at which the Rust tests of the agent would fail too if its layout moved.
    assert [bucket_of(v) for v in (0, 255, 256, 257, 258, 1000, 10**6, 10**9)] == [
        0, 255, 256, 256, 257, 506, 1780, 3054,
    ]  # fmt: skip


@given(st.integers(0, 2**42 - 1))
def test_a_value_lies_in_its_bucket(value: int) -> None:
    low, high = bounds_of(bucket_of(value))
    assert low <= value < high
    assert high - low - 1 <= 0.01 * max(low, 1)


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=200), st.floats(0.01, 0.999), st.integers(1, 5))
def test_merged_quantiles_are_those_of_all_values(values: list[int], q: float, parts: int) -> None:
    merged = merge(recorded(values[start::parts]) for start in range(parts))
    assert (merged.count, merged.sum_ns) == (len(values), sum(values))
    import math

    exact = sorted(values)[max(1, math.ceil(q * len(values))) - 1]
    assert merged.quantile(q) == pytest.approx(exact, rel=0.01, abs=1)


def test_nothing_recorded_has_no_quantile() -> None:
    assert merge([]).quantile(0.5) is None
    assert merge([]).mean is None


# Intervals.


def test_t_interval_is_the_textbook_one() -> None:
    # Mean 5, standard deviation 2, n 4: 5 -+ 3.182 x 2 / 2.
    low, high = t_interval([3.0, 3.0, 7.0, 7.0])
    assert (low + high) / 2 == pytest.approx(5)
    assert high - 5 == pytest.approx(3.182 * (16 / 3) ** 0.5 / 2, rel=1e-3)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_an_interval_holds_nothing_that_cannot_be(values: list[float]) -> None:
    measured = [Measured(value) for value in values]
    free = estimate(measured, "1")
    share = estimate(measured, "1", possible=OUTCOMES["cpu_idle_ratio"].possible)
    rate = estimate(measured, "1/s", possible=OUTCOMES["goodput_bits_per_s"].possible)
    other = estimate(measured, "ns/KiB", possible=OUTCOMES["cpu_other_ns_per_kib"].possible)
    assert (free.low, free.high) == (other.low, other.high), "other tasks may give way to the load"
    assert None not in (free.low, free.high, free.reach)
    assert (share.low, share.high) == (max(free.low or 0.0, 0.0), min(free.high or 0.0, 1.0))
    assert ("cut off at 0" in share.method) == (share.low != free.low)
    assert rate.high == free.high and rate.low is not None and free.low is not None
    # Of a rate that every trial has it is not said that there may be none.
    positive = free.low <= 0 < min(values)
    assert 0 <= rate.low <= (rate.estimate or 0) if positive else rate.low == share.low
    assert ("log scale" in rate.method) == (positive and rate.low > 0)
    assert ("cut off at 1" in share.method) == (share.high != free.high)
    # A difference knows of the spread what was cut off.
    assert rate.reach == pytest.approx(free.reach)
    assert difference(rate, rate).high == pytest.approx(difference(free, free).high)


def test_what_was_measured_outside_is_not_hidden() -> None:
    measured = [Measured(-3.0), Measured(1.0), Measured(2.0)]
    assert estimate(measured, "ns", possible=(0.0, None)) == estimate(measured, "ns")


def test_what_is_not_there_has_a_reason_and_no_number() -> None:
    found = estimate([missing("no such counter")], "ns")
    assert (found.estimate, found.low, found.n, found.missing) == (None, None, 0, "no such counter")
    assert estimate([], "ns").missing == "the point has no finished trial"


def test_one_trial_uses_its_intervals_and_says_so() -> None:
    source = random.Random(3)
    values = tuple(source.gauss(100, 10) for _ in range(20))
    found = estimate([Measured(100.0, values)], "ns", where="p01")
    assert found.low is not None
    assert found.low < 100 < (found.high or 0)
    assert "batch means over 20 intervals" in found.method
    assert [warning.code for warning in found.warnings] == [WarningCode.ONE_TRIAL]


def test_autocorrelated_batches_are_worth_less() -> None:
    source = random.Random(4)
    walk = [0.0]
    for _ in range(199):
        walk.append(0.8 * walk[-1] + source.gauss(0, 1))
    shuffled = source.sample(walk, len(walk))
    wide, r = batch_means(walk)
    narrow, _ = batch_means(shuffled)
    assert 0.6 < r < 0.95
    assert wide > 2 * narrow


def test_few_intervals_make_no_interval() -> None:
    found = estimate([Measured(1.0, (1.0, 1.1, 0.9))], "ns")
    assert (found.estimate, found.low, found.high) == (1.0, None, None)
    assert "no interval" in found.method


def test_whole_operations_have_an_interval_of_one_at_the_ends_of_the_window() -> None:
    alike = [Measured(69 / seconds, resolution=1 / seconds) for seconds in (1.0, 1.000002, 0.999998)]
    found = estimate(alike, "1/s", possible=(0.0, None))
    # A triangular distribution of half-width 1: 1.96 / sqrt(6). More trials that count the same tell no more.
    assert found.reach == pytest.approx(0.80, abs=0.01)
    assert estimate(alike * 10, "1/s").reach == pytest.approx(found.reach or 0, rel=1e-3)
    assert "one count more or less" in found.method
    # What varies by more is in the spread already.
    apart = [Measured(value, resolution=1.0) for value in (60.0, 69.0, 75.0)]
    plain = estimate([Measured(value) for value in (60.0, 69.0, 75.0)], "1/s")
    assert (estimate(apart, "1/s").low, estimate(apart, "1/s").method) == (plain.low, plain.method)
    one = estimate([Measured(69.0, (69.0,) * 10, resolution=1.0)], "1/s")
    assert one.reach == pytest.approx(0.80, abs=0.01)
    two = estimate(alike[1:], "1/s")
    assert "is wide" not in two.warnings[0].text and "hardly differ" in two.warnings[0].text


def test_few_whole_operations_are_told_of_rates_and_costs(tmp_path: Path) -> None:
    """7 operations of 1 MiB a second for 10 s, the same in each of three trials: 0.80 of 70 operations is 1.1 %."""
    truth = Truth(bytes_per_s=7 << 20, between=0.0, within=0.0)
    folder = make_campaign(tmp_path / "c", [({"size": 1 << 20}, truth)])
    (point,) = analyse(read_dataset(folder)).points
    for name in ("operations_per_s", "client.cpu_ns_per_operation"):
        found = point.outcomes[name]
        assert found.estimate and (found.reach or 0) / found.estimate >= 0.011, name
    # Bytes of a stream are counted as they come, and not message by message.
    goodput = point.outcomes["goodput_bits_per_s"]
    assert goodput.estimate and (goodput.reach or 0) / goodput.estimate < 0.002


@pytest.mark.parametrize("locked", [True, False])
def test_the_interval_of_counts_holds_the_rate(locked: bool) -> None:
    """A regular rate, windows that begin at one phase of it in all trials or at any."""
    source, held, repeats = random.Random(7), 0, 400
    for _ in range(repeats):
        rate, phase = source.uniform(3, 9), source.random()
        begins = [phase if locked else source.random() for _ in range(5)]
        counts = [math.floor(rate + begin) - math.floor(begin) for begin in begins]
        found = estimate([Measured(float(count), resolution=1.0) for count in counts], "1/s")
        assert found.low is not None and found.high is not None
        held += found.low <= rate <= found.high
    # 95 %, less three standard errors of 400 repeats.
    assert held / repeats > 0.917


def test_a_rate_of_which_nothing_was_counted_has_an_upper_bound() -> None:
    three = estimate([Measured(0.0, resolution=0.5)] * 3, "1/s", possible=(0.0, None))
    assert (three.estimate, three.low) == (0.0, 0.0)
    # ln 20 events in three windows of 2 s.
    assert three.high == pytest.approx(math.log(20) / 6, rel=1e-6)
    assert "rule of three" in three.method
    one = estimate([Measured(0.0, resolution=0.5)], "1/s")
    assert one.high == pytest.approx(math.log(20) / 2, rel=1e-6)
    # A class that did nothing may be none that the load has: 0 is 0.
    assert estimate([Measured(0.0)] * 3, "1/s").high == 0.0


def test_the_interval_of_a_quantile_holds_it() -> None:
    source = random.Random(5)
    batches = [recorded([int(source.expovariate(1e-5)) for _ in range(2000)]) for _ in range(20)]
    first = of_quantile(batches, 0.5)
    assert first is not None
    assert first[0] < 69315 < first[1]
    assert first[1] - first[0] < 4000


def lost(*each: int, of: int = 1000) -> Estimate:
    """The loss of trials with so many of 1000 datagrams lost in each of five intervals."""
    trials = [total_ratio([(count, of)] * 5, counted="datagrams") for count in each]
    return estimate(trials, "1", possible=OUTCOMES["loss_ratio"].possible)


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_none_lost_of_some_thousand_does_not_say_that_none_ever_is(trials: int) -> None:
    found = lost(*[0] * trials)
    assert (found.estimate, found.low) == (0.0, 0.0)
    # Wilson's bound for no event in n is z^2 / (n + z^2); the rule of three is 3 / n.
    n = 5000 * trials
    assert found.high == pytest.approx(1.96**2 / (n + 1.96**2), rel=1e-4)
    assert f"Wilson's interval over {n} datagrams" in found.method
    assert any("b at a time" in text for text in found.assumptions)


def test_a_loss_that_trials_happen_to_share_is_not_certain() -> None:
    """1 of 1000 in each: by chance alone it could be twice or half as many, however alike the trials are."""
    found = lost(1, 1, 1)
    assert found.low is not None and found.high is not None
    assert found.low < 0.0007 and found.high > 0.0015


def test_a_loss_that_comes_in_bursts_has_the_interval_of_its_trials() -> None:
    """All in one trial of four: Wilson's interval takes the 2000 that were lost for 2000 events."""
    spread = [count / 1000 for count in (0, 0, 0, 400)]
    found = lost(0, 0, 0, 400)
    assert (found.low, found.high) == (0.0, pytest.approx(t_interval(spread)[1]))


def test_few_intervals_of_one_trial_have_that_of_the_count() -> None:
    trial = total_ratio([(3, 1000), (0, 1000)], counted="datagrams")
    found = estimate([trial], "1")
    assert found.low is not None and found.high is not None and found.low < 0.0015 < found.high
    # What is no share of things that were counted has none.
    assert estimate([total_ratio([(3, 1000), (0, 1000)])], "1").low is None


_FEW = st.lists(st.integers(0, 2**40) | st.sampled_from([11_186_000, 11_187_000]), min_size=1, max_size=12)


@given(st.lists(_FEW, min_size=4, max_size=12), st.sampled_from([0.5, 0.9, 0.99, 0.999]))
def test_the_interval_of_a_quantile_from_one_trial_holds_its_estimate(
    each: list[list[int]], q: float
) -> None:
    batches = tuple(recorded(values) for values in each)
    value = merge(batches).quantile(q)
    assert value is not None
    found = estimate([Measured(value, batches=batches, quantile=q)], "ns")
    assert found.low is not None and found.high is not None
    assert found.low <= value <= found.high


def test_a_quantile_is_known_to_no_better_than_its_bucket() -> None:
    """All values are in one bucket, as those that a link lets through one by one: nobody knows where in it."""
    batches = [recorded([11_186_000] * 50) for _ in range(6)]
    low, high = bounds_of(bucket_of(11_186_000))
    assert of_quantile(batches, 0.5) == (low, high - 1)


# Steady state.


def test_a_drift_is_noticed_and_a_steady_series_is_not() -> None:
    source = random.Random(6)
    steady = [source.gauss(100, 2) for _ in range(20)]
    assert steady_state(steady) is None
    drifting = [value * (1 + index / 60) for index, value in enumerate(steady)]
    warning = steady_state(drifting, "00001-1")
    assert warning is not None
    assert warning.code is WarningCode.NOT_STEADY
    assert "drifts by +27.8% of its mean over the window" in warning.text
    stepped = [value if index < 10 else value * 1.2 for index, value in enumerate(steady)]
    assert "first half" in (steady_state(stepped) or warning).text
    assert steady_state([1.0, 2.0, 3.0]) is None


def test_false_alarms_are_rare() -> None:
    source = random.Random(8)
    alarms = sum(steady_state([source.gauss(100, 8) for _ in range(10)]) is not None for _ in range(500))
    assert alarms <= 20


# Cost.


def test_background_is_subtracted_and_visible(tmp_path: Path) -> None:
    summary = campaign(tmp_path, changed(STILL, background=0.2))
    outcomes = summary.points[0].outcomes
    assert outcomes["client.cpu_ns_per_kib"].estimate == pytest.approx(400, rel=1e-6)
    assert outcomes["server.cpu_ns_per_kib"].estimate == pytest.approx(300, rel=1e-6)
    assert outcomes["client.cpu_busy_ratio"].estimate == pytest.approx(0.2 + 400 * 1e9 / 1024 / 2e9, rel=1e-3)
    assert summary.hosts[0].background.ratio == pytest.approx(0.2)
    assert "20.00%" in outcomes["client.cpu_ns_per_kib"].method
    assert "background" in codes(summary)


def test_a_machine_that_was_as_busy_without_the_load_gives_no_cost(tmp_path: Path) -> None:
    made = make_campaign(tmp_path / "c", [(POINT, changed(STILL, background=0.02))])
    full = make_campaign(tmp_path / "d", [(POINT, changed(STILL, background=0.95))])
    for moment in ("before", "after"):
        for part in (made / "background" / moment).iterdir():
            part.write_bytes((full / "background" / moment / part.name).read_bytes())
    found = analyse(read_dataset(made)).points[0].outcomes
    for name in ("client.cpu_ns_per_kib", "client.cycles_per_kib"):
        assert found[name].estimate is None
        assert "95.0% without" in (found[name].missing or "") and "others gave up" in (
            found[name].missing or ""
        )
    assert found["client.cpu_busy_ratio"].estimate is not None


def test_without_an_idle_measurement_nothing_is_subtracted_and_that_is_said(tmp_path: Path) -> None:
    summary = campaign(tmp_path, changed(STILL, background=0.2), Layout(idle=()))
    cost = summary.points[0].outcomes["client.cpu_ns_per_kib"].estimate
    assert cost is not None
    assert cost > 700
    assert any("was not measured" in warning.text for warning in summary.warnings)


def test_reference_cycles_are_busy_time_by_the_clock(tmp_path: Path) -> None:
    found = campaign(tmp_path).points[0].outcomes["client.cycles_per_kib"]
    assert found.estimate == pytest.approx(800, rel=1e-6)
    assert "tier tsc" in found.method


def test_hardware_cycles_are_used_when_every_host_has_them(tmp_path: Path) -> None:
    summary = campaign(tmp_path, changed(STILL, pmu_hz=3e9))
    found = summary.points[0].outcomes["client.cycles_per_kib"]
    assert summary.tier == "pmu"
    assert found.estimate == pytest.approx(1200, rel=1e-6)
    assert "tier pmu" in found.method


def test_tiers_are_never_mixed(tmp_path: Path) -> None:
    """One point with a hardware counter and one without: both are told in reference cycles."""
    made = make_campaign(
        tmp_path / "c",
        [({"connections": 1}, changed(STILL, pmu_hz=3e9)), ({"connections": 4}, STILL)],
        layout=Layout(replicates=1),
    )
    summary = analyse(read_dataset(made))
    assert summary.tier == "tsc"
    assert all("tier tsc" in p.outcomes["client.cycles_per_kib"].method for p in summary.points)


def test_no_clock_no_cycles_but_time(tmp_path: Path) -> None:
    hello = HELLO | {"clock": HELLO["clock"] | {"tsc_hz": None}}
    outcomes = campaign(tmp_path, layout=Layout(hello=hello)).points[0].outcomes
    assert outcomes["client.cycles_per_kib"].estimate is None
    assert "neither a hardware counter" in (outcomes["client.cycles_per_kib"].missing or "")
    assert outcomes["client.cpu_ns_per_kib"].estimate is not None


def test_rates_segments_and_limits(tmp_path: Path) -> None:
    outcomes = campaign(tmp_path, changed(STILL, retransmits=0.01)).points[0].outcomes
    value = {name: found.estimate for name, found in outcomes.items()}
    assert value["goodput_bits_per_s"] == pytest.approx(8e9, rel=1e-6)
    assert value["writes_per_s"] == pytest.approx(1e9 / 65536, rel=1e-4)
    assert value["write_service_time_mean_ns"] == pytest.approx(4 * 65536, rel=1e-3)
    assert value["write_service_time_p99_ns"] == pytest.approx(4 * 65536, rel=0.01)
    assert value["device_segment_bytes"] == pytest.approx(16384 + 66, rel=1e-4)
    assert value["segments_per_ack"] == pytest.approx(4, rel=1e-3)
    assert value["retransmits_per_segment"] == pytest.approx(0.01, rel=0.01)
    assert value["rwnd_limited_ratio"] == pytest.approx(0.25)
    assert value["sndbuf_limited_ratio"] == 0
    assert value["client.context_switches_per_s"] == pytest.approx(5000)
    shares = [value[f"client.cpu_{name}_ratio"] or 0 for name in ("usr", "sys", "intr", "idle")]
    assert sum(shares) == pytest.approx(1, rel=1e-6)


# Physics.


def test_a_sound_trial_raises_no_warning(tmp_path: Path) -> None:
    assert codes(campaign(tmp_path)) == set()


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"goodput_lies": 1.2}, "physics", "more than the"),
        ({"little": 1.5}, "physics", "Little's law"),
        ({"split_sum": 1.2}, "split_unreliable", "the split is unreliable"),
        ({"steal": 0.1}, "cost_void", "steal time"),
        ({"sensor_cost_ns": 10_000_000}, "observer_cost", "sensors"),
        ({"receive_on_sender": True}, "receive_on_sender", "charged with receive"),
        ({"drift": 0.5}, "not_steady", "drifts"),
    ],
)
def test_a_broken_law_is_told(tmp_path: Path, wrong: dict[str, Any], code: str, said: str) -> None:
    summary = campaign(tmp_path, changed(STILL, **wrong))
    assert any(str(warning.code) == code and said in warning.text for warning in summary.warnings), (
        summary.warnings
    )
    assert summary.points[0].outcomes["goodput_bits_per_s"].estimate is not None


def test_fewer_bytes_on_the_wire_than_delivered(tmp_path: Path) -> None:
    summary = campaign(tmp_path, changed(STILL, goodput_lies=1.2))
    assert not any("fewer than" in warning.text for warning in summary.warnings)
    # What a receive buffer may have held before the window is not held against the wire.
    assert any("received" in warning.text for warning in summary.warnings)


def test_hosts_that_share_cpus_are_told(tmp_path: Path) -> None:
    summary = campaign(tmp_path, layout=Layout(cpus={"client": (0, 1), "server": (1, 2)}))
    assert any("share CPUs (0, 1: client; 1, 2: server)" in warning.text for warning in summary.warnings)


def test_sampled_split_has_its_standard_error(tmp_path: Path) -> None:
    hello = HELLO | {"host": HELLO["host"] | {"irq_time_accounting": None}}
    summary = campaign(tmp_path, layout=Layout(hello=hello))
    warning = next(d for d in summary.warnings if d.code is WarningCode.TICK_ACCOUNTING)
    # sqrt(0.25 / (250 x 10 s x 2 CPUs)) = 0.7 points.
    assert "0.7 points" in warning.text


def test_missing_trials_are_told(tmp_path: Path) -> None:
    made = make_campaign(tmp_path / "c", [(POINT, STILL)])
    part = made / "trials" / "00002-1" / "records.parquet"
    part.write_bytes(part.read_bytes()[:-1])
    summary = analyse(read_dataset(made))
    point = summary.points[0]
    assert (point.finished, point.planned, point.outcomes["goodput_bits_per_s"].n) == (2, 3, 2)
    assert {"missing_trials", "few_replicates"} <= codes(summary)


# Comparing.


def known(value: float, half: float) -> Estimate:
    return Estimate(value, value - half, value + half, 3, "ns", "t interval over 3 trials")


def test_a_change_is_claimed_only_beyond_the_intervals() -> None:
    assert change(known(10, 1), known(20, 2)).verdict == "rises"
    assert change(known(20, 2), known(10, 1)).verdict == "falls"
    assert change(known(10, 6), known(20, 6)).verdict == "undecided"
    step = change(known(10, 1), known(20, 2))
    assert (step.ratio, step.low, step.high) == (2, pytest.approx(18 / 11), pytest.approx(22 / 9))
    alone = Estimate(20, None, None, 1, "ns", "one trial")
    assert change(known(10, 1), alone).verdict == "undecided"


def test_effects_hold_the_other_factors() -> None:
    points = [
        ({"size": size, "connections": connections}, known(size * connections, 0.1))
        for size in (1, 4)
        for connections in (1, 2)
    ]
    found = effects(points, "size", 1, 4)
    assert [dict(effect.others) for effect in found] == [{"connections": 1}, {"connections": 2}]
    assert [effect.change.ratio for effect in found] == [4, 4]


@pytest.mark.parametrize(("idle", "lacks"), [(("before",), "after"), (("after",), "before")])
def test_a_background_that_was_measured_once_is_a_warning(
    idle: tuple[str, ...], lacks: str, tmp_path: Path
) -> None:
    folder = make_campaign(tmp_path / "c", [({}, Truth())], layout=Layout(idle=idle))
    said = [
        warning.text
        for warning in analyse(read_dataset(folder)).warnings
        if warning.code is WarningCode.BACKGROUND
    ]
    assert any(text.startswith("client:") and f"not known {lacks} them" in text for text in said)
    both = make_campaign(tmp_path / "d", [({}, Truth())])
    texts = [warning.text for warning in analyse(read_dataset(both)).warnings]
    assert not any("not known" in text for text in texts)


@pytest.mark.parametrize(("finished", "said"), [(True, ""), (False, "the proof of the limiter")])
def test_a_campaign_whose_trials_are_finished_says_what_else_is_missing(
    finished: bool, said: str, tmp_path: Path
) -> None:
    made = make_campaign(tmp_path / "c", [(POINT, STILL)])
    stored = json.loads((made / "campaign.json").read_text())
    stored["finished"] = finished
    stored["experiment"]["prove"] = True
    (made / "campaign.json").write_text(json.dumps(stored))
    assert analyse(read_dataset(made)).lacks == said
