"""Questions of a campaign to a load: roles and jobs of its hosts, checks before the first trial, what is held ready in a
trial, and what is looked at when it is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from iodyno.core.design import Design
from iodyno.core.errors import TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.warnings import Warning
from iodyno.core.workload import Level
from iodyno.loads.base.kinds import part
from iodyno.session.clock import ClockFit
from iodyno.session.session import Message

if TYPE_CHECKING:
    from iodyno.campaign.account import Account
    from iodyno.campaign.preflight_lines import Check, Line
    from iodyno.campaign.testbed import Testbed

Settings = list[dict[str, Level]]
"""Settings at each of several points."""


class Load:
    """Parts of a campaign that each load fills. `stalls`: that nothing moves for long is a failure. `all_carry`: connections that
    carry nothing are worth a warning. `stores`: hosts that are only looked at may hold its files. `has_targets`: it has files or
    devices to be made ready before the first trial. `of_each_pair`: `connections` are between each sender and each receiver.
    """

    stalls = True
    all_carry = True
    stores = False
    has_targets = False
    of_each_pair = True

    def refuse(self, experiment: Experiment, design: Design) -> None:
        """Raises PreflightError, before hosts are opened, for what is seen on this machine that no load can have."""

    def roles(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, str]:
        """Return the role of each host."""
        raise NotImplementedError

    def settings(self, experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, Level]:
        """Return the settings in the words of a load over connections, as trials store them."""
        return dict(settings)

    def stored(self, content: dict[str, Any], experiment: Experiment) -> None:
        """Change the workload of an experiment to what `campaign.json` has of it."""

    def job(
        self,
        experiment: Experiment,
        host: str,
        role: str,
        settings: Mapping[str, Level],
        address: str | None,
        seed: int,
    ) -> dict[str, Any]:
        """Return the part of a host's job that is about its load, by its kind (`agent/core/src/job.rs`).

        `address`: where the ends meet, as far as known.
        """
        raise NotImplementedError

    async def make_ready(
        self, testbed: Testbed, settings: Settings, destroy: Collection[str], say: Callable[[str], None]
    ) -> dict[str, dict[str, Any]]:
        """Make the targets ready; return what is known of each, by its place. Raises PreflightError, AccessError."""
        return {}

    async def fill(self, testbed: Testbed, settings: Settings, say: Callable[[str], None]) -> None:
        """Write what the targets are to hold. Raises PreflightError, AccessError."""

    async def remove(self, testbed: Testbed, settings: Settings) -> list[str]:
        """Remove the files that were laid out, and return their places. Raises PreflightError, AccessError."""
        return []

    def checks(self, testbed: Testbed, settings: Settings, own: Settings) -> list[Check]:
        """Check that the hosts can carry the load. `settings`: as `settings` gives them; `own`: as the experiment does."""
        raise NotImplementedError

    async def test(
        self, testbed: Testbed, settings: Settings, own: Settings, note: Callable[[Warning], None]
    ) -> list[Line]:
        """Try the load out, for a moment. Raises PreflightError."""
        raise NotImplementedError

    async def before(self, testbed: Testbed, settings: Mapping[str, Level]) -> None:
        """Set what a trial needs before its jobs are made. Raises TrialError."""

    def targets(self, testbed: Testbed, settings: Mapping[str, Level]) -> dict[str, Any]:
        """Describe the target of each host: the device under it, and its kind."""
        return {}

    @contextlib.asynccontextmanager
    async def prepared(
        self, testbed: Testbed, account: Account, settings: Mapping[str, Level]
    ) -> AsyncIterator[None]:
        """Hold ready what the load needs to open. Raises TrialError and PreflightError."""
        yield

    @contextlib.asynccontextmanager
    async def held(
        self, testbed: Testbed, account: Account, settings: Mapping[str, Level]
    ) -> AsyncIterator[None]:
        """Hold what the load has opened as it is to be while it runs. Raises TrialError."""
        yield

    async def get_ready(self, testbed: Testbed, account: Account, connections: int) -> None:
        """Have every host open its connections or targets. Raises TrialError."""
        raise NotImplementedError

    def going_on(
        self, result: Coroutine[Any, Any, Message], host: str, account: Account, settings: Mapping[str, Level]
    ) -> Coroutine[Any, Any, Message | None]:
        """Return the result of a host; None: it was lost, and the trial goes on without it."""
        return result

    def check(
        self, testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows
    ) -> None:
        """Note what a trial that is over makes suspect: its start, its connections, its targets. Raises TrialError."""
        raise NotImplementedError

    def classified(self, error: TrialError) -> TrialError:
        """Return the failure, by a code of its own where the load has one for it."""
        return error


def load_for(experiment: Experiment) -> Load:
    """Return the load of an experiment."""
    found: Load = part(experiment.workload.kind, "campaign")
    return found
