"""How many bytes a report of fifty trials on disks has, with all that can be in one: four maps a trial, wide times, functions."""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from made_calls import sender
from made_campaign import Call, Layout, Truth, make_campaign
from places import PROGRAM, run

from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.function_study import FunctionStudy, study_functions
from iodyno.analysis.histogram import Histogram, bucket_of
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import study_trials
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.report.deferred import PAGE_BYTES
from iodyno.report.html import page

MOST_BYTES = PAGE_BYTES
"""The bar is 1.5 MB; a page puts aside what goes beyond a tenth less, so that a real campaign stays below it too."""
BARE_BYTES = 1_000_000
"""What cannot be put aside must leave room: what is made here has less in its tables than a real campaign."""
DEPTHS, BLOCKS = [1, 2, 4, 8, 16], ["4KiB", "64KiB"]


def campaign(folder: Path) -> Dataset:
    """Fifty trials of simulated disks, 21 intervals each, whose times are wide: some hundred buckets an interval.

    Ten are carried out; the others are the same again, with times of their own.
    """
    experiment = parse_experiment(
        experiment_text(
            {
                "name": "disks",
                "question": "What does an operation cost?",
                "hosts": {"client": {"access": "simulated", "truth": {"disk_iops": 20_000, "seed": 7}}},
                "workload": {
                    "kind": "disk", "hosts": "client", "target": "/data/file", "working_set": "1GiB",
                    "syscalls": "io_uring", "read": "70%",
                },
                "factors": {"queue_depth": DEPTHS, "block": BLOCKS},
                "design": {"replicates": 1},
                "windows": {"warm_up": "100ms", "measured": "2s", "drain": "0s", "interval": "100ms"},
                "limits": {"background_window": "100ms"},
            }
        ),
        environment={},
    )  # fmt: skip
    outcome = asyncio.run(run(experiment, folder, program=PROGRAM))
    assert not outcome.failed
    dataset = read_dataset(outcome.folder)
    source = random.Random(3)
    once = list(dataset.trials)
    for block in range(1, 5):
        for number, trial in enumerate(once):
            again = replace(
                copy.deepcopy(trial), name=f"{10 * block + number:05d}-1", block=block, replicate=block
            )
            dataset.trials.append(again)
    for trial in dataset.trials:
        for host in trial.clients.values():
            for name in ("io.read", "io.write"):
                counted = [(index, times.count) for index, times in host.more_histograms[name].items()]
                for clock in (name, name.replace("io.", "response.")):
                    host.more_histograms[clock] = {index: wide(count, source) for index, count in counted}
    return dataset


def wide(count: int, source: random.Random) -> Histogram:
    """So many times of 80 us by the median, two in three of them between a third and the threefold."""
    values = [int(80_000 * source.lognormvariate(0.0, 1.1)) for _ in range(min(count, 300))]
    cells = sorted(Counter(map(bucket_of, values)).items())
    cells[0] = (cells[0][0], cells[0][1] + count - len(values))
    return Histogram(count, sum(values), tuple(cell for cell, _ in cells), tuple(each for _, each in cells))


def functions(folder: Path) -> FunctionStudy:
    """Of ten points and two hosts, with some hundred functions each."""
    many = tuple(
        Call((*call.frames, *(f"kernel:function_{b}_{n}" for n in range(8))), call.weight, call.owner, call.mode)
        for call in sender()
        for b in range(30)
    )  # fmt: skip
    points = [
        ({"queue_depth": depth, "size": size}, Truth(samples=4000, calls={"client": many, "server": many}))
        for depth in DEPTHS
        for size in (4096, 65536)
    ]
    factors = [
        {"name": "queue_depth", "levels": DEPTHS, "together": {}},
        {"name": "size", "levels": [4096, 65536], "together": {}},
    ]
    made = make_campaign(
        folder / "functions", points, factors=factors, layout=Layout(replicates=1, intervals=3)
    )
    return study_functions(read_dataset(made))


def test_fifty_trials_on_disks_with_functions_stay_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = campaign(tmp_path)
    summary = analyse(dataset)
    found, study = functions(tmp_path), study_trials(dataset, summary)
    text = page(summary, found, study)
    assert text.count('<details id="trial-') == 50
    assert text.count("data-graph=") > 2 and 'id="flame-data"' in text
    assert len(text.encode()) <= MOST_BYTES
    # All numbers are there, for who has no script too.
    assert text.count("<summary><span>p0") + text.count("<summary><span>p10") == 10
    assert 'download="disks.json.gz"' in text
    monkeypatch.setattr("iodyno.report.deferred.PAGE_BYTES", 0)
    assert len(page(summary, found, study).encode()) <= BARE_BYTES
