"""What is said of recorded campaigns, one of each load and of each strategy: the contract of every restructuring.

`campaigns/NAME/stored` is a campaign as a lab left it, `damaged` with a part that is cut off, `killed` by SIGKILL in its fourth
trial; `search` is of before there were several goals, and its file is no longer read. Beside it lies what `check`, `plan` and
`report` say of it, and in `forms/` what other commands answer, in each form. `IODYNO_UPDATE=1` writes that anew, never the
campaign.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.cli import form
from iodyno.cli.main import run
from iodyno.report.form import FORMS, Form, Shown, written
from iodyno.report.headline import point_shown
from iodyno.report.search import search_shown
from iodyno.store.manifest import read_json

CAMPAIGNS = Path(__file__).parent / "campaigns"
NAMES = sorted(place.name for place in CAMPAIGNS.iterdir())
LOADS_AND_STRATEGIES = {
    *("stream", "request", "connect", "clients", "script", "disk", "files"),
    *("fixed", "until", "search", "goals", "prove", "explore", "noise"),
    *("damaged", "killed"),
}
SAID = {
    "check.txt": ("check", "{}/experiment.yaml"),
    "plan.txt": ("plan", "{}/experiment.yaml", "-v"),
    "report.txt": ("report", "{}"),
    "report.json": ("report", "{}", "--json"),
    "report.csv": ("report", "{}", "--format", "csv"),
}
_DIGITS = re.compile(r"-?\d+\.\d{4,}(?:e[-+]?\d+)?|-?\d+(?:\.\d+)?e[-+]?\d+")


@pytest.fixture
def stored(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The campaign in a folder that it may change, which is the current one. No page is made: it takes most of the time."""
    monkeypatch.setattr("iodyno.report.html.write_dataset", lambda *of, **how: Path("report.html"))
    shutil.copytree(CAMPAIGNS / request.param, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "stored"


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command says, and how it ends where that is not well."""
    capsys.readouterr()
    code = run(words)
    shown = capsys.readouterr()
    errors = "".join(f"stderr: {line}\n" for line in shown.err.splitlines())
    return shown.out.replace("\r\n", "\n") + errors + (f"exit code {code}\n" if code else "")


def six_digits(text: str) -> str:
    """Numbers to six digits: the last ones of a matrix product follow the instructions that a CPU has for it."""
    return _DIGITS.sub(lambda number: f"{float(number[0]):.6g}", text)


def keep(path: Path, text: str) -> None:
    if os.environ.get("IODYNO_UPDATE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; IODYNO_UPDATE=1 writes it anew"


def test_there_is_a_campaign_of_each_load_and_strategy() -> None:
    assert set(NAMES) == LOADS_AND_STRATEGIES


@pytest.mark.parametrize("stored", NAMES, indirect=True)
def test_what_is_said_of_a_campaign(
    stored: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    name = request.node.callspec.params["stored"]
    for campaign in sorted(
        place.parent.relative_to(stored.parent) for place in stored.rglob("campaign.json")
    ):
        stage = "" if campaign.name == "stored" else f"{campaign.name}-"
        for kind, words in SAID.items():
            said = command(capsys, *(word.format(campaign) for word in words))
            keep(CAMPAIGNS / name / f"{stage}{kind}", six_digits(said))


def trials(folder: Path) -> list[Mapping[str, Any]]:
    """What was run, in order: all that a strategy decides of a trial, and how its last attempt ended."""
    kept = ("order", "block", "replicate", "point", "levels", "perturbation", "purpose", "status")
    manifests = [read_json(place) for place in sorted(folder.rglob("trials/*/manifest.json"))]
    last = {(place["purpose"], place["trial"][:-2], str(place["levels"])): place for place in manifests}
    return [{key: told[key] for key in kept} for told in last.values()]


ASKED = {
    "fixed": ("run", "stored/experiment.yaml"),
    "until": ("run", "stored/experiment.yaml", "--max-trials", "16"),
    "goals": ("run", "stored/experiment.yaml"),
    "prove": ("run", "stored/experiment.yaml"),
    "noise": ("noise", "whole.yaml", "--blocks", "2", "--restarts", "2", "--trials", "2"),
    "explore": ("explore", "whole.yaml"),
}
"""The commands that made the campaigns of simulated hosts, which measure the same whenever they run."""


@pytest.mark.parametrize("stored", ASKED, indirect=True)
def test_a_strategy_asks_for_the_trials_that_it_asked_for(
    stored: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Anew, and taken up again at its end, where there is nothing more to ask for."""
    name = request.node.callspec.params["stored"]
    if name == "explore":
        Path("whole.yaml").write_text(json.loads((stored / "exploration.json").read_text())["text"])
    elif name == "noise":
        shutil.copy(stored / "experiment.yaml", "whole.yaml")
    said = command(capsys, *ASKED[name], "--into", "again", "--json", "--yes")
    assert "exit code" not in said
    (again,) = Path("again").iterdir()
    assert trials(again) == trials(stored)
    assert "exit code" not in command(capsys, *ASKED[name], "--resume", "stored", "--json", "--yes")
    assert trials(stored) == trials(again)


@pytest.mark.parametrize("stored", ["killed", "damaged"], indirect=True)
def test_what_is_missing_is_made_up_for(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = {place.name for place in stored.glob("trials/[0-9]*")}
    said = command(capsys, "run", "stored/experiment.yaml", "--resume", "stored", "--json")
    assert "exit code" not in said
    planned = json.loads((stored / "campaign.json").read_text())["design"]["trials"]
    assert [trial["order"] for trial in trials(stored)] == [trial["order"] for trial in planned]
    assert {place.name for place in stored.glob("trials/[0-9]*")} >= left - {"00002-1"}


FORMS_OF = Path(__file__).parent / "forms"
ANSWERS = {
    "compare-campaigns": ("compare", "fixed", "killed"),
    "compare-levels": ("compare", "fixed", "--levels", "size=1KiB/size=64KiB"),
    "compare-points": ("compare", "fixed", "--points", "p01", "p02"),
    "compare-history": ("compare", "fixed", "killed", "until"),
    "noise": ("noise", "noise"),
    "explore": ("explore", "whole.yaml", "--resume", "explore", "--yes"),
    "model-cost": ("model", "cost", "fixed", "--ratio", "size=64KiB/1KiB"),
    "model-fit": ("model", "fit", "--csv", "threads.csv", "--at", "24"),
    "model-queue": ("model", "queue", "M/M/8", "--service", "127us", "--utilisation", ".6,.8"),
    "model-network": ("model", "network", "network.yaml"),
    "model-simulated": (
        "model",
        "queue",
        "M/M/1",
        "--service",
        "1ms",
        "--utilisation",
        ".5",
        "--simulate",
        "--precision",
        "9%",
    ),
    "report": ("report", "disk"),
    "plan": ("plan", "fixed/experiment.yaml"),
    "check": ("check", "fixed/experiment.yaml"),
}
"""Each with the campaigns of that name, as `golden/campaigns` has them."""
LONG = {"report", "compare-points"}
"""Those of which JSON and CSV are not kept: they say no more than what lies beside the campaigns."""
THREADS = "threads,packets_per_s\n1,1180\n2,2300\n4,4400\n8,8100\n16,13200\n32,17800\n"
NETWORK = """
classes: {browse: {population: 12, think: 2s}}
stations: {web: {servers: 4, discipline: ps}, disk: {}}
demands: {browse: {web: 5ms, disk: {visits: 3, service: 9ms}}}
"""


def every_form(shown: Shown, _form: Form = "text", width: int | None = None) -> str:
    return "".join(f"== {each}\n{written(shown, each, width)}" for each in FORMS)  # type: ignore[arg-type]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The campaigns in the current folder, and a command that prints every form of what it shows."""
    monkeypatch.setattr(form, "written", every_form)
    # No page is made: it takes most of the time.
    monkeypatch.setattr("iodyno.report.html.write_dataset", lambda *of, **how: Path("report.html"))
    for place in CAMPAIGNS.iterdir():
        shutil.copytree(place / "stored", tmp_path / place.name)
    (tmp_path / "whole.yaml").write_text(
        json.loads((tmp_path / "explore/exploration.json").read_text())["text"]
    )
    (tmp_path / "threads.csv").write_text(THREADS)
    (tmp_path / "network.yaml").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_commands_answer(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in ANSWERS.items():
        said = six_digits(command(capsys, *words))
        if name in LONG:
            for each in ("json", "csv"):
                head, _, rest = said.partition(f"== {each}\n")
                said = head + rest[rest.index("== ") :]
        keep(FORMS_OF / f"{name}.txt", said)


def shown_of(campaign: str, make: Callable[..., Shown], *arguments: object) -> str:
    return every_form(make(analyse(read_dataset(campaign)), campaign, *arguments))


def test_what_is_answered_right_now(recorded: Path) -> None:
    """Of campaigns that `tcp`, `rr`, `disk` and `search` end with, or that are like them."""
    for campaign in ("stream", "request", "disk", "prove"):
        keep(FORMS_OF / f"now-{campaign}.txt", six_digits(shown_of(campaign, point_shown, {})))
    keep(FORMS_OF / "search.txt", six_digits(shown_of("goals", search_shown)))


def test_no_answer_is_longer_than_ten_lines_and_all_of_it_is_behind_v(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(form, "written", written)

    def lines(texts: Iterable[str]) -> list[str]:
        return [line for line in texts if not line.startswith("stderr: ")]

    for name in ("compare-campaigns", "compare-points", "noise", "explore", "model-fit"):
        answer = lines(command(capsys, *ANSWERS[name]).splitlines())
        whole = lines(command(capsys, *ANSWERS[name], "-v").splitlines())
        assert len(answer) <= 10 < len(whole) and whole[0] == answer[0], name
