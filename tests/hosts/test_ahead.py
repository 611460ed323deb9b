"""What a command makes ready for its answer takes no CPU time from the load that the answer is of."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from places import MS, QUIET, Notes, experiment

from iodyno import designs, strategies
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import run_campaign
from iodyno.core.experiment import Windows
from iodyno.core.factor import Factor


class _Windows(Notes):
    """Keeps the windows of the records of the trial that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.windows: list[tuple[str, str]] = []

    def on_trial_start(self, planned: object, attempt: int) -> None:
        self.windows = []

    def on_progress(self, host: str, progress: object) -> None:
        assert isinstance(progress, dict)
        self.windows.append((host, str(progress["window"])))


def test_it_begins_when_the_last_measured_window_is_over(tmp_path: Path) -> None:
    windows = Windows(100 * MS, 500 * MS, 200 * MS, 100 * MS)
    asked = replace(
        experiment("local", factors=(Factor("connections", (1, 2)),), windows=windows, **QUIET), profile_hz=0
    )
    folder, design, notes = new_folder(tmp_path, asked.name), designs.plan(asked), _Windows()
    seen: list[list[tuple[str, str]]] = []
    outcome = asyncio.run(
        run_campaign(
            asked,
            design,
            folder,
            strategies.of_experiment(asked, design, folder),
            resume=False,
            watcher=notes,
            ahead=lambda: seen.append(list(notes.windows)),
        )
    )
    assert outcome.finished == 2
    (once,) = seen
    # One of the two is the first to say so.
    assert 5 in [once.count((host, "measured")) for host in ("client", "server")], once
