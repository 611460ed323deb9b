"""What the sensor of the block layer costs: CPU time of an operation in its programs, and the rate of a disk with it and without.

Reads of 4 KiB that bypass the page cache, from a file in /var/tmp, or from `IODYNO_BENCH_TARGET`. The programs' time is the
kernel's own count (BPF run statistics): it holds what the kernel takes to measure each run, which rows of programs that do
one thing show, and, on a machine that does something else too, interrupts.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.ratio import paired
from bench.testbed import Quiet
from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.trial import Trial
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import run_campaign
from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.analysis import block_times, classes
from iodyno.session.locate import find_agent
from iodyno.strategies.fixed import Fixed

TARGET_NS = 300
"""CPU time of the program that counts an operation when it has ended, at most, by the kernel's count."""
_OTHERS = ("cpu_exact", "disks", "process", "threads")


def _asked(target: Path) -> Experiment:
    keys = {
        "name": "block-sensor",
        "hosts": {"client": {"access": "local"}},
        "workload": {
            **{"kind": "disk", "hosts": "client", "target": str(target), "working_set": "64MiB"},
            **{"direct": "on", "syscalls": "io_uring"},
        },
        "factors": {"queue_depth": [16]},
        "design": {"replicates": 1},
        "windows": {"warm_up": "500ms", "measured": "2s", "interval": "500ms"},
        "limits": {"background_window": "100ms", "background": 1.0},
        "profile": "off",
    }
    return parse_experiment(experiment_text(keys), environment={})


async def _trial(asked: Experiment, into: Path) -> Trial:
    folder = new_folder(into, asked.name)
    design = designs.plan(asked)
    await run_campaign(asked, design, folder, [Fixed(design)], resume=False, watcher=Quiet())
    return next(trial for trial in read_dataset(folder).trials if trial.finished)


def _floor(target: Path) -> list[dict[str, object]]:
    """What programs that do one thing take for an operation, and what those of the sensor do, in turns of one run."""
    command = [find_agent().path, "calibrate", "--block", target, "--json"]
    shown = subprocess.run(command, check=False, capture_output=True, text=True)
    if shown.returncode:
        raise SystemExit(f"bench block_sensor: {shown.stderr.strip()}")
    found = json.loads(shown.stdout)
    empty_run_ns = found[0]["operation_ns"] / found[0]["runs_per_operation"]
    return [
        _row(
            programs=one["programs"],
            runs=f"{one['runs_per_operation']:.1f}",
            operation_ns=f"{one['operation_ns']:.0f} [{one['least_ns']:.0f}, {one['most_ns']:.0f}]",
            beyond_empty_ns=round(one["operation_ns"] - one["runs_per_operation"] * empty_run_ns),
            target_ns=TARGET_NS if one is found[-2] else "",
        )
        for one in found
    ]


def _row(**cells: object) -> dict[str, object]:
    columns = ("programs", "runs", "operation_ns", "beyond_empty_ns", "target_ns")
    return {name: cells.get(name, "") for name in (*columns, "left_out", "rate_over_without", "iops")}


async def run(pairs: int) -> list[dict[str, object]]:
    """CPU nanoseconds of an operation in the sensor's programs, in that at its end alone (at most 300), beyond empty
    programs, operations left out (0), and the rate with the sensor over without.
    """
    costs: list[float] = []
    lost = 0
    rates: tuple[list[float], list[float]] = ([], [])
    rows: list[dict[str, object]] = []
    target = Path(os.environ.get("IODYNO_BENCH_TARGET") or f"/var/tmp/iodyno-block-sensor-{os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        asked = _asked(target)
        try:
            for number in range(pairs):
                for with_it in (True, False) if number % 2 else (False, True):
                    one = asked if with_it else replace(asked, sensors=_OTHERS)
                    trial = await _trial(one, Path(folder))
                    rates[not with_it].append(classes.operations_per_s(trial).value or 0.0)
                    if with_it:
                        (host,) = trial.hosts.values()
                        readings = host.measured_readings(block_times.SENSOR)
                        found = [r.values.get(("block.completion_cost_ns", "")) for r in readings]
                        costs += [float(value) for value in found[:1] if value is not None]
                        lost += host.growth(block_times.SENSOR, "block.left_out") or 0
            rows += await asyncio.to_thread(_floor, target)
        finally:
            await asyncio.to_thread(target.unlink, missing_ok=True)
    if not costs:
        raise SystemExit("bench block_sensor: the sensor is not available here; see `iodyno-agent facts`")
    in_trials = _row(
        programs="the sensor in trials, 16 reads at a time",
        operation_ns=f"{statistics.median(costs):.0f} [{min(costs):.0f}, {max(costs):.0f}]",
        left_out=lost,
        rate_over_without="{:.3f} [{:.3f}, {:.3f}]".format(*paired(*rates)),
        iops=f"{statistics.median(rates[0]):.0f}",
    )
    return [*rows, in_trials]
