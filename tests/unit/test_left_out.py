"""One host of many that cannot be had: it is named, and costs its own numbers alone."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import Notes, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign.left_out import may_go, without
from iodyno.core.errors import AccessError
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import WarningCode
from iodyno.formats.experiment_file import parse_experiment
from iodyno.hosts.access import AgentStreams
from iodyno.session.simulated import SimulatedAccess

FILE = """
name: many
hosts: {client: {access: simulated, count: 10}, server: {access: simulated}}
workload: {kind: stream, sender: client, receiver: server, connections: 2}
factors: {size: [16KiB]}
design: {replicates: 3}
windows: {warm_up: 0s, measured: 200ms, drain: 0s, interval: 100ms}
limits: {background_window: 100ms, background: 100%}
outcomes: [goodput_bits_per_s, client-7.goodput_bits_per_s, client.cpu_ns_per_kib]
profile: off
"""


def experiment(outcomes: str = "goodput_bits_per_s, client.cpu_ns_per_kib") -> Experiment:
    begin, _, end = FILE.partition("goodput_bits_per_s, client-7.goodput_bits_per_s, client.cpu_ns_per_kib")
    return parse_experiment(f"{begin}{outcomes}{end}", environment={})


class _Dies(Notes):
    """Kills the agent of client-7 at a record of a trial, and lets none start there any more."""

    def __init__(self, at_trial: int, started: dict[str, AgentStreams]) -> None:
        super().__init__()
        self.trials = 0
        self.dead = at_trial == 0
        self._at, self._started = at_trial, started

    def on_trial_start(self, planned: object, attempt: int) -> None:
        self.trials += 1

    def on_progress(self, host: str, progress: object) -> None:
        super().on_progress(host, progress)
        if self.trials == self._at and not self.dead:
            self.dead = True
            self._started["client-7"].process.kill()


@pytest.mark.parametrize("at_trial", [0, 2])
def test_a_campaign_goes_on_without_one_of_ten(
    at_trial: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: dict[str, AgentStreams] = {}
    notes = _Dies(at_trial, started)
    usual = SimulatedAccess.start

    async def start(access: SimulatedAccess, *words: Any) -> AgentStreams:
        if notes.dead and access.name == "client-7":
            raise AccessError("no route to host", where="host client-7 (ssh web07)")
        started[access.name] = await usual(access, *words)
        return started[access.name]

    monkeypatch.setattr(SimulatedAccess, "start", start)
    monkeypatch.setattr("iodyno.campaign.testbed.REACH_AGAIN_S", 0.0)
    outcome = asyncio.run(run(experiment(), tmp_path, notes=notes))
    assert outcome.complete and outcome.finished == 3 and not outcome.failed
    (warning,) = [each for each in notes.warnings if each.code == WarningCode.HOST_LEFT_OUT]
    assert warning.where == "host client-7 (ssh web07)" and "no route to host" in warning.text
    summary = analyse(read_dataset(outcome.folder))
    assert WarningCode.HOST_LEFT_OUT in {each.code for each in summary.warnings}
    of = summary.points[0].outcomes
    assert of["goodput_bits_per_s"].estimate and of["client.cpu_ns_per_kib"].estimate
    took_part = ["client-7" in trial.hosts for trial in read_dataset(outcome.folder).trials]
    assert (took_part[0], *took_part[-2:]) == (bool(at_trial), False, False)


def test_what_was_asked_is_not_had_without_too_many_or_one_that_is_named() -> None:
    asked = experiment()
    assert may_go(asked, ["client-7"]) and not may_go(asked, ["client-7", "client-8"])
    assert not may_go(asked, ["server"])
    assert not may_go(experiment("client-7.goodput_bits_per_s"), ["client-7"])
    assert not may_go(replace(asked, tunables={"all.gro": True}), ["client-7"])
    assert may_go(replace(asked, tunables={"client.tcp_sack": True}), ["client-7"])
    assert not may_go(replace(asked, workload=replace(asked.workload, between="pairs")), ["client-7"])
    left = without(asked, ["client-7"])
    assert len(left.hosts) == 10 and len(left.workload.links) == 9 and "client-7" not in left.workload.senders
