"""CPU time by class: every tier, what it can tell, what it says of its own error, and what stands beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_campaign import HELLO, Layout, Truth, changed, make_campaign
from made_classes import ExactTruth

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.physics import observer_cost
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import Warning, WarningCode
from iodyno.store.writer import write_document

EXACT = ExactTruth()
STILL = Truth(between=0.0, within=0.0, exact=EXACT)
POINT = {"connections": 4, "size": 65536, "window": 262144}
TICKS = HELLO | {"host": HELLO["host"] | {"irq_time_accounting": None}}
BUSY = ("usr", "sys", "irq", "softirq", "other")
# 400 ns of CPU a KiB at 10^9 bytes a second, on two CPUs.
LOAD = 400 * 1e9 / 1024 / 2e9


ASKS = {**POINT, "response_size": 64}


def campaign(
    folder: Path, truth: Truth = STILL, layout: Layout | None = None, point: Mapping[str, Any] = POINT
) -> CampaignSummary:
    return analyse(read_dataset(make_campaign(folder / "c", [(point, truth)], layout=layout)))


def outcomes(summary: CampaignSummary) -> dict[str, Estimate]:
    return {
        name.removeprefix("client."): found
        for name, found in summary.points[0].outcomes.items()
        if not name.startswith("server.")
    }


def texts(summary: CampaignSummary, code: WarningCode) -> list[str]:
    return [warning.text for warning in summary.warnings if warning.code is code]


def test_a_class_of_which_the_idle_machine_had_more_costs_nothing_and_that_is_said(tmp_path: Path) -> None:
    """Under load the host's timer no longer wakes its CPUs: 0.2 points of interrupts instead of 0.5."""
    made = make_campaign(
        tmp_path / "c",
        [(POINT, replace(STILL, exact=replace(EXACT, load={"usr": 0.1, "sys": 0.9, "irq": -0.015})))],
    )
    summary = analyse(read_dataset(made))
    irq = outcomes(summary)["cpu_irq_ns_per_kib"]
    assert irq.estimate == 0 and (irq.low or 0) >= 0
    assert "in this class idle, and 0.2" in irq.method
    assert (outcomes(summary)["cpu_sys_ns_per_kib"].estimate or 0) > 0


def test_exact_classes_sum_to_one_and_are_the_truth(tmp_path: Path) -> None:
    summary = campaign(tmp_path)
    found = outcomes(summary)
    share = {kind: found[f"cpu_{kind}_ratio"].estimate or 0.0 for kind in (*BUSY, "idle")}
    assert summary.accounting.tier == "bpf"
    assert sum(share.values()) == pytest.approx(1, abs=1e-6)
    assert share["idle"] == pytest.approx(1 - 0.05 - LOAD, abs=1e-6)
    assert share["softirq"] == pytest.approx(0.35 * LOAD + 0.2 * 0.05, rel=1e-5)
    assert share["irq"] == pytest.approx(0.02 * LOAD + 0.1 * 0.05, rel=1e-5)
    assert share["other"] == pytest.approx(0.7 * 0.05, rel=1e-5)
    assert share["usr"] + share["sys"] == pytest.approx(0.63 * LOAD, rel=1e-5)
    assert found["cpu_intr_ratio"].estimate == pytest.approx(share["irq"] + share["softirq"])
    assert found["cpu_busy_ratio"].estimate == pytest.approx(1 - share["idle"])
    assert found["cpu_steal_ratio"].estimate == 0


def test_cost_by_class_has_the_background_of_that_class_subtracted(tmp_path: Path) -> None:
    found = outcomes(campaign(tmp_path, changed(STILL, background=0.2)))
    cost = {kind: found[f"cpu_{kind}_ns_per_kib"] for kind in BUSY}
    assert cost["softirq"].estimate == pytest.approx(0.35 * 400, rel=1e-5)
    assert cost["irq"].estimate == pytest.approx(0.02 * 400, rel=1e-4)
    assert cost["other"].estimate == pytest.approx(0, abs=1e-3)
    assert sum(one.estimate or 0 for one in cost.values()) == pytest.approx(400, rel=1e-6)
    assert found["cpu_ns_per_kib"].estimate == pytest.approx(400, rel=1e-6)
    assert "background of 4.00% of 2 CPUs in this class subtracted" in cost["softirq"].method
    assert "tier bpf" in cost["softirq"].method


def test_cost_by_operation_and_by_packet(tmp_path: Path) -> None:
    found = outcomes(campaign(tmp_path))
    assert found["cpu_ns_per_operation"].estimate == pytest.approx(400 * 64, rel=1e-4)
    # A packet of 16 KiB each way, as the made device has it.
    assert found["cpu_ns_per_packet"].estimate == pytest.approx(400 * 16 / 2, rel=1e-3)
    assert "packets of eth0" in found["cpu_ns_per_packet"].method


@pytest.mark.parametrize("ended_early", [True, False])
def test_a_load_that_ended_by_itself_costs_what_it_took_however_late_the_last_reading_came(
    tmp_path: Path, ended_early: bool
) -> None:
    dataset = read_dataset(make_campaign(tmp_path / "c", [(POINT, STILL)]))
    for trial in dataset.trials:
        planned_ns = sum(record.span_ns for record in trial.hosts["client"].measured)
        for host in trial.hosts.values():
            last = host.measured[-1]
            # All of its work is done in the first twentieth of the interval, and the sensors are read at the end of that.
            host.records = [
                replace(record, end_ns=record.begin_ns + record.span_ns // 20) if record is last else record
                for record in host.records
            ]
        trial.manifest["windows"]["measured_ns"] = planned_ns if ended_early else 0  # type: ignore[index]
    found = outcomes(analyse(dataset))["cpu_ns_per_kib"].estimate or 0.0
    assert (found == pytest.approx(400, rel=1e-3)) is ended_early


def test_the_tier_is_named_in_every_number_of_cpu_time(tmp_path: Path) -> None:
    for layout, truth, tier in (
        (Layout(), STILL, "bpf"),
        (Layout(), changed(STILL, exact=None), "irq_time"),
        (Layout(hello=TICKS), changed(STILL, exact=None), "tick"),
    ):
        summary = campaign(tmp_path / tier, truth, layout)
        assert summary.accounting.tier == tier
        for name, found in summary.points[0].outcomes.items():
            outcome = name.rpartition(".")[2]
            if outcome.startswith(("cpu_", "cycles")) and "steal" not in outcome and not found.missing:
                assert f"tier {tier}:" in found.method, name


def test_proc_stat_says_that_it_cannot_tell_the_load_from_other_tasks(tmp_path: Path) -> None:
    found = outcomes(campaign(tmp_path, changed(STILL, exact=None)))
    for name in ("cpu_other_ratio", "cpu_other_ns_per_kib"):
        assert found[name].estimate is None
        assert "hold both" in (found[name].missing or "")
    assert found["cpu_sys_ns_per_kib"].estimate == pytest.approx(0.6 * 400, rel=1e-5)


def test_one_trial_without_exact_classes_has_no_cpu_numbers_and_the_others_keep_theirs(
    tmp_path: Path,
) -> None:
    made = make_campaign(tmp_path / "c", [(POINT, STILL)])
    other = make_campaign(tmp_path / "d", [(POINT, changed(STILL, exact=None))])
    for part in (made / "trials" / "00001-1").iterdir():
        part.write_bytes((other / "trials" / "00001-1" / part.name).read_bytes())
    summary = analyse(read_dataset(made))
    assert summary.accounting.tier == "bpf"
    found = outcomes(summary)
    assert (found["cpu_ns_per_kib"].n, found["goodput_bits_per_s"].n) == (2, 3)
    assert found["cpu_ns_per_kib"].estimate == pytest.approx(400, rel=1e-6)
    assert summary.trials[1].outcomes["client.cpu_ns_per_kib"] is None
    (said,) = texts(summary, WarningCode.SENSOR_MISSING)
    assert "no CPU numbers" in said
    assert "(in 1 of 3 trials)" in said


def test_what_a_sensor_lacks_is_said_once_and_the_idle_machine_is_no_trial(tmp_path: Path) -> None:
    dataset = read_dataset(make_campaign(tmp_path / "c", [(POINT, STILL)]))
    costly = "polls counted in the warm-up only: too costly"
    for trial in (dataset.trials[1], next(iter(dataset.background.values()))):
        host = trial.hosts["client"]
        readings = host.readings["cpu_exact"]
        for place, record in enumerate(host.measured):
            readings[record.index].missing = f"{costly}; CPU 1: not online" if place == 0 else costly
        readings[host.measured[0].index].values.clear()
    where = f"in 1 of 3 trials and 1 of {len(dataset.background)} measurements of the idle machine"
    assert analyse(dataset).accounting.why == f"client: {costly}; CPU 1: not online ({where})"


def test_a_point_without_exact_classes_takes_them_from_all_and_says_so(tmp_path: Path) -> None:
    points = [({"connections": 1}, STILL), ({"connections": 4}, changed(STILL, exact=None))]
    summary = analyse(read_dataset(make_campaign(tmp_path / "c", points)))
    assert summary.accounting.tier == "irq_time"
    assert all("tier irq_time" in p.outcomes["client.cpu_ns_per_kib"].method for p in summary.points)
    said = texts(summary, WarningCode.SENSOR_MISSING)
    assert len(said) == 1
    assert "(in 3 of 6 trials)" in said[0]


def test_the_sampled_line_between_user_and_system_has_its_error(tmp_path: Path) -> None:
    found = outcomes(campaign(tmp_path))
    # sqrt(p (1 - p) / n) with p = 0.08 / 0.63 and n = 997 Hz x 2 CPUs x 10 s x 0.63 x LOAD, of the app's time.
    app, samples = 0.63 * LOAD, 997 * 20 * 0.63 * LOAD
    points = 100 * app * (0.127 * 0.873 / samples) ** 0.5
    assert f"standard error of sampling up to {points:.1g}" in found["cpu_usr_ratio"].method
    assert found["cpu_usr_ratio"].estimate == pytest.approx(0.08 * LOAD, abs=5 * points / 100)
    assert "sampling" not in found["cpu_softirq_ratio"].method
    assert "sampling" not in found["cpu_ns_per_kib"].method


def test_an_exact_line_has_no_error_and_none_has_a_reason(tmp_path: Path) -> None:
    exact = outcomes(campaign(tmp_path / "a", changed(STILL, exact=replace(EXACT, hz=0.0))))
    assert exact["cpu_usr_ratio"].estimate == pytest.approx(0.08 * LOAD, rel=1e-6)
    assert "sampling" not in exact["cpu_usr_ratio"].method
    blind = outcomes(campaign(tmp_path / "b", changed(STILL, exact=replace(EXACT, user_known=False))))
    assert "tells user code" in (blind["cpu_usr_ratio"].missing or "")
    assert blind["cpu_softirq_ratio"].estimate is not None
    assert blind["cpu_ns_per_kib"].estimate == pytest.approx(400, rel=1e-6)


def test_a_cpu_without_samples_takes_the_share_of_the_others(tmp_path: Path) -> None:
    """So few samples that half of the readings have none: the split still is that of all samples together."""
    truth = changed(STILL, exact=replace(EXACT, hz=9.0, load={"usr": 0.5, "sys": 0.5}))
    found = outcomes(campaign(tmp_path, truth, Layout(intervals=400, replicates=1)))
    assert found["cpu_usr_ratio"].estimate == pytest.approx(0.5 * LOAD, rel=0.15)
    assert (found["cpu_usr_ratio"].estimate or 0) + (found["cpu_sys_ratio"].estimate or 0) == pytest.approx(
        LOAD
    )


def test_few_samples_are_a_warning(tmp_path: Path) -> None:
    truth = changed(STILL, exact=replace(EXACT, hz=20.0, load={"usr": 0.5, "sys": 0.5}))
    summary = campaign(tmp_path, truth, Layout(intervals=2))
    assert any("by few samples" in text for text in texts(summary, WarningCode.SPLIT_SAMPLED))


def test_the_error_of_ticks_is_in_the_method(tmp_path: Path) -> None:
    found = outcomes(campaign(tmp_path, changed(STILL, exact=None), Layout(hello=TICKS)))
    # A system share of 0.15 at 250 ticks a second, 2 CPUs, 10 s.
    assert "standard error of sampling up to 0.5 points" in found["cpu_sys_ratio"].method
    faster = TICKS | {"host": TICKS["host"] | {"tick_hz": 1000}}
    found = outcomes(campaign(tmp_path / "f", changed(STILL, exact=None), Layout(hello=faster)))
    assert "standard error of sampling up to 0.25 points" in found["cpu_sys_ratio"].method


def test_the_observer_is_an_outcome_of_each_host_and_of_the_costliest(tmp_path: Path) -> None:
    found = campaign(tmp_path).points[0].outcomes
    # Six readings of 20 us and two CPUs with 2 ms of programs in the kernel, a second.
    assert found["client.observer_cost_ratio"].estimate == pytest.approx(4e-3 + 6 * 20e-6, rel=0.01)
    both = [found[f"{host}.observer_cost_ratio"].estimate or 0 for host in ("client", "server")]
    assert found["observer_cost_ratio"].estimate == pytest.approx(max(both))
    assert "programs in the kernel" in found["observer_cost_ratio"].method


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        ({"exact": replace(EXACT, sum=1.02)}, WarningCode.SPLIT_UNRELIABLE, "exact classes of CPU"),
        ({"exact": replace(EXACT, idle_off=0.2)}, WarningCode.PHYSICS, "by /proc/stat"),
        ({"sensor_cost_ns": 30_000_000}, WarningCode.OBSERVER_COST, "of its cost is the instrument's own"),
        # Six of 8 ms a second, on CPUs that are busy for a quarter of the time.
        ({"sensor_cost_ns": 8_000_000}, WarningCode.READINGS_IN_TIMES, "for 1.2% of the time while no CPU was free"),
        ({"steal": 0.1}, WarningCode.COST_VOID, "unreliable"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_classes_is_told(
    tmp_path: Path, wrong: dict[str, Any], code: WarningCode, said: str
) -> None:
    summary = campaign(tmp_path, changed(STILL, **wrong), point=ASKS)
    assert any(said in text for text in texts(summary, code)), summary.warnings


def test_sensors_that_are_read_on_an_idle_cpu_keep_no_operation_waiting(tmp_path: Path) -> None:
    costly = {"sensor_cost_ns": 12_000_000}
    code = WarningCode.READINGS_IN_TIMES
    resting = changed(STILL, cost_ns_per_kib={"client": 1.0, "server": 1.0}, **costly)
    assert not texts(campaign(tmp_path / "a", resting, point=ASKS), code)
    # The same by ticks, busy and resting.
    assert texts(campaign(tmp_path / "b", changed(STILL, exact=None, **costly), point=ASKS), code)
    assert not texts(campaign(tmp_path / "c", changed(resting, exact=None), point=ASKS), code)
    # Writes of a stream wait for room in buffers: nobody reads its percentiles as an answer's.
    assert not texts(campaign(tmp_path / "d", changed(STILL, exact=None, **costly)), code)


def test_sound_exact_classes_raise_no_warning_whatever_proc_stat_says_of_its_split(tmp_path: Path) -> None:
    assert campaign(tmp_path / "a").warnings == ()
    off = campaign(tmp_path / "b", changed(STILL, split_sum=1.2), Layout(hello=TICKS))
    assert off.warnings == ()


def test_a_background_that_moved_widens_the_interval(tmp_path: Path) -> None:
    """Before 5 % and after 15 %: the background under load is anything between, which no replicate can average out."""
    still = changed(STILL, exact=replace(EXACT, idle_machine={"softirq": 1.0}))
    made = make_campaign(tmp_path / "c", [(POINT, still)])
    calm = analyse(read_dataset(made)).points[0].outcomes["client.cpu_ns_per_kib"]
    other = make_campaign(tmp_path / "d", [(POINT, changed(still, background=0.15))])
    after = made / "background" / "after"
    for part in after.iterdir():
        part.write_bytes((other / "background" / "after" / part.name).read_bytes())
    moved = analyse(read_dataset(made)).points[0].outcomes["client.cpu_ns_per_kib"]
    # But for the operations that the ends of a window cut.
    assert calm.low == pytest.approx(calm.estimate, rel=1e-4)
    assert moved.estimate == pytest.approx(400 - 0.05 * 2e9 / 1e9 * 1024, rel=1e-6)
    # 1.96 x a tenth of two CPUs / sqrt(12), at 10^9 bytes a second.
    half = 1.96 * 0.1 / 12**0.5 * 2 * 1024
    assert (moved.high or 0) - (moved.low or 0) == pytest.approx(2 * half, rel=1e-4)
    assert (moved.low or 0) < 400 < (moved.high or 0)


def test_neighbours_that_give_way_are_left_out_of_the_cost(tmp_path: Path) -> None:
    """A machine that is full of other tasks: idle time is none with and without load, the load's own time is known."""
    made = make_campaign(tmp_path / "c", [(POINT, changed(STILL, background=0.02))])
    full = changed(STILL, background=0.9, exact=replace(EXACT, idle_machine={"other": 0.98, "softirq": 0.02}))
    other = make_campaign(tmp_path / "d", [(POINT, full)])
    for moment in ("before", "after"):
        for part in (made / "background" / moment).iterdir():
            part.write_bytes((other / "background" / moment / part.name).read_bytes())
    summary = analyse(read_dataset(made))
    found = outcomes(summary)
    # Subtracted are the soft interrupts of the idle machine: 1.8 % of two CPUs, at 10^9 bytes a second; the load had
    # 0.6 % of background in interrupts.
    expected = 400 + (0.006 - 0.018) * 2 * 1024
    assert found["cpu_ns_per_kib"].estimate == pytest.approx(expected, rel=1e-4)
    assert "other tasks left out" in found["cpu_ns_per_kib"].method
    kinds = ("usr", "sys", "irq", "softirq")
    parts = [found[f"cpu_{kind}_ns_per_kib"].estimate or 0 for kind in kinds]
    assert sum(parts) == pytest.approx(expected, rel=1e-4)
    assert "gave way" in (found["cpu_other_ns_per_kib"].missing or "")
    assert any("own tasks" in text for text in texts(summary, WarningCode.BACKGROUND))
    assert not texts(summary, WarningCode.PHYSICS)


def test_a_cost_below_that_of_the_load_s_own_tasks_is_missing(tmp_path: Path) -> None:
    """The idle machine had more soft interrupts than the loaded one: 15 % of its CPUs, where the load took 20 %."""
    made = make_campaign(tmp_path / "c", [(POINT, changed(STILL, background=0.0))])
    noisy = changed(STILL, background=0.15, exact=replace(EXACT, idle_machine={"softirq": 1.0}))
    other = make_campaign(tmp_path / "d", [(POINT, noisy)])
    for moment in ("before", "after"):
        for part in (made / "background" / moment).iterdir():
            part.write_bytes((other / "background" / moment / part.name).read_bytes())
    found = outcomes(analyse(read_dataset(made)))
    for name in ("cpu_ns_per_kib", "cycles_per_kib", "bytes_per_cycle"):
        assert found[name].estimate is None
        assert "the load's own tasks took" in (found[name].missing or "")
    assert found["cpu_sys_ns_per_kib"].estimate == pytest.approx(0.55 * 400, rel=0.05)


def test_a_campaign_of_the_first_store_still_reads(tmp_path: Path) -> None:
    """Written before exact classes and call stacks were known: no such sensor, no such part of a manifest."""
    made = make_campaign(tmp_path / "c", [(POINT, changed(STILL, exact=None))], layout=Layout(hello=TICKS))
    for path in (made / "campaign.json", *made.glob("*/*/manifest.json")):
        manifest = json.loads(path.read_text())
        for host in (manifest.get("hosts") or {}).values():
            host.pop("profile", None)
        write_document(path, manifest | {"schema_version": 1})
    summary = analyse(read_dataset(made))
    assert summary.accounting.tier == "tick"
    assert "was not read" in summary.accounting.why
    assert outcomes(summary)["cpu_ns_per_kib"].estimate == pytest.approx(400, rel=1e-6)
    assert outcomes(summary)["observer_cost_ratio"].estimate is not None


@pytest.mark.parametrize(
    ("taken", "half", "told"),
    [(0.04, 0.01, False), (0.08, 0.01, True), (0.08, 0.1, False), (0.08, None, True)],
)
def test_the_instrument_is_told_of_where_it_changes_a_cost_by_more_than_its_interval(
    taken: float, half: float | None, told: bool
) -> None:
    """Of one CPU that is busy for half of the time, by all parts together."""
    ends = (None, None) if half is None else (100 - 100 * half, 100 + 100 * half)
    cost = Estimate(100.0, ends[0], ends[1], 3, "ns/KiB", "t")
    parts = {"exact accounting": taken / 2 - 0.005, "sensors": 0.005}
    found = list(observer_cost("a", "here", [parts] * 3, [0.5] * 3, {"a.cpu_ns_per_kib": cost}))
    assert bool(found) == told
    if told:
        text = "a: 8% of its cost is the instrument's own (of one CPU: exact accounting 3.5 %, sensors 0.5 %)"
        assert found == [Warning(WarningCode.OBSERVER_COST, text, "here")]
