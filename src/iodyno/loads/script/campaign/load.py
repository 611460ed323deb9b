"""Campaign of a script."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iodyno.campaign import job, preflight
from iodyno.campaign.preflight_lines import Check, Line
from iodyno.campaign.testbed import Testbed
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import Settings
from iodyno.loads.network.campaign.load import HostsLoad
from iodyno.loads.script.campaign import jobs
from iodyno.loads.script.campaign.preflight import named


class ScriptLoad(HostsLoad):
    """Parts of a script, which may open connections or think for as long as it likes: its agent notices when it is stuck."""

    stalls = False
    all_carry = False
    of_each_pair = False

    def settings(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, Level]:
        """Return what the load is told beside its script."""
        return jobs.load_settings(experiment, settings)

    def job(
        self,
        experiment: Experiment,
        host: str,
        role: str,
        settings: Mapping[str, Level],
        address: str | None,
        seed: int,
    ) -> dict[str, Any]:
        """Return the script of a host."""
        script = jobs.script_of(experiment, role, settings, host)
        return {"script": {**job.place_of(role, settings, address), "script": script}}

    def checks(self, testbed: Testbed, settings: Settings, own: Settings) -> list[Check]:
        """Check that the hosts have what the connections need, and what the flowops name."""
        return [*super().checks(testbed, settings, own), *named(testbed, own)]

    async def test(
        self, testbed: Testbed, settings: Settings, own: Settings, note: Callable[[Warning], None]
    ) -> list[Line]:
        """Send a stream to each receiver, for a moment."""
        lines = []
        for receiver in testbed.experiment.workload.receivers:
            tested = jobs.with_stream(testbed, receiver)
            lines.append(await preflight.data(tested, tested.experiment.settings(settings[0])))
        return lines


LOADS = {"script": ScriptLoad("script")}
