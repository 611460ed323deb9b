"""The course of a campaign: which trial is due, as its strategies ask for them, one strategy after the other.

What is asked for is looked up in the ledger first: a trial that is there answers without being run again. The n-th time
that a point is asked for is its n-th trial, so that a campaign is taken up again by asking from the beginning.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from iodyno.campaign.ledger import Entry, Ledger
from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.campaign.testbed import path_of
from iodyno.core.design import Design, PlannedTrial, Point
from iodyno.core.errors import WRONG_DATA, ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.core.limiter import Perturbation

_Key = tuple[str, Perturbation | None]


class Course:
    """Asks and tells. `asked`: every trial so far; `answers`: what each strategy knows, by its section.

    `take` is called with an answer, and with whether a trial was run for it.
    """

    def __init__(
        self,
        strategies: Sequence[Strategy],
        experiment: Experiment,
        design: Design,
        ledger: Ledger,
        folder: Path,
        take: Callable[[Answer, bool], None],
    ) -> None:
        self._strategies = deque(strategies)
        self._ledger = ledger
        self._folder = folder
        self._take = take
        self._beyond = len(design.trials)
        self._experiment = experiment
        self._points = {point.id: point for point in design.points}
        self._known: dict[_Key, deque[PlannedTrial]] = defaultdict(deque)
        for planned in (*design.trials, *ledger.beyond):
            self._known[_key(planned)].append(planned)
        self._replicates: dict[str, int] = defaultdict(int)
        self._batch: deque[PlannedTrial] = deque()
        self._run: set[int] = set()
        self._fresh = False
        self._begun = False
        self.asked: list[PlannedTrial] = []
        self.answers: dict[str, Answer] = {}
        self.on_begin: Callable[[Strategy], Awaitable[None]] | None = None
        """Callback for the begin of a strategy, once there are hosts to run anything on."""

    @property
    def foreign(self) -> bool:
        """True where a strategy will ask that has to know what others have set."""
        return any(strategy.foreign for strategy in self._strategies)

    @property
    def answer(self) -> Answer | None:
        """Answer so far of the strategy whose turn it is."""
        return self._strategies[0].answer() if self._strategies else None

    @property
    def batch(self) -> Sequence[PlannedTrial]:
        """The trials that were asked for and are not told, the one that is due first."""
        return tuple(self._batch)

    async def due(self) -> PlannedTrial | None:
        """The trial that is to be run next; None: no strategy asks for another."""
        while self._strategies:
            strategy = self._strategies[0]
            while self._batch:
                planned = self._batch[0]
                entry = self._ledger.entry(planned.order)
                if not self._settled(planned, entry):
                    await self._begin_with(strategy)
                    return planned
                self._batch.popleft()
                await asyncio.to_thread(strategy.tell, self._result(planned, entry))
            await self._begin_with(strategy)
            asked = await asyncio.to_thread(strategy.ask)
            if answer := strategy.answer():
                self.answers[answer.section] = answer
                self._take(answer, self._fresh)
            self._fresh = False
            if not asked:
                self._strategies.popleft()
                self._begun = False
            self._batch.extend(map(self._placed, asked))
        return None

    def pause_ns(self, last: PlannedTrial, planned: PlannedTrial) -> int | None:
        """Return the time for which there are to be no agents between two trials; None: they stay."""
        return self._strategies[0].pause_ns(last, planned)

    def ran(self, planned: PlannedTrial) -> None:
        """The trial was run, whatever became of it."""
        self._run.add(planned.order)
        self._fresh = True

    async def _begin_with(self, strategy: Strategy) -> None:
        if self.on_begin and not self._begun:
            self._begun = True
            await self.on_begin(strategy)

    def _settled(self, planned: PlannedTrial, entry: Entry) -> bool:
        """Tell whether it is not to be run (again). Wrong data stays found: another attempt may read other blocks."""
        wrong = str(entry.reason or "").startswith(f"{WRONG_DATA}:")
        return planned.order in self._run or entry.status in ("finished", "skipped") or wrong

    def _result(self, planned: PlannedTrial, entry: Entry) -> TrialResult:
        status = entry.status if entry.status in ("finished", "skipped") else "failed"
        return TrialResult(
            planned, status, entry.reason, self._folder / entry.folder if entry.folder else None
        )

    def _placed(self, asked: Point | PlannedTrial) -> PlannedTrial:
        """The trial of the ledger that was asked for, with a place of its own where it is new."""
        planned = asked if isinstance(asked, PlannedTrial) else PlannedTrial(-1, 0, 0, asked)
        point = planned.point
        self._check(point)
        if known := self._known[_key(planned)]:
            # What is stored of a trial does not say for how long it was to be measured.
            planned = replace(known.popleft(), point=point)
        else:
            taken = self._ledger.entries()
            if planned.order < 0 or planned.order in taken:
                order = next(order for order in count(self._beyond) if order not in taken)
                replicate = self._replicates[point.id] if planned.order < 0 else planned.replicate
                planned = PlannedTrial(order, planned.block, replicate, point, planned.perturbation)
            self._ledger.add([planned])
        self._replicates[point.id] += 1
        self.asked.append(planned)
        return planned

    def _check(self, point: Point) -> None:
        """Raises ExperimentError for a point that cannot be run, or whose name is another's."""
        before = self._points.get(point.id)
        if before is None:
            workload = self._experiment.workload.workload
            allowed = {name for each in self._points.values() for name in each.levels}
            unknown = [n for n in point.levels if n not in allowed and parameter_of(workload, n) is None]
            if unknown:
                raise ExperimentError(
                    f"unknown parameter {unknown[0]!r}, which a strategy asks for at {point.id}: expected "
                    f"parameters of {workload.name}",
                    where="strategy",
                    advice="`iodyno schema` prints every key with what it may hold",
                )
            paths = {path_of(self._experiment.settings(each.levels)) for each in self._points.values()}
            if (path := path_of(self._experiment.settings(point.levels))) not in paths:
                raise ExperimentError(
                    f"a strategy asks for path {path} at {point.id}, which no point of the design has",
                    where="strategy",
                    advice="make `path` a factor, so that it is opened",
                )
            self._points[point.id] = point
        elif dict(before.levels) != dict(point.levels):
            raise ExperimentError(
                f"a strategy asks for two points of the name {point.id}: {dict(before.levels)} and {dict(point.levels)}",
                where="strategy",
                advice="give each combination of levels a name of its own",
            )


def _key(planned: PlannedTrial) -> _Key:
    return planned.point.id, planned.perturbation
