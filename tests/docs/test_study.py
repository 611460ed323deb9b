"""What `make study` promises, on the study as it ships but with shorter windows and fewer connections."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import command_server
import pytest

ROOT = Path(__file__).parents[2]


def iodyno(*arguments: str | Path, cwd: Path) -> str:
    ran = subprocess.run(
        [*command_server.iodyno(), *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
        stdin=subprocess.DEVNULL,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def shortened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = (ROOT / "studies" / "tcp-transmit.yaml").read_text(encoding="utf-8")
    full, quick = text.split("\nquick:\n")
    full = full.replace("replicates: 3", "replicates: 2")
    for written, shorter in (
        ("connections: [1, 4, 32, 1000, 4000]", "connections: [1, 100]"),
        (
            "{warm_up: 250ms, measured: 700ms, drain: 100ms, interval: 100ms}",
            "{warm_up: 50ms, measured: 300ms, drain: 50ms, interval: 100ms}",
        ),
    ):
        assert written in quick
        quick = quick.replace(written, shorter)
    study = tmp_path_factory.mktemp("study") / "tcp-transmit.yaml"
    study.write_text(f"{full}\nquick:\n{quick}", encoding="utf-8")
    return study


@pytest.fixture(scope="module")
def campaign(shortened: Path) -> Path:
    said = iodyno("run", shortened.name, "--quick", cwd=shortened.parent)
    return shortened.parent / said.splitlines()[-1]


def test_make_study_runs_the_quick_form_and_names_the_command() -> None:
    plan = subprocess.run(["make", "-n", "study"], cwd=ROOT, capture_output=True, text=True, check=True)
    # Under another make, as in `make test`, it also says which folder it enters and leaves.
    commands = [line for line in plan.stdout.splitlines() if not line.startswith("make[")]
    assert commands[-2].endswith("iodyno run studies/tcp-transmit.yaml --quick")
    assert commands[-1].startswith('echo "iodyno: command: .venv/bin/iodyno;')


def test_the_last_line_names_the_campaign_and_the_report_lies_in_it(campaign: Path) -> None:
    assert "<svg" in (campaign / "report.html").read_text(encoding="utf-8")


def test_the_tables_have_the_columns_of_the_source(campaign: Path) -> None:
    shown = iodyno("report", campaign, cwd=campaign.parent)
    for column in ("#conn", "Wnd", "(usr/sys/intr/idle)", "cycles/Kbyte", "Throughput"):
        assert column in shown
    assert [line for line in shown.splitlines() if "message size = " in line] == [
        f"TCP transmit, message size = {size}" for size in ("64KiB", "8KiB", "1KiB")
    ]


def test_the_outcomes_are_there_as_json(campaign: Path) -> None:
    found: dict[str, Any] = json.loads(iodyno("report", campaign, "--json", cwd=campaign.parent))
    assert len(found["points"]) == 12
    for point in found["points"]:
        assert set(point["levels"]) == {"connections", "window", "size"}
        assert point["outcomes"]["goodput_bits_per_s"]["n"] == 2
        for name in ("goodput_bits_per_s", "client.cpu_ns_per_kib", "server.cycles_per_kib"):
            outcome = point["outcomes"][name]
            assert outcome["unit"]
            # A busy machine may have left nothing to tell the load's cost from in a trial.
            if outcome["n"] > 1:
                assert outcome["low"] <= outcome["estimate"] <= outcome["high"]
            else:
                assert outcome["estimate"] is not None or outcome["missing"]
        assert point["outcomes"]["goodput_bits_per_s"]["estimate"] > 0
        assert isinstance(point["warnings"], list)
    # What is true of every run is no warning: nothing is mounted by NFS, and no hardware counter is there.
    assert os.geteuid() != 0 or "no sensor." not in json.dumps(found)


def test_a_finished_campaign_is_resumed_without_running_anything(shortened: Path, campaign: Path) -> None:
    before = sorted(path.name for path in (campaign / "trials").iterdir())
    said = iodyno("run", shortened.name, "--resume", campaign, cwd=shortened.parent)
    assert said.splitlines()[-1] == str(campaign)
    assert sorted(path.name for path in (campaign / "trials").iterdir()) == before
