"""The testbeds of a campaign: one for each level of `path` or kind of volume, and pair of machines of a placement, opened before
the first trial and kept.

Levels that this machine cannot have are skipped with their reason, and so are their points: skipped is neither failed
nor zero.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from iodyno.campaign.preflight import NoDataError
from iodyno.campaign.preflight_lines import Line
from iodyno.campaign.testbed import Testbed, path_of
from iodyno.core.design import Design
from iodyno.core.errors import AccessError, IodynoError
from iodyno.core.experiment import Experiment
from iodyno.core.volume import VolumeKind
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level
from iodyno.hosts.access import AgentProgram

LEAST_PAIRS = 2
"""Pairs without which a placement is none: one tells nothing of the others."""


@dataclass(frozen=True)
class Skipped:
    """Levels of `path` that cannot be had, the points that need them, and pairs of machines, each with its reason."""

    levels: Mapping[str, str]
    points: Mapping[str, str]
    pairs: Mapping[str, str] = field(default_factory=dict)


_Place = tuple[str, "str | VolumeKind | None"]
"""Pair of machines, empty without a placement, and level of `path`."""


class Testbeds:
    """A testbed for each level of `path` in the design, on each pair of machines; without either it is one."""

    def __init__(self, experiment: Experiment, design: Design, program: AgentProgram) -> None:
        self._program = program
        self._level_of = {point.id: path_of(experiment.settings(point.levels)) for point in design.points}
        self._on = {pair.name: replace(experiment, hosts=pair.hosts) for pair in experiment.placement} or {
            "": experiment
        }
        self._testbeds: dict[_Place, Testbed] = {}
        self.skipped = Skipped({}, {})
        self.left_out: list[Warning] = []

    async def __aenter__(self) -> Self:
        """Opens them. Raises AccessError when there is none that can be had, or pairs are too few."""
        refused: AccessError | None = None
        try:
            for pair, experiment in self._on.items():
                for level in dict.fromkeys(self._level_of.values()):
                    try:
                        testbed = Testbed(experiment, self._program, level, pair)
                        self._testbeds[pair, level] = await testbed.__aenter__()
                    except AccessError as error:
                        if pair:
                            await self.leave_out(pair, error)
                            break
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
        (no guard of tunables starts in there), is skipped, a pair left out; raises PreflightError and AccessError when it is the
        last one, or something else is wrong.
        """
        lines: list[Line] = []
        for (pair, level), testbed in list(self._testbeds.items()):
            if (pair, level) not in self._testbeds:
                continue
            try:
                found = await check(testbed)
            except (NoDataError, AccessError) as error:
                if pair:
                    await self.leave_out(pair, error)
                    continue
                if level is None or len(self._testbeds) == 1:
                    raise
                del self._testbeds[pair, level]
                await testbed.__aexit__()
                self._skip(level, error.what)
                continue
            lines += [{**line, "text": f"{pair}: {line['text']}"} for line in found] if pair else found
        return lines

    async def leave_out(self, pair: str, error: IodynoError) -> None:
        """Goes on without a pair of machines, and closes what is open of it; raises the error where too few are left."""
        if len(self._on) - len(self.skipped.pairs) <= LEAST_PAIRS:
            raise error
        said = " ".join(filter(None, (error.what, error.where and f"({error.where})")))
        self.skipped = replace(self.skipped, pairs={**self.skipped.pairs, pair: said})
        text = f"it takes no part from here on, as it cannot be had: {said}"
        self.left_out.append(Warning(WarningCode.HOST_LEFT_OUT, text, f"pair {pair}"))
        for place in [place for place in self._testbeds if place[0] == pair]:
            testbed = self._testbeds.pop(place)
            # Its machines are gone: what cannot be undone there is no reason to end the others.
            with contextlib.suppress(IodynoError):
                await testbed.__aexit__()

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

    def of(self, settings: Mapping[str, Level], pair: str | None = None) -> Testbed:
        """The testbed of a trial with these settings, on a pair of machines; on the first, where a trial is of none."""
        level = path_of(settings)
        if pair is None:
            return next(testbed for (_, its), testbed in self._testbeds.items() if its == level)
        return self._testbeds[pair, level]

    def why_skipped(self, settings: Mapping[str, Level], pair: str | None) -> str | None:
        """Return why a trial cannot be had; None: it can."""
        if pair is not None and pair in self.skipped.pairs:
            return f"pair {pair}: {self.skipped.pairs[pair]}"
        return self.skipped.levels.get(str(path_of(settings)))
