"""Executes a design: open the hosts, preflight, background, trials, background, close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from iodyno.campaign import alone, checked_layout, decide, leftovers, prove, target_care
from iodyno.campaign.background import Background, measure_background
from iodyno.campaign.calibrate import calibrate
from iodyno.campaign.feed import Feed, Told, fed, trial_name
from iodyno.campaign.folder import CampaignFile, hosts_json, warning_json
from iodyno.campaign.ledger import Entry, Ledger
from iodyno.campaign.lock import held
from iodyno.campaign.preflight import idle_line, preflight
from iodyno.campaign.scripted import load_settings
from iodyno.campaign.sealed import sealed
from iodyno.campaign.seek import Searched, Seeker
from iodyno.campaign.testbed import Testbed, path_of
from iodyno.campaign.testbeds import Skipped, Testbeds
from iodyno.campaign.trial import OPERATIONS, Account, beside, carry_out
from iodyno.campaign.tunables import TestbedTunables
from iodyno.core.decision import Standing, ended
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import CERTAIN, AccessError, StoreError, TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.search import Found
from iodyno.core.warnings import Warning, WarningCode
from iodyno.designs import perturbation
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.guard import restore_here
from iodyno.session.locate import find_agent
from iodyno.session.sent import SentRecord
from iodyno.store.schema import BACKGROUND, CAMPAIGN, TRIALS
from iodyno.store.writer import TrialWriter, remove_partials

OVERHEAD_NS = 500_000_000
"""Time of a trial outside its windows, to tell the time left before there is a measurement of it."""
_WALL_STEP_NS = 500_000_000
"""Least step that is told (chosen: half a leap second, and longer than the lab waits for a CPU between two looks at clocks)."""


class Watcher(Protocol):
    """Who looks on: progress, numbers, time left."""

    def on_stage(self, text: str) -> None:
        """A stage of the campaign begins."""

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """A trial begins."""

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """A host has gone through an interval, of which this is the wire's `progress` message."""

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """A trial has finished or failed."""

    def on_warning(self, warning: Warning) -> None:
        """A warning has come up that is about the campaign, not about one trial."""

    def on_time_left(self, time_left_ns: int) -> None:
        """How long the rest of the campaign takes."""

    def on_look(self, standing: Standing) -> None:
        """A block is done; where the decision stands."""

    def on_search(self, found: Found, time_left_ns: int) -> None:
        """A trial of a search is done; where the search of its point stands, and how long all of it takes at most."""


@dataclass(frozen=True)
class CampaignOutcome:
    """How a campaign ended: trials finished, and trials of the design that failed for good, or were skipped, with
    their reasons; and what was decided, where that was asked. `complete`: all that was due is finished or skipped.
    `cut`: why the background after the trials is not measured; the next start makes up for it.
    """

    folder: Path
    finished: int
    failed: tuple[Entry, ...] = field(default=())
    skipped: tuple[Entry, ...] = field(default=())
    decision: Standing | None = None
    complete: bool = False
    cut: AccessError | None = None


async def run_campaign(
    experiment: Experiment,
    design: Design,
    folder: Path,
    *,
    resume: bool,
    watcher: Watcher,
    program: AgentProgram | None = None,
    strategy: prove.Strategy | None = None,
    seeker: Seeker | None = None,
    decider: decide.Decider | None = None,
    last_block: int | None = None,
    destroy: Collection[str] = (),
    remove_targets: bool = False,
    stored: Callable[[], None] = lambda: None,
) -> CampaignOutcome:
    """Executes what of the design is not finished yet, into `folder`, which exists.

    With a `strategy`, it is asked for the trials of a proof when those of the design are done, once. With a `seeker`, it
    is asked for the next trial after each, until there is none. With a `decider`, the blocks of the design end when it has
    an answer. With `last_block`, it ends after that block, to be resumed: the agents of the next are started anew.
    `destroy`: targets of a load on disks whose content may be lost. `remove_targets`: the files that were laid out go when
    the campaign is complete. `stored` is called when all is on the disk, while the agents are still there.
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
        fed(folder, experiment.name, len(design.trials)) as feed,
    ):
        campaign.feed, watcher = feed, Told(watcher, feed)
        campaign.last_block = last_block
        campaign.tell_damaged(watcher)
        to_do = campaign.to_do()
        unproved = strategy if not campaign.has_proof() else None
        if to_do or unproved or seeker or campaign.lacks("after"):
            watcher.on_stage("opening the hosts")
            async with Testbeds(experiment, design, program) as testbeds:
                for testbed in testbeds:
                    testbed.tell = watcher.on_stage
                campaign.meet(testbeds, watcher)
                watcher.on_stage("calibrating the instrument")
                campaign.note(calibration=await calibrate(testbeds.first))
                if experiment.workload.hosts and experiment.workload.program is None:
                    watcher.on_stage("making the targets ready")
                    await campaign.make_ready(testbeds, destroy, watcher)
                watcher.on_stage("checking what the hosts can carry")
                checks = await testbeds.checked(
                    lambda testbed: preflight(testbed, design, campaign.warner(watcher))
                )
                campaign.skip(testbeds.skipped, watcher)
                watcher.on_stage("measuring the background")
                testbed = testbeds.first
                if campaign.lacks("before"):
                    campaign.idle = await measure_background(testbed, folder, "before")
                    checks.append(idle_line(testbed, campaign.idle.busy, campaign.warner(watcher)))
                    campaign.note(preflight=checks)
                if decider:
                    await campaign.execute_until(testbeds, decider, watcher)
                else:
                    await campaign.execute_all(testbeds, campaign.to_do(), watcher)
                if seeker:
                    watcher.on_stage("searching")
                    await campaign.seek(testbeds, seeker, watcher)
                if unproved:
                    watcher.on_stage("asking what limits")
                    await campaign.plan_proof(unproved, testbed.tunables)
                    await campaign.execute_all(testbeds, campaign.to_do(proof=True), watcher)
                if campaign.complete():
                    watcher.on_stage("measuring the background again")
                    try:
                        after = await measure_background(testbed, folder, "after")
                    except AccessError as error:
                        # All trials are done; what they tell does not go with a host.
                        campaign.cut = error
                    else:
                        await after.store()
                    if remove_targets and not campaign.cut:
                        await campaign.remove_targets(testbeds, watcher)
                stored()
        return campaign.finish()


class _Campaign:
    """A campaign's folder and ledger while it runs."""

    def __init__(self, experiment: Experiment, design: Design, file: CampaignFile, ledger: Ledger) -> None:
        self._experiment = experiment
        self._design = design
        self._folder = file.folder
        self._file = file
        self._ledger = ledger
        self._overheads_ns: list[int] = []
        self._wall_ahead_ns = _wall_ahead_ns()
        self._to_do: list[PlannedTrial] = []
        self.last_block: int | None = None
        self.cut: AccessError | None = None
        self.feed: Feed | None = None
        self.idle: Background | None = None
        stored = file.content.get("proof")
        self._proof = prove.from_json(stored, design) if stored else None
        searched = file.content.get("search")
        self._searched = Searched.from_json(searched) if searched else Searched()
        decided = file.content.get("until")
        self._standing = decide.from_json(decided) if decided else None

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
        """Says which trials are made again because what is stored of them is not whole."""
        for name, (wrong, left) in self._ledger.damaged.items():
            text = f"made again, as what was stored of it is damaged ({wrong}); what is left lies in {left}"
            self.warner(watcher)(Warning(WarningCode.RETRIED, text, f"trial {name}"))

    def to_do(self, *, proof: bool = False) -> list[PlannedTrial]:
        """Trials that are not finished, in the order of the design; those that failed are tried again.

        Those of the proof come last; with `proof`, only they.
        """
        entries = self._ledger.entries()
        of_design = () if self._standing and self._standing.ended else self._design.trials
        if self.last_block is not None:
            of_design = tuple(planned for planned in of_design if planned.block <= self.last_block)
        planned_before = () if proof else (*of_design, *self._searched.trials)
        trials = [*planned_before, *(self._proof.trials if self._proof else ())]
        done = ("finished", "skipped")
        # Wrong data that was found stays found: another attempt may read other blocks.
        wrong = f"{alone.WRONG_DATA}:"
        return [
            planned
            for planned in trials
            if entries[planned.order].status not in done
            and not str(entries[planned.order].reason or "").startswith(wrong)
        ]

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
            testbed.targets = await target_care.make_ready(testbed, settings, destroy, watcher.on_stage)
            self.note(targets=testbed.targets)
            await checked_layout.write_checks(testbed, settings, watcher.on_stage)

    async def remove_targets(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Removes the files that were laid out for the load."""
        for testbed in testbeds:
            for place in await target_care.remove(testbed, self._settings(testbed)):
                watcher.on_stage(f"removed {place}")

    def _settings(self, testbed: Testbed) -> list[dict[str, Any]]:
        """The settings of the points that the testbed is for."""
        every = (self._experiment.settings(point.levels) for point in self._design.points)
        return [settings for settings in every if path_of(settings) == testbed.path]

    def complete(self) -> bool:
        """Whether no block of the design is left for another start of the agents."""
        return self.last_block is None or all(
            planned.block <= self.last_block for planned in self._design.trials
        )

    def has_proof(self) -> bool:
        """Whether it is planned already what tests the limiters."""
        return self._proof is not None

    async def plan_proof(self, strategy: prove.Strategy, tunables: TestbedTunables) -> None:
        """Asks for the trials of the proof, and writes them down before the first of them runs."""
        there = await tunables.there(perturbation.FOREIGN) if self._experiment.prove == "foreign" else {}
        # It reads what was stored, which takes a while; the agents must hear of the lab meanwhile.
        self._proof = await asyncio.to_thread(
            strategy.plan, self._experiment, self._design, self._folder, there
        )
        self._ledger.add(self._proof.trials)
        self.note(proof=prove.as_json(self._proof))

    async def seek(self, testbeds: Testbeds, seeker: Seeker, watcher: Watcher) -> None:
        """Executes what the seeker asks for, one trial after the other."""
        spec = self._experiment.search
        begun_ns: dict[str, int] = {}
        while True:
            step, found = await asyncio.to_thread(
                seeker.next, self._experiment, self._design, self._folder, self._searched
            )
            self._searched.found = list(found)
            if found and spec:
                # Each point has its time; what one did not need is not left for the others.
                now_ns, last = time.monotonic_ns(), found[-1]
                spent_ns = now_ns - begun_ns.setdefault(last.point, now_ns)
                here_ns = 0 if last.ended else max(0, spec.time_ns - spent_ns)
                left_ns = here_ns + spec.time_ns * (len(self._design.points) - len(found))
                if last.trials:
                    watcher.on_search(last, left_ns)
                watcher.on_time_left(left_ns)
            if step is None:
                self.note(search=self._searched.as_json())
                return
            entries = self._ledger.entries()
            planned = self._searched.add(step, max(entries, default=-1) + 1)
            self._ledger.add([planned])
            self.note(search=self._searched.as_json())
            await self.execute(testbeds.of(self._experiment.settings(planned.point.levels)), planned, watcher)

    async def execute_until(self, testbeds: Testbeds, decider: decide.Decider, watcher: Watcher) -> None:
        """Blocks of the design, one after the other, until the decider has an answer or there are no more."""
        if self._standing and self._standing.ended:
            return
        blocks = decide.blocks_of(self._design)
        for number, block in enumerate(blocks, start=1):
            entries = self._ledger.entries()
            to_do = [
                planned for planned in block if entries[planned.order].status not in ("finished", "skipped")
            ]
            if not to_do and self._standing and self._standing.blocks >= number:
                continue
            await self.execute_all(testbeds, to_do, watcher)
            found = await asyncio.to_thread(
                decider.look, self._experiment, self._design, self._folder, number, self._standing
            )
            none_left = all(entries[planned.order].status == "skipped" for planned in self._design.trials)
            if found.answer != "undecided":
                found = ended(found, "decided")
            elif number == len(blocks) or none_left:
                found = ended(found, "limit")
            self._standing = found
            self.note(until=decide.as_json(found))
            watcher.on_look(found)
            if found.ended:
                return

    def lacks(self, when: str) -> bool:
        """Whether that background is not measured yet."""
        return not (self._folder / BACKGROUND / when).exists()

    def meet(self, testbeds: Testbeds, watcher: Watcher) -> None:
        """Writes down what the hosts are: those of the first testbed for all, and what the others have of their own."""
        warnings = [warning for testbed in testbeds for warning in testbed.warnings]
        for warning in [*dict.fromkeys(warnings), *self._file.add_hosts(testbeds.first)]:
            self.warner(watcher)(warning)
        self.note(paths={str(testbed.path): hosts_json(testbed) for testbed in testbeds if testbed.path})

    def warner(self, watcher: Watcher) -> Any:
        """Who takes warnings about the campaign."""

        def take(warning: Warning) -> None:
            self._file.add_warnings([warning])
            watcher.on_warning(warning)

        return take

    def note(self, **content: Any) -> None:
        """Writes something down in `campaign.json`."""
        self._file.content |= content
        self._file.save()

    def time_left_ns(self, to_do: list[PlannedTrial]) -> int:
        """Windows and overhead of the trials to do, and the background after them. Of scripts, which end before their windows
        do, the overhead is less than nothing.
        """
        overhead_ns = self._overhead_ns
        load_ns = sum(self._windows(planned).load_ns for planned in to_do)
        if to_do and self._standing and not self._standing.ended and self._standing.more_trials:
            # What the last look expected, of which the block under way is a part.
            expected = min(self._standing.trials + self._standing.more_trials, len(self._design.trials))
            further = max(0, expected - to_do[-1].order - 1)
            load_ns += further * (self._experiment.windows.load_ns + overhead_ns)
        return max(0, load_ns + len(to_do) * overhead_ns) + self._experiment.limits.background_ns

    @property
    def _overhead_ns(self) -> int:
        known = self._overheads_ns or [OVERHEAD_NS]
        return sum(known) // len(known)

    def _windows(self, planned: PlannedTrial) -> Windows:
        windows = self._experiment.windows
        return perturbation.windows(windows) if planned.perturbation else windows

    async def execute_all(self, testbeds: Testbeds, to_do: list[PlannedTrial], watcher: Watcher) -> None:
        """The trials, one after the other."""
        for number, planned in enumerate(to_do):
            self._to_do = to_do[number:]
            watcher.on_time_left(self.time_left_ns(self._to_do))
            testbed = testbeds.of(self._experiment.settings(planned.point.levels))
            await self.execute(testbed, planned, watcher)
        self._to_do = []

    async def execute(self, testbed: Testbed, planned: PlannedTrial, watcher: Watcher) -> None:
        """One trial with its retries; a failure that stays is in the ledger."""
        before = self._ledger.entries()[planned.order].attempt
        for attempt in range(before + 1, before + 2 + self._experiment.limits.retries):
            self._ledger.mark(planned.order, "running", attempt)
            watcher.on_trial_start(planned, attempt)
            try:
                failure = await self._attempt(testbed, planned, attempt, before + 1, watcher)
            except BaseException:
                self._ledger.mark(planned.order, "planned", attempt - 1)
                raise
            if failure is None:
                return
            await testbed.recover(failure)
            if failure.code in CERTAIN:
                # A second later it fails in the same way.
                return

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
        if attempt > first:
            account.warning(
                WarningCode.RETRIED, f"attempt {attempt}: the one before failed, see its manifest"
            )
        began_ns, started = time.monotonic_ns(), datetime.now(UTC)
        writer = TrialWriter(self._folder / TRIALS, name)

        def keep(host: str, record: SentRecord) -> None:
            role = account.role(host)
            writer.add_record(host, OPERATIONS[role], record.payload)
            if self.feed:
                cpus = account.hosts[host]["cpus"] if host in account.hosts else []
                place = {"role": role, "operation": OPERATIONS[role], "cpus": cpus}
                self.feed.record(name, host, place, record.payload)
            if host in account.hosts:
                watcher.on_progress(host, record.progress)

        try:
            try:
                await carry_out(testbed, name, settings, windows, account, keep, writer.add_profile)
            except TrialError as error:
                failure = alone.told(error)
            self._look_at_wall_clock(account)
            manifest = {
                "trial": name,
                "order": planned.order,
                "attempt": attempt,
                "block": planned.block,
                "replicate": planned.replicate,
                "point": planned.point.id,
                "levels": dict(planned.point.levels),
                "settings": load_settings(self._experiment, settings),
                "status": "failed" if failure else "finished",
                "reason": _reason(failure),
                "started_wall": started.isoformat(timespec="milliseconds"),
                "windows": vars(windows),
                "start": account.start,
                "hosts": account.hosts,
                "warnings": [warning_json(warning) for warning in account.warnings],
                "overhead_ns": account.overhead_ns,
                "purpose": "proof" if change else "design",
                "perturbation": asdict(change) if change else None,
                "path": account.path,
                "bystanders": beside(account),
                "losses": account.losses,
                "targets": account.targets,
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
            if self._to_do:
                # Without this one, so that its line says what is left after it.
                left_ns = self.time_left_ns(self._to_do) - windows.load_ns - self._overhead_ns
                watcher.on_time_left(max(self._experiment.limits.background_ns, left_ns))
        watcher.on_trial_end(planned, manifest)
        return failure

    def _look_at_wall_clock(self, account: Account) -> None:
        """Warnings the times of day in manifests where the clock was set since the last look. Nobody sets the other clocks."""
        ahead_ns = _wall_ahead_ns()
        moved_ns, self._wall_ahead_ns = ahead_ns - self._wall_ahead_ns, ahead_ns
        if abs(moved_ns) > _WALL_STEP_NS:
            how = f"{'forward' if moved_ns > 0 else 'back'} by {abs(moved_ns) / 1e9:.1f} s"
            account.warning(
                WarningCode.CLOCK_STEPPED,
                f"the lab's wall clock was set {how} in this trial or since the one before: the times at which"
                " trials started do not compare across it",
                "lab",
            )

    def finish(self) -> CampaignOutcome:
        """Closes the books."""
        trials: Sequence[PlannedTrial] = self._design.trials
        if self._standing:
            # Blocks after the decision are not missing: nobody needs them.
            trials = [
                planned
                for block in decide.blocks_of(self._design)[: self._standing.blocks]
                for planned in block
            ]
        of_design = {planned.order for planned in (*trials, *self._searched.trials)}
        entries = [entry for entry in self._ledger.entries().values() if entry.order in of_design]
        failed = tuple(entry for entry in entries if entry.status == "failed")
        skipped = tuple(entry for entry in entries if entry.status == "skipped")
        finished = sum(entry.status == "finished" for entry in entries)
        complete = finished + len(skipped) == len(of_design)
        self.note(finished=complete)
        return CampaignOutcome(self._folder, finished, failed, skipped, self._standing, complete, self.cut)


def _wall_ahead_ns() -> int:
    """How far the wall clock is ahead of the time since boot: changed by nothing but setting it."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def _reason(failure: TrialError | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"code": failure.code, "what": failure.what, "where": failure.where, "advice": failure.advice}
