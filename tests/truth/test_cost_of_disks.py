"""The cost model of a campaign on disks: its shares are asked for as people write them, and its equation is that of the truth."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from places import PROGRAM
from places import run as run_campaign

from iodyno.cli.main import run
from iodyno.formats.experiment_file import experiment_text, parse_experiment

CPU_NS = 6000
"""Of an operation, whatever it is."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read share and block size at two levels each, three times."""
    truth = {
        "disk_read_ns": 80_000,
        "disk_write_ns": 40_000,
        "disk_iops": 20_000,
        "disk_cpu_ns": CPU_NS,
        "seed": 7,
    }
    keys = {
        "name": "disks",
        "hosts": {"client": {"access": "simulated", "truth": truth}},
        "workload": {
            "kind": "disk", "on": "client", "target": "/data/file", "working_set": "1GiB", "interface": "io_uring",
            "depth": 4,
        },
        "factors": {"read": ["0%", "100%"], "block": ["4KiB", "8KiB"]},
        "windows": {"warm_up": "100ms", "measured": "1s", "drain": "0s", "interval": "100ms"},
        "limits": {"background_window": "100ms"},
        "outcomes": ["client.cpu_us_per_io"],
    }  # fmt: skip
    experiment = parse_experiment(experiment_text(keys), environment={})
    outcome = asyncio.run(run_campaign(experiment, tmp_path_factory.mktemp("disks"), program=PROGRAM))
    assert not outcome.failed
    return outcome.folder


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["model", "cost", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("written", ["50%", "50 %", "50 percent", "50 per cent"])
def test_a_share_is_written_as_in_a_table(
    folder: Path, capsys: pytest.CaptureFixture[str], written: str
) -> None:
    found = shown(capsys, str(folder), "--at", f"read={written},block=6KiB")
    cost = next(one for one in found["derived"] if one["name"] == "CPU per IO")
    assert cost["at"] == "read=50%, block=6KiB"
    assert cost["estimate"] == pytest.approx(CPU_NS * 1e-9, rel=0.05)
    assert found["equation"]["variables"]["read_percent"] == "read in %, 0% to 100%"


def test_a_share_without_its_unit_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "cost", str(folder), "--at", "read=50"]) == 2
    assert "found '50', allowed: a number with its unit, such as 50%" in capsys.readouterr().err
