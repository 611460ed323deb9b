"""CPU time by class of real trials: what a user reads off the report, whichever tier this machine gives."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from places import MS, experiment, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.core.experiment import DesignSpec, Windows
from iodyno.core.factor import Factor

KINDS = ("usr", "sys", "irq", "softirq", "other", "idle")


@pytest.mark.root
@pytest.mark.alone
def test_classes_of_a_real_trial_sum_to_the_whole(tmp_path: Path) -> None:
    asked = experiment(
        "netns", factors=(Factor("size", (1024, 65536)),), windows=Windows(200 * MS, 1_000 * MS, 50 * MS, 250 * MS)
    )  # fmt: skip
    asked = replace(asked, design=DesignSpec(replicates=1, seed=1))
    summary = analyse(read_dataset(asyncio.run(run(asked, tmp_path)).folder))
    if summary.accounting.tier != "bpf":
        pytest.skip(f"no exact classes on this machine: {summary.accounting.why}")
    for point in summary.points:
        for host in ("client", "server"):
            share = {kind: point.outcomes[f"{host}.cpu_{kind}_ratio"].estimate for kind in KINDS}
            # The issue's own bound: classes sum to wall time within 0.1 %.
            assert sum(value or 0.0 for value in share.values()) == pytest.approx(1, abs=1e-3)
            # The sender writes, so that its tasks are in system code; packets come in, so that NET_RX runs.
            assert (share["sys"] or 0) > (share["usr"] or 0) >= 0
            assert (point.outcomes[f"{host}.cpu_softirq_ratio"].estimate or 0) > 0
            assert "tier bpf" in point.outcomes[f"{host}.cpu_ns_per_kib"].method
            assert (point.outcomes[f"{host}.cpu_sys_ns_per_kib"].estimate or 0) > 0
        taken = [point.outcomes[f"{host}.observer_cost_ratio"].estimate or 0 for host in ("client", "server")]
        whole = point.outcomes["observer_cost_ratio"].estimate or 0
        # The larger of the two, trial by trial, is at least the larger of their means.
        assert whole >= max(taken) * (1 - 1e-9) > 0
    assert not [warning for warning in summary.warnings if str(warning.code) == "split_unreliable"]
