"""Executes a design: open the hosts, preflight, background, trials, background, close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from iodyno.campaign import leftovers
from iodyno.campaign.account import Account
from iodyno.campaign.background import Background, measure_background
from iodyno.campaign.calibrate import calibrate
from iodyno.campaign.course import Course
from iodyno.campaign.feed import FedWatcher, Feed, fed, trial_name
from iodyno.campaign.folder import CampaignFile, hosts_json, warning_json
from iodyno.campaign.ledger import Entry, Ledger
from iodyno.campaign.lock import held
from iodyno.campaign.metric_sources import Row
from iodyno.campaign.preflight import idle_line, preflight
from iodyno.campaign.sealed import sealed
from iodyno.campaign.strategy import Answer, Strategy
from iodyno.campaign.testbed import Testbed, path_of
from iodyno.campaign.testbeds import Skipped, Testbeds
from iodyno.campaign.time_of_day import TimeOfDay
from iodyno.campaign.trial import OPERATIONS, beside, carry_out
from iodyno.campaign.watcher import Watcher
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import CERTAIN, AccessError, StoreError, TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.warnings import Warning, WarningCode, of_hosts
from iodyno.designs import perturbation
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.guard import restore_here
from iodyno.loads.base.campaign import load_for
from iodyno.session.locate import find_agent
from iodyno.session.sent import SentRecord
from iodyno.store.schema import BACKGROUND, BACKGROUNDS, CAMPAIGN, TRIALS
from iodyno.store.writer import TrialWriter, remove_partials

OVERHEAD_NS = 500_000_000
"""Time of a trial outside its windows, to tell the time left before there is a measurement of it."""


@dataclass(frozen=True)
class CampaignOutcome:
    """End of a campaign: trials finished, and trials of the design that failed for good, or were skipped, with
    their reasons; and what its strategies know, by its section. `complete`: all that was due is finished or skipped.
    `cut`: why the background after the trials is not measured; the next start makes up for it.
    """

    folder: Path
    finished: int
    failed: tuple[Entry, ...] = field(default=())
    skipped: tuple[Entry, ...] = field(default=())
    answers: Mapping[str, Answer] = field(default_factory=dict)
    complete: bool = False
    cut: AccessError | None = None


async def run_campaign(
    experiment: Experiment,
    design: Design,
    folder: Path,
    strategies: Sequence[Strategy],
    *,
    resume: bool,
    watcher: Watcher,
    program: AgentProgram | None = None,
    destroy: Collection[str] = (),
    remove_targets: bool = False,
    ahead: Callable[[], None] = lambda: None,
    stored: Callable[[], None] = lambda: None,
) -> CampaignOutcome:
    """Executes what the strategies ask for, one after the other, and is not finished yet, into `folder`, which exists.

    `destroy`: targets of a load on disks whose content may be lost. `remove_targets`: the files that were laid out go when
    the campaign is complete. `ahead` is called in a thread when the last measured window is over, and the idle machine is
    measured when it has returned; `stored` when all is on the disk, while the agents are still there.
    Raises AccessError, PreflightError and StoreError; a trial that fails is kept, retried within the limit and then
    left, and comes up in the outcome. When it is cancelled, everything is removed and the folder can be resumed.
    """
    program = program or find_agent()
    # Also where nothing is to be done any more: a lab that was killed at its end has left as much as any other.
    leftovers.remove()
    if any(spec.access != "simulated" for spec in experiment.hosts.values()):
        await restore_here(program)
    with (
        held(folder),
        _Campaign.begin(experiment, design, folder, None if resume else program) as campaign,
        fed(folder, experiment.name, len(design.trials), campaign.clock) as feed,
    ):
        campaign.feed, campaign.ahead, watcher = feed, ahead, FedWatcher(watcher, feed)
        campaign.tell_damaged(watcher)
        course = campaign.begin_course(strategies, watcher)
        pause_ns: int | None = 0
        while pause_ns is not None and (
            campaign.lacks_foreign() or await course.due() or any(map(campaign.lacks, BACKGROUNDS))
        ):
            if pause_ns:
                watcher.on_stage(f"waiting for {pause_ns / 1e9:g} s before the next block")
                await asyncio.sleep(pause_ns / 1e9)
            watcher.on_stage("opening the hosts")
            async with Testbeds(experiment, design, program) as testbeds:
                await campaign.open(testbeds, destroy, watcher)
                pause_ns = await campaign.execute_all(testbeds, watcher)
                if pause_ns is None:
                    await campaign.store_idle()
                    if campaign.gone_ahead:
                        await campaign.gone_ahead
                    await campaign.measure_again(testbeds, watcher)
                    if remove_targets and not campaign.cut:
                        await campaign.remove_targets(testbeds, watcher)
                    stored()
        return campaign.finish()


class _Campaign:
    """A campaign's folder and ledger while it runs."""

    def __init__(self, experiment: Experiment, design: Design, file: CampaignFile, ledger: Ledger) -> None:
        self._experiment = experiment
        self.load = load_for(experiment)
        self._design = design
        self._folder = file.folder
        self._file = file
        self._ledger = ledger
        self._overheads_ns: list[int] = []
        self.clock = TimeOfDay()
        self.course: Course
        self.cut: AccessError | None = None
        self.feed: Feed | None = None
        self.idle: Background | None = None
        self.ahead: Callable[[], None] = lambda: None
        self.gone_ahead: asyncio.Future[None] | None = None

    @classmethod
    def begin(
        cls, experiment: Experiment, design: Design, folder: Path, program: AgentProgram | None
    ) -> _Campaign:
        """A new campaign of that agent; without one, the campaign that is there."""
        if program is None:
            return cls.reopen(experiment, design, folder)
        return cls.create(experiment, design, folder, program)

    @classmethod
    def create(cls, experiment: Experiment, design: Design, folder: Path, program: AgentProgram) -> _Campaign:
        if (folder / CAMPAIGN).exists():
            raise StoreError(
                "holds a campaign already",
                where=str(folder),
                advice="go on with it by --resume, or name another place",
            )
        file = CampaignFile.create(folder, experiment, design, program.build_hash)
        ledger = Ledger(folder)
        ledger.plan(file.content)
        return cls(experiment, design, file, ledger)

    @classmethod
    def reopen(cls, experiment: Experiment, design: Design, folder: Path) -> _Campaign:
        file = CampaignFile.reopen(folder, experiment, design)
        remove_partials(folder)
        remove_partials(folder / TRIALS)
        remove_partials(folder / BACKGROUND)
        # The manifests are the truth; a ledger that a killed lab left may be behind them.
        return cls(experiment, design, file, Ledger.rebuild_from(folder))

    def __enter__(self) -> _Campaign:
        return self

    def __exit__(self, *_: object) -> None:
        self._ledger.close()
        if self.idle is not None:
            self.idle.discard()

    async def store_idle(self) -> None:
        """Write down the background before the trials, where that is not done yet: once a load is off."""
        idle, self.idle = self.idle, None
        if idle is not None:
            await idle.store()

    def tell_damaged(self, watcher: Watcher) -> None:
        """Says what is measured again because what is stored of it is not whole."""
        for name, (wrong, left) in self._ledger.damaged.items():
            text = f"made again, as what was stored of it is damaged ({wrong}); what is left lies in {left}"
            self.warner(watcher)(Warning(WarningCode.RETRIED, text, name))

    def begin_course(self, strategies: Sequence[Strategy], watcher: Watcher) -> Course:
        """The course that the strategies ask for, from its begin."""

        def take(answer: Answer, ran: bool) -> None:
            self.note(**{answer.section: answer.content})
            if ran:
                watcher.on_answer(answer, self.time_left_ns(()) if answer.left_ns is None else answer.left_ns)

        self.course = Course(strategies, self._experiment, self._design, self._ledger, self._folder, take)
        return self.course

    async def open(self, testbeds: Testbeds, destroy: Collection[str], watcher: Watcher) -> None:
        """Makes the hosts ready for trials, and writes down what they are."""
        for testbed in testbeds:
            testbed.tell = watcher.on_stage
        self.meet(testbeds, watcher)
        watcher.on_stage("calibrating the instrument")
        self.note(calibration=await calibrate(testbeds.first))
        if self.load.has_targets:
            watcher.on_stage("making the targets ready")
            await self.make_ready(testbeds, destroy, watcher)
        watcher.on_stage("checking what the hosts can carry")
        checks = await testbeds.checked(
            lambda testbed: preflight(testbed, self._design, self.warner(watcher))
        )
        self.skip(testbeds.skipped, watcher)
        self.tell_left_out(testbeds, watcher)
        if self.lacks("before"):
            watcher.on_stage("measuring the background")
            self.idle = await measure_background(testbeds.first, self._folder, "before", self.clock)
            checks.append(idle_line(testbeds.first, self.idle.busy, self.warner(watcher)))
            self.note(preflight=checks)
        elif not self._background:
            self.note(preflight=checks)

        async def begin(strategy: Strategy) -> None:
            if strategy.stage:
                watcher.on_stage(strategy.stage)
            if strategy.foreign and self.lacks_foreign():
                self.note(foreign=await testbeds.first.tunables.there(strategy.foreign))

        self.course.on_begin = begin

    def skip(self, skipped: Skipped, watcher: Watcher) -> None:
        """Writes down which points this machine cannot have, and why; their trials are not run."""
        self.note(skipped=dict(skipped.points))
        for level, text in skipped.levels.items():
            self.warner(watcher)(Warning(WarningCode.SKIPPED, text, f"path {level}"))
        entries = self._ledger.entries()
        for planned in self._design.trials:
            reason = skipped.points.get(planned.point.id)
            if reason and entries[planned.order].status != "finished":
                self._ledger.mark(planned.order, "skipped", 0, reason=reason)

    async def make_ready(self, testbeds: Testbeds, destroy: Collection[str], watcher: Watcher) -> None:
        """Makes the targets of a load on disks ready, and writes down what became of each. Raises PreflightError."""
        for testbed in testbeds:
            settings = self._settings(testbed)
            testbed.targets = await self.load.make_ready(testbed, settings, destroy, watcher.on_stage)
            self.note(targets=testbed.targets)
            await self.load.fill(testbed, settings, watcher.on_stage)

    async def remove_targets(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Removes the files that were laid out for the load."""
        for testbed in testbeds:
            for place in await self.load.remove(testbed, self._settings(testbed)):
                watcher.on_stage(f"removed {place}")

    def _settings(self, testbed: Testbed) -> list[dict[str, Any]]:
        """The settings of the points that the testbed is for."""
        every = (self._experiment.settings(point.levels) for point in self._design.points)
        return [settings for settings in every if path_of(settings) == testbed.path]

    async def measure_again(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Measure the background after the trials, if there is one."""
        if not self._background:
            return
        watcher.on_stage("measuring the background again")
        try:
            after = await measure_background(testbeds.first, self._folder, "after", self.clock)
        except AccessError as error:
            # All trials are done; what they tell does not go with a host.
            self.cut = error
        else:
            await after.store()

    @property
    def _background(self) -> bool:
        """Tell whether the idle machine is measured: it tells what a cost is without, and there is none without sensors."""
        return self._experiment.sensors != "off"

    def lacks(self, when: str) -> bool:
        """Tell whether that background is not measured yet."""
        return self._background and not (self._folder / BACKGROUND / when).exists()

    def lacks_foreign(self) -> bool:
        """Tell whether the hosts are still to be asked what others have set there."""
        return self.course.foreign and "foreign" not in self._file.content

    def tell_left_out(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Writes down which pairs of machines the campaign goes on without."""
        for warning in testbeds.left_out:
            self.warner(watcher)(warning)
        testbeds.left_out.clear()

    def meet(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Writes down what the hosts are: those of the first testbed for all, and what the others have of their own."""
        warnings = [of_pair(warning, testbed.pair) for testbed in testbeds for warning in testbed.warnings]
        for warning in [*of_hosts(list(dict.fromkeys(warnings))), *self._file.add_hosts(testbeds.first)]:
            self.warner(watcher)(warning)
        self.note(paths={str(testbed.path): hosts_json(testbed) for testbed in testbeds if testbed.path})
        if self._experiment.placement:
            pairs = {testbed.pair: hosts_json(testbed) for testbed in testbeds}
            self.note(pairs={**(self._file.content.get("pairs") or {}), **pairs})
            self.tell_left_out(testbeds, watcher)

    def warner(self, watcher: Watcher) -> Any:
        """Return a function that takes warnings about the campaign."""

        def take(warning: Warning) -> None:
            self._file.add_warnings([warning])
            watcher.on_warning(warning)

        return take

    def note(self, **content: Any) -> None:
        """Writes something down in `campaign.json`."""
        self._file.content |= content
        self._file.save()

    def time_left_ns(self, to_do: Sequence[PlannedTrial]) -> int:
        """Windows and overhead of the trials to do, of those that are expected to follow, and the background after them. Of
        scripts, which end before their windows do, the overhead is less than nothing.
        """
        load_ns = sum(self._windows(planned).load_ns for planned in to_do) + len(to_do) * self._overhead_ns
        load_ns += max(0, len(to_do) - 1) * self._experiment.limits.rest_ns
        if answer := self.course.answer:
            load_ns += answer.further_trials * (self._experiment.windows.load_ns + self._overhead_ns)
        return max(0, load_ns) + (self._experiment.limits.background_ns if self._background else 0)

    @property
    def _overhead_ns(self) -> int:
        known = self._overheads_ns or [OVERHEAD_NS]
        return sum(known) // len(known)

    def _windows(self, planned: PlannedTrial) -> Windows:
        windows = self._experiment.windows
        if planned.perturbation:
            return perturbation.windows(windows)
        return windows.measuring(planned.point.measured_ns or windows.measured_ns)

    async def execute_all(self, testbeds: Testbeds, watcher: Watcher) -> int | None:
        """The trials that are due, one after the other, up to a pause without agents of so many ns; None: these were all."""
        last: PlannedTrial | None = None
        while planned := await self.course.due():
            if last and (pause_ns := self.course.pause_ns(last, planned)) is not None:
                return pause_ns
            settings = self._experiment.settings(planned.point.levels)
            if reason := testbeds.why_skipped(settings, planned.pair):
                self._ledger.mark(planned.order, "skipped", 0, reason=reason)
                continue
            watcher.on_time_left(self._left_ns(self.course.batch))
            if last:
                await asyncio.sleep(self._experiment.limits.rest_ns / 1e9)
            try:
                await self.execute(testbeds.of(settings, planned.pair), planned, watcher)
            except AccessError as error:
                if planned.pair is None:
                    raise
                await testbeds.leave_out(planned.pair, error)
                self.tell_left_out(testbeds, watcher)
                continue
            self.course.ran(planned)
            last = planned
        return None

    def _left_ns(self, to_do: Sequence[PlannedTrial]) -> int:
        """Estimate the time that the rest takes, at most where its strategy has a time of its own."""
        answer = self.course.answer
        return self.time_left_ns(to_do) if answer is None or answer.left_ns is None else answer.left_ns

    async def execute(self, testbed: Testbed, planned: PlannedTrial, watcher: Watcher) -> None:
        """One trial with its retries; a failure that stays is in the ledger."""
        before = self._ledger.entries()[planned.order].attempt
        attempt = before + 1
        while attempt <= before + 1 + self._experiment.limits.retries:
            may_wait_longer = testbed.can_wait_longer
            self._ledger.mark(planned.order, "running", attempt)
            watcher.on_trial_start(planned, attempt)
            try:
                failure = await self._attempt(testbed, planned, attempt, before + 1, watcher)
            except BaseException:
                self._ledger.mark(planned.order, "planned", attempt - 1)
                raise
            if failure is None:
                return
            known = set(testbed.left_out)
            await testbed.recover(failure)
            for name in testbed.left_out.keys() - known:
                self.warner(watcher)(testbed.left_out[name])
            if failure.code in CERTAIN:
                # A second later it fails in the same way.
                return
            # A start that came too late measured nothing: it is armed further ahead, and counts as no attempt.
            attempt += not (failure.code == "late" and may_wait_longer)

    async def _attempt(
        self, testbed: Testbed, planned: PlannedTrial, attempt: int, first: int, watcher: Watcher
    ) -> TrialError | None:
        """Executes and stores one attempt; gives the reason when it failed."""
        name = trial_name(planned, attempt)
        settings = self._experiment.settings(planned.point.levels)
        change, windows = planned.perturbation, self._windows(planned)
        if change and change.setting and change.after is not None:
            settings[change.setting] = change.after
        account, failure = Account(), None
        last = planned.order + 1 == len(self._design.trials)
        if attempt > first:
            account.warning(
                WarningCode.RETRIED, f"attempt {attempt}: the one before failed, see its manifest"
            )
        began_ns, started = time.monotonic_ns(), self.clock.text()
        writer = TrialWriter(self._folder / TRIALS, name)
        # Of each host on its own clock.
        loads_began_ns: dict[str, int] = {}
        measured_ns = windows.load_ns - windows.drain_ns - windows.interval_ns // 2

        def keep(host: str, record: SentRecord) -> None:
            role = account.role(host)
            writer.add_record(host, OPERATIONS[role], record.payload)
            if self.feed:
                cpus = account.hosts[host]["cpus"] if host in account.hosts else []
                place = {"role": role, "operation": OPERATIONS[role], "cpus": cpus}
                self.feed.record(name, host, place, record.payload)
            if host in account.hosts:
                watcher.on_progress(host, record.progress)
            began = loads_began_ns.setdefault(host, record.progress["begin_ns"])
            if last and record.progress["end_ns"] - began >= measured_ns and not self.gone_ahead:
                self.gone_ahead = asyncio.ensure_future(asyncio.to_thread(self.ahead))

        def keep_metric(row: Row) -> None:
            writer.add_metric(row)
            if self.feed:
                self.feed.event("metric", trial=name, **row)

        try:
            try:
                await carry_out(
                    testbed, name, settings, windows, account, keep, writer.add_profile, keep_metric
                )
            except TrialError as error:
                failure = self.load.classified(error)
                if failure.code == "late" and testbed.can_wait_longer:
                    writer.discard()
                    return failure
            self._look_at_wall_clock(account)
            manifest = {
                "trial": name,
                "order": planned.order,
                "attempt": attempt,
                "block": planned.block,
                "replicate": planned.replicate,
                "point": planned.point.id,
                "levels": dict(planned.point.levels),
                "settings": self.load.settings(self._experiment, settings),
                "status": "failed" if failure else "finished",
                "reason": _reason(failure),
                "started_wall": started,
                "windows": vars(windows),
                "start": account.start,
                "hosts": account.hosts,
                "warnings": [warning_json(warning) for warning in account.warnings],
                "overhead_ns": account.overhead_ns,
                "purpose": "proof" if change else "design",
                "perturbation": asdict(change) if change else None,
                "path": account.path,
                **({"pair": testbed.pair} if testbed.pair else {}),
                "bystanders": beside(account),
                "losses": account.losses,
                "targets": account.targets,
                **({"metrics": account.metrics} if account.metrics else {}),
            }
            folder = await sealed(writer, manifest)
        except BaseException:
            writer.discard()
            raise
        await self.store_idle()
        self._ledger.mark(
            planned.order,
            "failed" if failure else "finished",
            attempt,
            reason=f"{failure.code}: {failure.what}" if failure else None,
            folder=f"{TRIALS}/{folder.name}",
        )
        if not failure:
            took_ns = time.monotonic_ns() - began_ns
            self._overheads_ns.append(took_ns - windows.load_ns)
            # Without this one, so that its line says what is left after it.
            watcher.on_time_left(self._left_ns(self.course.batch[1:]))
        watcher.on_trial_end(planned, manifest)
        return failure

    def _look_at_wall_clock(self, account: Account) -> None:
        """Tells where the wall clock was set since the last look: times of other files and programs jump there."""
        if step_ns := self.clock.step_ns():
            how = f"{'forward' if step_ns > 0 else 'back'} by {abs(step_ns) / 1e9:.1f} s"
            account.warning(
                WarningCode.CLOCK_STEPPED,
                f"iodyno's wall clock was set {how} in this trial or since the one before: the times at which trials"
                " started go on from what it was before",
                "lab",
            )

    def finish(self) -> CampaignOutcome:
        """Closes the books."""
        of_design = {planned.order for planned in self.course.asked if planned.perturbation is None}
        entries = [entry for entry in self._ledger.entries().values() if entry.order in of_design]
        failed = tuple(entry for entry in entries if entry.status == "failed")
        skipped = tuple(entry for entry in entries if entry.status == "skipped")
        finished = sum(entry.status == "finished" for entry in entries)
        complete = finished + len(skipped) == len(of_design)
        self.note(finished=complete)
        return CampaignOutcome(
            self._folder, finished, failed, skipped, self.course.answers, complete, self.cut
        )


def of_pair(warning: Warning, pair: str) -> Warning:
    """The warning about a testbed, with its pair of machines where there are several."""
    return (
        replace(warning, where=", ".join(filter(None, (f"pair {pair}", warning.where)))) if pair else warning
    )


def _reason(failure: TrialError | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"code": failure.code, "what": failure.what, "where": failure.where, "advice": failure.advice}
