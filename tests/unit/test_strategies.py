"""One protocol for all that decides what runs next: a strategy of one's own, and a campaign that is taken up again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from places import PROGRAM, Notes, Stopped, experiment

from iodyno import designs
from iodyno.campaign.folder import new_folder
from iodyno.campaign.ledger import manifests
from iodyno.campaign.runner import CampaignOutcome, run_campaign
from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.core.design import Point
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import HostSpec
from iodyno.strategies.base import outcome


class Doubling(Strategy):
    """Doubles the connections until that brings less than a tenth more."""

    def __init__(self) -> None:
        self.rates: list[float] = []

    def ask(self) -> list[Point]:
        if len(self.rates) > 1 and self.rates[-1] < 1.1 * self.rates[-2]:
            return []
        connections = 2 ** len(self.rates)
        return [Point(f"c{connections}", {"connections": connections})]

    def tell(self, trial: TrialResult) -> None:
        self.rates.append(outcome(trial, "goodput_bits_per_s") or 0.0)

    def answer(self) -> Answer:
        return Answer("doubling", {"enough": 2 ** max(0, len(self.rates) - 2)})


class Asking(Strategy):
    """Asks for the same points for ever."""

    def __init__(self, *points: Point) -> None:
        self._points = points

    def ask(self) -> tuple[Point, ...]:
        return self._points


def run(
    into: Path, strategy: Strategy, notes: Notes | None = None, resume: Path | None = None
) -> CampaignOutcome:
    """Each connection carries 1 Gbit/s, until 4 Gbit/s are reached."""
    truth = {"connection_bits_per_s": 1e9, "goodput_bits_per_s": 4e9, "noise_between_trials": 0.01}
    hosts = {name: HostSpec(name, "simulated", {"truth": truth}) for name in ("client", "server")}
    asked = experiment(hosts=hosts, factors=())
    design = designs.plan(asked)
    folder = resume or new_folder(into, asked.name)
    going = run_campaign(
        asked,
        design,
        folder,
        [strategy],
        resume=resume is not None,
        watcher=notes or Notes(),
        program=PROGRAM,
    )
    return asyncio.run(going)


def visited(folder: Path) -> list[tuple[int, str]]:
    return [(manifest["order"], manifest["point"]) for manifest in manifests(folder)]


def test_a_strategy_of_ones_own_runs(tmp_path: Path) -> None:
    done = run(tmp_path, Doubling())
    assert [point for _, point in visited(done.folder)] == ["c1", "c2", "c4", "c8"]
    assert done.complete and done.finished == 4 and done.answers["doubling"].content == {"enough": 4}
    assert json.loads((done.folder / "campaign.json").read_text())["doubling"] == {"enough": 4}


def test_what_is_stored_answers_before_anything_runs_again(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        run(tmp_path, Doubling(), Stopped(20))
    (folder,) = tmp_path.iterdir()
    begun = visited(folder)
    assert 0 < len(begun) < 4
    notes = Notes()
    run(tmp_path, Doubling(), notes, resume=folder)
    assert [point for _, point in visited(folder)] == ["c1", "c2", "c4", "c8"]
    assert len(notes.manifests) == 4 - len(begun)
    # Nothing is left to ask for, so that no host is opened.
    notes = Notes()
    again = run(tmp_path, Doubling(), notes, resume=folder)
    assert again.finished == 4 and again.answers["doubling"].content == {"enough": 4} and not notes.stages


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ([{"connections": 1}, {"connections": 2}], "two points of the name p"),
        ([{"conections": 1}], "unknown parameter 'conections', which a strategy asks for at p: expected"),
        ([{"path": "relay"}], "asks for path relay at p, which no point of the design has"),
    ],
)
def test_what_cannot_be_run_is_one_error(
    points: list[dict[str, int | str]], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ExperimentError, match=said):
        run(tmp_path, Asking(*(Point("p", levels) for levels in points)))
