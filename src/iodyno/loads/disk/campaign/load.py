"""Campaign of a load on disks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from typing import Any

from iodyno.campaign.account import Account
from iodyno.campaign.preflight_lines import Check, Line
from iodyno.campaign.testbed import Testbed
from iodyno.core.design import Design
from iodyno.core.errors import AccessError, TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.volume import CREATE_FILES
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import Load, Settings
from iodyno.loads.disk.campaign import (
    checked_layout,
    clients,
    held_device,
    jobs,
    precondition,
    preflight,
    server_cache,
    targets,
)
from iodyno.loads.files.campaign import jobs as file_jobs
from iodyno.session.clock import ClockFit
from iodyno.session.session import Message


class StorageLoad(Load):
    """Parts of a load that each host does for itself, as fast as its target is; whether it did anything is looked at last."""

    stalls = False
    stores = True
    ready_timeout_s = 60.0
    """Longer than for connections: a working set may be read into the page cache first."""

    def roles(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, str]:
        """Return the role of each host: it works for itself, or idles and is looked at."""
        return clients.roles_of(experiment, settings)

    async def before(self, testbed: Testbed, settings: Mapping[str, Level]) -> None:
        """Have the volume be as slow as the settings say (`device_delay`); its server's processes are others afterwards."""
        if testbed.volume is None:
            return
        try:
            await testbed.volume.delay(int(settings.get("device_delay") or 0))
        except AccessError as error:
            advice = "leave device_delay out"
            raise TrialError(error.what, where=error.where, advice=advice, code="target") from error

    def targets(self, testbed: Testbed, settings: Mapping[str, Level]) -> dict[str, Any]:
        """Describe the target of each client: the device under it, and its kind."""
        return clients.targets_of(testbed, settings)

    @contextlib.asynccontextmanager
    async def held(
        self, testbed: Testbed, account: Account, settings: Mapping[str, Level]
    ) -> AsyncIterator[None]:
        """Hold the device to its limit, and the server's page cache to what is asked for."""
        with held_device.throttled(testbed, account, settings):
            async with server_cache.held(testbed, account, settings):
                yield

    async def get_ready(self, testbed: Testbed, account: Account, connections: int) -> None:
        """Have every client open its target."""
        await clients.get_ready(testbed, account, self.ready_timeout_s)

    def going_on(
        self, result: Coroutine[Any, Any, Message], host: str, account: Account, settings: Mapping[str, Level]
    ) -> Coroutine[Any, Any, Message | None]:
        """Return the result of a client, which may be lost where the settings say so."""
        return clients.going_on(result, host, account) if clients.may_go_on(settings) else result

    def check(
        self, testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows
    ) -> None:
        """Note how far apart the clients began, and what went wrong with their targets."""
        clients.check(testbed, account, clocks, windows)

    def classified(self, error: TrialError) -> TrialError:
        """Return the failure, by a code of its own where it is wrong data."""
        return clients.classified(error)


class DiskLoad(StorageLoad):
    """Parts of a load on blocks."""

    has_targets = True

    def refuse(self, experiment: Experiment, design: Design) -> None:
        """Raises PreflightError for a local target that no load can have."""
        targets.refuse_at_once(experiment, design)

    def job(
        self,
        experiment: Experiment,
        host: str,
        role: str,
        settings: Mapping[str, Level],
        address: str | None,
        seed: int,
    ) -> dict[str, Any]:
        """Return the disk of a host, or the file program that makes files."""
        if settings.get("work") != CREATE_FILES:
            return jobs.disk_of(host, settings, seed)
        made, own = file_jobs.creation(experiment.workload, settings)
        return file_jobs.files_of(made, host, own, seed)

    async def make_ready(
        self, testbed: Testbed, settings: Settings, destroy: Collection[str], say: Callable[[str], None]
    ) -> dict[str, dict[str, Any]]:
        """Lay the files out, and look at the devices."""
        return await targets.make_ready(testbed, settings, destroy, say)

    async def fill(self, testbed: Testbed, settings: Settings, say: Callable[[str], None]) -> None:
        """Write blocks that carry checks, and write over those that are to be preconditioned."""
        await precondition.write_over(testbed, settings, say)
        await checked_layout.write_checks(testbed, settings, say)

    async def remove(self, testbed: Testbed, settings: Settings) -> list[str]:
        """Remove the files that were laid out."""
        return await targets.remove(testbed, settings)

    def checks(self, testbed: Testbed, settings: Settings, own: Settings) -> list[Check]:
        """Check that the hosts have the threads and the memory, and that the settings of a point go together."""
        parts = (preflight.limits, preflight.memory, preflight.calls)
        return [each for check in parts for each in check(testbed, settings)]

    async def test(
        self, testbed: Testbed, settings: Settings, own: Settings, note: Callable[[Warning], None]
    ) -> list[Line]:
        """Read and write each target, for a moment."""
        preflight.left_out(testbed, settings, note)
        return [await preflight.data(testbed, settings)]


LOADS = {"disk": DiskLoad()}
