"""Campaign of a file program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iodyno.campaign.preflight_lines import Check, Line
from iodyno.campaign.testbed import Testbed
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import Settings
from iodyno.loads.disk.campaign.load import StorageLoad
from iodyno.loads.files.campaign import jobs, preflight


class FilesLoad(StorageLoad):
    """Parts of a file program, which makes its files first."""

    ready_timeout_s = jobs.READY_TIMEOUT_S

    def settings(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, Level]:
        """Return what the load is told beside its program."""
        return jobs.load_settings(experiment.workload, settings)

    def stored(self, content: dict[str, Any], experiment: Experiment) -> None:
        """Name the file of the personality; its text is in the experiment's own file."""
        program = experiment.workload.program
        content["program"] = program and program.file

    def job(
        self,
        experiment: Experiment,
        host: str,
        role: str,
        settings: Mapping[str, Level],
        address: str | None,
        seed: int,
    ) -> dict[str, Any]:
        """Return the file program of a host."""
        return jobs.files_of(experiment.workload, host, settings, seed)

    def checks(self, testbed: Testbed, settings: Settings, own: Settings) -> list[Check]:
        """Check that the hosts have the threads and the memory."""
        return [*preflight.limits(testbed, settings), *preflight.memory(testbed, settings)]

    async def test(
        self, testbed: Testbed, settings: Settings, own: Settings, note: Callable[[Warning], None]
    ) -> list[Line]:
        """Look whether there is room for the filesets; a test would make all files: the first trial is the test."""
        return [await preflight.filesets(testbed, own)]


LOADS = {"files": FilesLoad()}
