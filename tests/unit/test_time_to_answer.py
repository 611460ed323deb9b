"""What stands between a command line and its load: imports, the calibration, the look at the idle machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iodyno.campaign import background, calibrate
from iodyno.cli.main import COMMANDS

HEAVY = {"asyncio", "duckdb", "jinja2", "numpy", "pydantic", "rich", "ruamel", "scipy"}


def imported(code: str) -> set[str]:
    """The packages that a new interpreter has imported after this code."""
    told = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(found.stdout.split())


def test_the_options_of_no_command_need_a_heavy_package() -> None:
    every = "\n".join(f"import {entry.place.partition(':')[0]}" for entry in COMMANDS)
    assert not imported(every) & HEAVY


def test_no_numbers_are_reckoned_with_before_the_load_is_over() -> None:
    """A load on the lab's own machine would wait for what reads them."""
    before = "import iodyno.cli.execute, iodyno.cli.progress, iodyno.formats.experiment_file, iodyno.designs.full_factorial"
    assert not imported(before) & {"duckdb", "numpy", "scipy"}


def testbed(
    build: str = "b1", cpus: tuple[int, ...] = (0,), access: str = "netns", exact: bool = True
) -> Any:
    hello = {
        "host": {"boot_id": "boot", "kernel": "6.1"},
        "build_hash": build,
        "clock": {"step_ns": 1},
        "capabilities": [{"name": "sensor.cpu_exact", "available": exact}],
    }
    session = SimpleNamespace(hello=hello)
    experiment = SimpleNamespace(
        hosts={"client": SimpleNamespace(access=access)},
        limits=SimpleNamespace(background_ns=100_000_000),
        windows=SimpleNamespace(measured_ns=600_000_000),
    )
    return SimpleNamespace(
        sessions={"client": session},
        cpus={"client": cpus},
        experiment=experiment,
        outside=lambda host: session,
    )


def test_a_calibration_holds_for_a_boot_a_build_and_a_set_of_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = tmp_path / "iodyno" / "calibration.json"
    costs: dict[str, float | None] = {"threads": 18.3, "epoll": 19.3}
    calibrate._keep(cache, {}, {calibrate._key(testbed(), "client"): costs})
    kept = calibrate._read(calibrate._cache_file())
    assert kept[calibrate._key(testbed(), "client")] == costs
    assert not {
        calibrate._key(one, "client")
        for one in (testbed("b2"), testbed(cpus=(1,)), testbed(access="simulated"))
    } & set(kept)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"k": 3}', '{"k": {"threads": "x", "epoll": 1}}', '{"k": {"epoll": 1}}']
)
def test_a_cache_that_is_not_what_was_written_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "calibration.json").write_text(text)
    assert calibrate._read(tmp_path / "calibration.json") == {}


def test_what_is_not_known_is_not_kept_and_the_oldest_goes(tmp_path: Path) -> None:
    cache = tmp_path / "calibration.json"
    calibrate._keep(cache, {}, {"busy": {"threads": None, "epoll": 1.0}, "": {"threads": 1.0, "epoll": 1.0}})
    assert json.loads(cache.read_text()) == {}
    for number in range(calibrate._KEPT + 1):
        calibrate._keep(cache, calibrate._read(cache), {str(number): {"threads": 1.0, "epoll": 1.0}})
    assert list(calibrate._read(cache)) == [str(number) for number in range(1, calibrate._KEPT + 1)]


def test_a_cache_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    calibrate._keep(tmp_path / "file" / "calibration.json", {}, {"k": {"threads": 1.0, "epoll": 1.0}})


def test_idle_time_that_comes_in_ticks_is_looked_at_for_longer() -> None:
    assert background._length_ns(testbed()) == 100_000_000
    assert background._length_ns(testbed(exact=False)) == 600_000_000


def test_the_busy_share_is_of_exact_times_where_there_are_any() -> None:
    ticks = {"sensor": "cpu_times", "values": [("cpu.idle_ns", "cpu=0", 90), ("cpu.user_ns", "cpu=0", 10)]}
    exact = {
        "sensor": "cpu_exact",
        "values": [
            ("exact.idle_ns", "cpu=0", 96),
            ("exact.app_ns", "cpu=0", 1),
            ("exact.app_user_ns", "cpu=0", 1),
            ("exact.softirq_ns", "cpu=0,vector=TIMER", 3),
            ("exact.softirq_count", "cpu=0,vector=TIMER", 500),
            ("exact.other_ns", "cpu=1", 100),
        ],
    }
    assert background._busy_ratio({"sensors": [ticks]}, (0,)) == pytest.approx(0.1)
    assert background._busy_ratio({"sensors": [ticks, exact]}, (0,)) == pytest.approx(0.04)
    assert background._busy_ratio({"sensors": []}, (0,)) is None
