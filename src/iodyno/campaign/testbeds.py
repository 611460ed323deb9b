"""The testbeds of a campaign: one for each level of `path` or kind of volume, opened before the first trial and kept.

Levels that this machine cannot have are skipped with their reason, and so are their points: skipped is neither failed
nor zero.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from iodyno.campaign.preflight import NoDataError
from iodyno.campaign.preflight_lines import Line
from iodyno.campaign.testbed import Testbed, path_of
from iodyno.core.design import Design
from iodyno.core.errors import AccessError
from iodyno.core.experiment import Experiment
from iodyno.core.volume import VolumeKind
from iodyno.core.workload import Level
from iodyno.hosts.access import AgentProgram


@dataclass(frozen=True)
class Skipped:
    """Levels of `path` that cannot be had, and the points that need them, each with its reason."""

    levels: Mapping[str, str]
    points: Mapping[str, str]


class Testbeds:
    """A testbed for each level of `path` in the design; without that factor it is one."""

    def __init__(self, experiment: Experiment, design: Design, program: AgentProgram) -> None:
        self._experiment = experiment
        self._program = program
        self._level_of = {point.id: path_of(experiment.settings(point.levels)) for point in design.points}
        self._testbeds: dict[str | VolumeKind | None, Testbed] = {}
        self.skipped = Skipped({}, {})

    async def __aenter__(self) -> Self:
        """Opens them. Raises AccessError when there is none that can be had."""
        refused: AccessError | None = None
        try:
            for level in dict.fromkeys(self._level_of.values()):
                testbed = Testbed(self._experiment, self._program, level)
                try:
                    self._testbeds[level] = await testbed.__aenter__()
                except AccessError as error:
                    if level is None:
                        raise
                    refused = error
                    self._skip(level, error.what)
            if refused is not None and not self._testbeds:
                raise refused
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def checked(self, check: Callable[[Testbed], Awaitable[list[Line]]]) -> list[Line]:
        """Run `check` on every testbed and return its lines. A level that carries no data, or whose hosts cannot be had after all
        (no guard of tunables starts in there), is skipped; raises PreflightError and AccessError when it is the last one, or
        something else is wrong.
        """
        lines: list[Line] = []
        for level, testbed in list(self._testbeds.items()):
            try:
                lines += await check(testbed)
            except (NoDataError, AccessError) as error:
                if level is None or len(self._testbeds) == 1:
                    raise
                del self._testbeds[level]
                await testbed.__aexit__()
                self._skip(level, error.what)
        return lines

    def _skip(self, level: str | VolumeKind, reason: str) -> None:
        points = {point: reason for point, needs in self._level_of.items() if needs == level}
        self.skipped = Skipped({**self.skipped.levels, str(level): reason}, {**self.skipped.points, **points})

    async def __aexit__(self, *_: object) -> None:
        """Closes all, also when one of them cannot be closed."""
        closed = await asyncio.gather(
            *(testbed.__aexit__() for testbed in self._testbeds.values()), return_exceptions=True
        )
        for outcome in closed:
            if isinstance(outcome, BaseException):
                raise outcome

    def __iter__(self) -> Iterator[Testbed]:
        return iter(self._testbeds.values())

    @property
    def first(self) -> Testbed:
        """The testbed where that is measured which is measured once: of the first level that can be had, best of one whose
        agents see their own CPUs.
        """
        testbeds = list(self._testbeds.values())
        return next((testbed for testbed in testbeds if not testbed.observers), testbeds[0])

    def of(self, settings: Mapping[str, Level]) -> Testbed:
        """The testbed of a trial with these settings."""
        return self._testbeds[path_of(settings)]
