"""Campaigns with more rows than are held, and with more trials than a page shows: the same numbers, a bounded page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis import held_rows, operation_times, trial_views
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import shown_trials
from iodyno.cli.main import iodyno
from iodyno.report.json import as_json


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two points of five trials each."""
    return make_campaign(
        tmp_path_factory.mktemp("large") / "c",
        [({"connections": count, "size": 65536}, Truth(times_spread=0.7)) for count in (4, 8)],
        factors=[{"name": "connections", "levels": [4, 8], "together": {}}],
        layout=Layout(replicates=5, intervals=4),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_rows_that_come_and_go_give_the_same_numbers(
    made: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    whole = as_json(analyse(read_dataset(made)))
    monkeypatch.setattr(held_rows, "ROWS_HELD", 1000)
    monkeypatch.setattr("iodyno.analysis.dataset.can_share", lambda: shared)
    dataset = read_dataset(made)
    assert as_json(analyse(dataset)) == whole
    held = [trial.name for trial in dataset.trials if "records" in vars(trial.hosts["client"])]
    assert 1 <= len(held) < len(dataset.trials) == 10


def test_rows_that_are_gone_are_read_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read_dataset(made)
    monkeypatch.setattr(held_rows, "ROWS_HELD", 1)
    for trial, same in [*zip(read_dataset(made).trials, whole.trials, strict=True)] * 2:
        for name, host in trial.hosts.items():
            assert host.records == same.hosts[name].records
            assert host.readings == same.hosts[name].readings


def test_a_page_of_many_trials_shows_the_median_trial_of_each_point(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = analyse(read_dataset(made))
    assert len(shown_trials(summary)) == 10
    monkeypatch.setattr(trial_views, "TRIALS_MOST", 9)
    chosen = shown_trials(summary)
    for name, point in zip(chosen, summary.points, strict=True):
        rates = {
            t.name: t.outcomes["goodput_bits_per_s"] or 0.0 for t in summary.trials if t.point == point.id
        }
        assert sorted(rates.values())[2] == rates[name]
    page = tmp_path / "page.html"
    assert CliRunner().invoke(iodyno, ["report", str(made), "--html", str(page)]).exit_code == 0
    text = page.read_text()
    assert shown(text) == sorted(chosen)
    assert "Shown are 2 of 10 finished trials, the median trial by rate of each point" in text
    # The numbers of all are in it.
    told = json.loads(CliRunner().invoke(iodyno, ["report", str(made), "--json"]).stdout)
    assert len(told["trials"]) == 10
    assert all(point["finished"] == 5 for point in told["points"])


def shown(page: str) -> list[str]:
    """The trials that a page has panels of."""
    return re.findall(r'<details id="?trial-([0-9-]+)', page)


def test_any_trial_can_be_shown(made: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    asked = ["report", str(made), "--html", str(page), "--trials"]
    assert CliRunner().invoke(iodyno, [*asked, "00003-1, 00008-1"]).exit_code == 0
    assert shown(page.read_text()) == ["00003-1", "00008-1"]
    assert CliRunner().invoke(iodyno, [*asked, "all"]).exit_code == 0
    assert len(shown(page.read_text())) == 10


def test_a_trial_that_is_not_there_is_named(made: Path) -> None:
    done = CliRunner().invoke(iodyno, ["report", str(made), "--trials", "00003-1,00044-1"])
    assert done.exit_code != 0
    assert "unknown trial '00044-1': finished trials are 00000-1, 00001-1, 00002-1, 00003-1 ..." in str(
        done.exception
    )


def test_a_heat_map_of_trials_that_come_and_go_is_the_same(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> dict[str, object]:
        asked = ["heatmap", str(made), "--point", "p01", "--operation", "write", "--json"]
        found: dict[str, object] = json.loads(CliRunner().invoke(iodyno, asked).stdout)
        del found["seconds"]  # that it took
        return found

    whole = drawn()
    monkeypatch.setattr(held_rows, "ROWS_HELD", 1)
    monkeypatch.setattr(operation_times, "_HELD_MOST", 2)
    assert drawn() == whole
