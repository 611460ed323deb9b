"""Pairs of machines as blocks: who runs where, what an experiment file says of it, and what is left when a pair is dead."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from places import Notes, run
from scipy import stats

from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.placement import Row, take_apart
from iodyno.analysis.results import CampaignSummary
from iodyno.analysis.summary import analyse
from iodyno.cli.hosts import command as hosts_command
from iodyno.core.errors import AccessError
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import parse_experiment
from iodyno.hosts.access import AgentStreams
from iodyno.report.json import campaign as campaign_json
from iodyno.report.terminal import report_blocks
from iodyno.session.simulated import SimulatedAccess

SLOW = "  slow: {access: simulated, count: 2, truth: {goodput_bits_per_s: 4e9, tsc_hz: 4000000000}}\n"
FILE = """
name: placed
hosts:
  workers: {access: simulated, count: 6}
  slow: {access: simulated, count: 2, truth: {goodput_bits_per_s: 4e9, tsc_hz: 4000000000}}
workload: {kind: stream, sender: client, receiver: server}
placement: {pairs: 4, of: [workers, slow], as: block}
factors: {connections: [1, 2]}
design: {replicates: 4}
windows: {warm_up: 0s, measured: 100ms, drain: 0s, interval: 50ms}
limits: {background_window: 100ms, background: 100%}
outcomes: [goodput_bits_per_s, client.cpu_ns_per_kib]
profile: off
"""
PAIRS = ("workers-1+workers-2", "workers-3+workers-4", "workers-5+workers-6", "slow-1+slow-2")


def experiment(*changes: tuple[str, str]) -> Experiment:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_experiment(text, environment={})


def counted(asked: Experiment) -> Counter[tuple[str, str | None]]:
    return Counter((trial.point.id, trial.pair) for trial in designs.plan(asked).trials)


def test_every_point_visits_every_pair_as_often_and_every_replicate_too() -> None:
    asked = experiment(("[1, 2]", "[1, 2, 4, 8]"), ("replicates: 4", "replicates: 8"))
    trials = designs.plan(asked).trials
    assert set(counted(asked).values()) == {2} and len(counted(asked)) == 16
    assert set(Counter((trial.replicate, trial.pair) for trial in trials).values()) == {1}
    assert trials == designs.plan(asked).trials
    other = replace(asked, design=replace(asked.design, seed=2))
    assert [trial.pair for trial in trials] != [trial.pair for trial in designs.plan(other).trials]
    # The order is that of the design without pairs.
    alone = designs.plan(replace(asked, placement=())).trials
    assert alone == tuple(replace(trial, pair=None) for trial in trials)


def test_with_fewer_replicates_than_pairs_points_share_pairs_evenly() -> None:
    asked = experiment(("[1, 2]", "[1, 2, 3, 4, 5, 6, 7, 8]"), ("replicates: 4", "replicates: 2"))
    found = counted(asked)
    assert set(found.values()) == {1}
    assert set(Counter(pair for _, pair in found).values()) == {4}


def test_the_workload_names_places_and_an_access_still_goes_to_the_machine() -> None:
    text = FILE.replace("access: simulated, count: 6", "access: podman, count: 6, user: 'u-{n}'")
    asked = parse_experiment(text, environment={})
    assert list(asked.hosts) == ["client", "server"] and asked.workload.ends == ("client", "server")
    assert [pair.name for pair in asked.placement] == list(PAIRS)
    of_second = asked.placement[1].hosts["server"].options
    assert of_second == {"container": "workers-4", "user": "u-4"}


def test_the_machines_of_all_pairs_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "placed.yaml").write_text(FILE)
    found = CliRunner().invoke(hosts_command, [str(tmp_path / "placed.yaml"), "--format", "json"])
    assert found.exit_code == 0, found.output
    names = [host["name"] for host in json.loads(found.stdout)["hosts"]]
    assert names == [name for pair in PAIRS for name in pair.split("+")]


def test_a_balanced_design_is_taken_apart_as_the_textbook_does() -> None:
    """Randomised complete blocks (Montgomery, chapter 4): mean squares, the ratio's exact interval, differences of points."""
    source = np.random.default_rng(3)
    logs = np.array([[0.0], [0.3], [0.5]]) + source.normal(0, 0.2, 5) + source.normal(0, 0.05, (3, 5))
    rows = [
        Row(f"p{at}", f"m{pair}", math.exp(value))
        for at, line in enumerate(logs)
        for pair, value in enumerate(line)
    ]
    found = take_apart("x", rows, [("size", 2, 1, {"p1": 1.0, "p0": -1.0})])
    points, pairs, mean = logs.mean(axis=1, keepdims=True), logs.mean(axis=0, keepdims=True), logs.mean()
    error = float(((logs - points - pairs + mean) ** 2).sum()) / 8
    between = 3 * float(pairs.var(ddof=1))
    assert found.machine and found.rest and found.setting and found.ratio and found.df == 8
    assert found.rest.sd**2 == pytest.approx(error)
    assert found.machine.sd**2 == pytest.approx((between - error) / 3, rel=1e-4)
    assert found.setting.sd**2 == pytest.approx(float(points.var(ddof=1)) - error / 5)
    f = between / error
    bounds = [(f / stats.f.ppf(share, 4, 8) - 1) / 3 for share in (0.975, 0.025)]
    assert found.ratio[1:] == pytest.approx(bounds, rel=1e-6)
    assert found.p_machine == pytest.approx(stats.f.sf(f, 4, 8), rel=1e-6)
    (effect,) = found.effects
    half = stats.t.ppf(0.975, 8) * math.sqrt(2 * error / 5)
    step = float((points[1] - points[0])[0])
    assert [math.log1p(x) for x in (effect.low, effect.change, effect.high)] == pytest.approx(
        [step - half, step, step + half]
    )


def test_what_cannot_be_told_is_not_told() -> None:
    apart = [Row("a", "1", 1.0), Row("a", "1", 1.1), Row("b", "2", 2.0), Row("b", "2", 2.1)]
    assert take_apart("x", apart).missing == "its trials do not tell the machine from the setting"
    assert take_apart("x", apart[:2]).missing == "fewer than two pairs have a trial with it"
    assert (
        take_apart("x", [replace(row, value=3.0) for row in apart]).missing == "it is the same in all trials"
    )
    # Counts that are 0 now and then have no logarithm.
    zeros = [Row(p, m, float(v)) for p, m, v in (("a", "1", 0), ("b", "1", 2), ("a", "2", 1), ("b", "2", 4))]
    assert take_apart("x", zeros).scale == "mean"


def summary_of(folder: Path) -> CampaignSummary:
    return analyse(read_dataset(folder))


def test_a_report_names_the_machine_and_the_pair_that_is_out_of_line(tmp_path: Path) -> None:
    asked = experiment()
    outcome = asyncio.run(run(asked, tmp_path))
    assert outcome.complete and outcome.finished == 8
    plan = {trial.order: trial.pair for trial in designs.plan(asked).trials}
    header = json.loads((outcome.folder / "campaign.json").read_text())
    assert {each["order"]: each["pair"] for each in header["design"]["trials"]} == plan
    manifests = [json.loads(path.read_text()) for path in (outcome.folder / "trials").glob("*/manifest.json")]
    assert {each["order"]: each["pair"] for each in manifests} == plan
    assert set(header["pairs"]) == set(PAIRS) and set(header["pairs"][PAIRS[3]]) == {"client", "server"}
    summary = summary_of(outcome.folder)
    told = campaign_json(summary)["placement"]["goodput_bits_per_s"]
    assert told["out_of_line"] == [PAIRS[3]] and told["machine"]["share"] > 0.9 and told["ratio"][1] > 0
    slow = next(pair for pair in told["pairs"] if pair["name"] == PAIRS[3])
    assert slow["low"] < -0.5 < slow["high"] and slow["change"] == pytest.approx(-0.5, abs=0.06)
    text = "\n".join(str(block) for block in report_blocks(summary))
    assert "Goodput: mostly the machine." in text and f"{PAIRS[3]} is out of line, 5" in text
    assert "Setting, within pairs" in text
    # Nothing of the simulated cost is the machine's, whose clock is twice as fast.
    of_trials = {trial.pair: trial.outcomes for trial in summary.trials}
    rates = {
        pair: (its["client.cycles_per_kib"] or 0) / (its["client.cpu_ns_per_kib"] or 1)
        for pair, its in of_trials.items()
    }
    assert rates[PAIRS[0]] == pytest.approx(2) and rates[PAIRS[3]] == pytest.approx(4)
    assert not campaign_json(summary)["placement"]["client.cpu_ns_per_kib"]["out_of_line"]


class _Dies(Notes):
    """Kills the agent at the first end of a pair at the record of its first trial, and lets none start there any more."""

    def __init__(self, place: int | None) -> None:
        super().__init__()
        self.place = place
        self.accesses: list[SimulatedAccess] = []
        self.started: dict[SimulatedAccess, AgentStreams] = {}
        self.dead: SimulatedAccess | None = None
        self.now = False

    def on_trial_start(self, planned: Any, attempt: int) -> None:
        self.now = self.place is not None and planned.pair == PAIRS[self.place]

    def on_progress(self, host: str, progress: object) -> None:
        super().on_progress(host, progress)
        if self.now and self.dead is None and self.place is not None:
            self.dead = self.accesses[self.place]
            self.started[self.dead].process.kill()

    def watch(self, monkeypatch: pytest.MonkeyPatch, dead_from_begin: int | None = None) -> None:
        usual = SimulatedAccess.start

        async def start(access: SimulatedAccess, *words: Any) -> AgentStreams:
            if access.name == "client" and access not in self.accesses:
                self.accesses.append(access)
            if access is self.dead or (
                dead_from_begin is not None
                and access in self.accesses
                and self.accesses.index(access) == dead_from_begin
            ):
                raise AccessError("no route to host", where="host client")
            self.started[access] = await usual(access, *words)
            return self.started[access]

        monkeypatch.setattr(SimulatedAccess, "start", start)
        monkeypatch.setattr("iodyno.campaign.testbed.REACH_AGAIN_S", 0.0)


@pytest.mark.parametrize("from_begin", [True, False])
def test_a_pair_that_is_dead_is_named_and_costs_its_own_trials(
    from_begin: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = _Dies(None if from_begin else 1)
    notes.watch(monkeypatch, 1 if from_begin else None)
    outcome = asyncio.run(run(experiment(), tmp_path, notes=notes))
    (warning,) = [each for each in notes.warnings if each.code == WarningCode.HOST_LEFT_OUT]
    assert warning.where == f"pair {PAIRS[1]}" and "no route to host" in warning.text
    assert outcome.finished == 6 and len(outcome.skipped) + len(outcome.failed) == 2
    summary = summary_of(outcome.folder)
    assert WarningCode.HOST_LEFT_OUT in {each.code for each in summary.warnings}
    rate = summary.placement[0]
    assert rate.missing is None and {pair.name for pair in rate.pairs} == set(PAIRS) - {PAIRS[1]}


def test_with_one_pair_left_there_is_no_placement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = _Dies(None)
    notes.watch(monkeypatch, 1)
    two = experiment(
        ("of: [workers, slow]", "of: workers"), ("pairs: 4", "pairs: 2"), ("count: 6", "count: 4"), (SLOW, "")
    )
    with pytest.raises(AccessError, match="no route to host"):
        asyncio.run(run(two, tmp_path, notes=notes))
