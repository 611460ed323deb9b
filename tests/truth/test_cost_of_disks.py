"""The cost model of a campaign on disks: its shares are asked for as people write them, and its equation is that of the truth."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from places import PROGRAM
from places import run as run_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.cli.main import run
from iodyno.core.outcome import Estimate
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
            "kind": "disk", "hosts": "client", "target": "/data/file", "working_set": "1GiB", "syscalls": "io_uring",
            "queue_depth": 4,
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
    assert "invalid value '50': expected a number with its unit, such as 50%" in capsys.readouterr().err


def beside_neighbours(folder: Path, **truth: Any) -> dict[str, Estimate]:
    """1000 operations a second, 6 ms of CPU, on a machine of which neighbours take all that the load leaves to them."""
    host = {
        "access": "simulated",
        "truth": {"disk_iops": 1000, "disk_cpu_ns": CPU_NS, "neighbours_ratio": 1, "exact": True, **truth},
    }
    keys = {
        "name": "neighbours",
        "hosts": {"client": host},
        "workload": {
            "kind": "disk", "hosts": "client", "target": "/data/file", "working_set": "1GiB", "syscalls": "io_uring",
            "queue_depth": 4,
        },
        "design": {"replicates": 3},
        "windows": {"warm_up": "100ms", "measured": "1s", "drain": "0s", "interval": "100ms"},
        "limits": {"background": 1, "background_window": "100ms"},
    }  # fmt: skip
    outcome = asyncio.run(
        run_campaign(parse_experiment(experiment_text(keys), environment={}), folder, program=PROGRAM)
    )
    assert not outcome.failed
    return dict(analyse(read_dataset(outcome.folder)).points[0].outcomes)


def test_neighbours_that_give_way_to_a_small_load_take_nothing_off_its_cost(tmp_path: Path) -> None:
    """The load takes 0.6 points of the CPUs from them: less than a background may wander, and all that it costs."""
    found = beside_neighbours(tmp_path)
    whole, own = found["client.cpu_us_per_io"], found["client.cpu_generator_us_per_io"]
    assert whole.estimate == pytest.approx(CPU_NS / 1000, rel=0.05)
    assert own.estimate is not None and 0 < own.estimate < CPU_NS / 1000
    rest = found["client.cpu_without_generator_us_per_io"]
    assert rest.estimate == pytest.approx(whole.estimate - own.estimate, rel=1e-6)
    assert "gave way" in (found["client.cpu_rest_us_per_io"].missing or "")


def test_of_full_cpus_ticks_do_not_tell_what_the_load_took(tmp_path: Path) -> None:
    found = beside_neighbours(tmp_path, bpf=False)
    for name in ("cpu_us_per_io", "cpu_generator_us_per_io", "cpu_without_generator_us_per_io"):
        one = found[f"client.{name}"]
        assert one.estimate is None
        assert "cannot be told from what others gave up" in (one.missing or "")


def test_ticks_of_cpus_that_others_filled_in_part_say_how_far_they_may_be_off(tmp_path: Path) -> None:
    """A load of 90 % beside neighbours that had 30 % before: between 70 % and all that ran is the load's."""
    most = {"disk_iops": 150_000, "disk_read_ns": 10_000, "neighbours_ratio": 0.3, "noise_between_trials": 0}
    found = beside_neighbours(tmp_path, bpf=False, **most)["client.cpu_us_per_io"]
    assert found.low is not None and found.high is not None
    assert found.low < CPU_NS / 1000 < found.high
