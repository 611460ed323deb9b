"""Campaign of streams and requests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from iodyno.campaign import preflight, rendezvous, trial
from iodyno.campaign.account import Account
from iodyno.campaign.preflight_lines import Check, Line
from iodyno.campaign.testbed import Testbed
from iodyno.core import asked
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import Load, Settings
from iodyno.loads.network.campaign import jobs
from iodyno.session.clock import ClockFit


class HostsLoad(Load):
    """Parts of a load between hosts. `traffic`: what is done on each connection, by its name in a job."""

    def __init__(self, traffic: str) -> None:
        self.traffic = traffic

    def roles(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, str]:
        """Return the role of each host: it sends or receives."""
        workload = experiment.workload
        return dict.fromkeys(workload.senders, "send") | dict.fromkeys(workload.receivers, "receive")

    def job(
        self,
        experiment: Experiment,
        host: str,
        role: str,
        settings: Mapping[str, Level],
        address: str | None,
        seed: int,
    ) -> dict[str, Any]:
        """Return the connections of a host, and what is done on them."""
        return jobs.of_connections(experiment.workload, host, role, settings, address, seed, self.traffic)

    def checks(self, testbed: Testbed, settings: Settings, own: Settings) -> list[Check]:
        """Check that the hosts have what the connections need."""
        return preflight.of_connections(testbed, settings)

    async def test(
        self, testbed: Testbed, settings: Settings, own: Settings, note: Callable[[Warning], None]
    ) -> list[Line]:
        """Send data from every sender to its receivers, for a moment; in full packets at each MTU that is asked for."""
        points = [testbed.experiment.settings(point) for point in settings]
        return [await preflight.data(testbed, points[0]), *await preflight.full_packets(testbed, points)]

    @contextlib.asynccontextmanager
    async def prepared(
        self, testbed: Testbed, account: Account, settings: Mapping[str, Level]
    ) -> AsyncIterator[None]:
        """Hold the place ready at which the ends meet."""
        with rendezvous.places(testbed, self.settings(testbed.experiment, settings)) as listen_at:
            for receiver, place in listen_at.items():
                asked.load_of(account.hosts[receiver]["job"])["address"] = place
            yield

    async def get_ready(self, testbed: Testbed, account: Account, connections: int) -> None:
        """Bring the connections up."""
        await trial.connect(testbed, account, connections)

    def check(
        self, testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows
    ) -> None:
        """Note how far apart the ends began, and what their sockets and connections make suspect."""
        trial.check_ends(testbed, account, clocks, windows)


LOADS = {kind: HostsLoad(kind) for kind in ("stream", "request_response", "connect_request_response")}
