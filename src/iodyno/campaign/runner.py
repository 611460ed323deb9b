"""Executes a design: open the hosts, preflight, background, trials, background, close."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from iodyno.campaign import prove
from iodyno.campaign.background import measure_background
from iodyno.campaign.calibrate import calibrate
from iodyno.campaign.folder import CampaignFile, doubt_json
from iodyno.campaign.ledger import Entry, Ledger
from iodyno.campaign.preflight import idle_line, preflight
from iodyno.campaign.rig import Rig
from iodyno.campaign.trial import OPERATIONS, Account, carry_out, recover
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import StoreError, TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.warnings import Doubt, WarningCode
from iodyno.designs import perturbation
from iodyno.hosts.access import AgentProgram
from iodyno.session.locate import find_agent
from iodyno.store.schema import BACKGROUND, CAMPAIGN, TRIALS
from iodyno.store.writer import TrialWriter, remove_partials

OVERHEAD_NS = 500_000_000
"""Time of a trial outside its windows, to tell the time left before there is a measurement of it."""


class Watcher(Protocol):
    """Who looks on: progress, numbers, time left."""

    def on_stage(self, text: str) -> None:
        """A stage of the campaign begins."""

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """A trial begins."""

    def on_record(self, host: str, record: Mapping[str, Any]) -> None:
        """A host has sent the record of an interval."""

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """A trial has finished or failed."""

    def on_doubt(self, doubt: Doubt) -> None:
        """A doubt has come up that is about the campaign, not about one trial."""

    def on_time_left(self, time_left_ns: int) -> None:
        """How long the rest of the campaign takes."""


@dataclass(frozen=True)
class CampaignOutcome:
    """How a campaign ended: trials finished, and trials of the design that failed for good with their reasons."""

    folder: Path
    finished: int
    failed: tuple[Entry, ...] = field(default=())


async def run_campaign(
    experiment: Experiment,
    design: Design,
    folder: Path,
    *,
    resume: bool,
    watcher: Watcher,
    program: AgentProgram | None = None,
    strategy: prove.Strategy | None = None,
) -> CampaignOutcome:
    """Executes what of the design is not finished yet, into `folder`, which exists.

    With a `strategy`, it is asked for the trials of a proof when those of the design are done, once.
    Raises AccessError, PreflightError and StoreError; a trial that fails is kept, retried within the limit and then
    left, and comes up in the outcome. When it is cancelled, everything is removed and the folder can be resumed.
    """
    program = program or find_agent()
    campaign = _Campaign.reopen(experiment, design, folder) if resume else None
    campaign = campaign or _Campaign.create(experiment, design, folder, program)
    with campaign:
        to_do = campaign.to_do()
        unproved = strategy if not campaign.has_proof() else None
        if to_do or unproved or campaign.lacks("after"):
            watcher.on_stage("opening the hosts")
            async with Rig(experiment, program) as rig:
                campaign.meet(rig, watcher)
                watcher.on_stage("calibrating the instrument")
                campaign.note(calibration=await calibrate(rig))
                watcher.on_stage("checking what the hosts can carry")
                checks = await preflight(rig, design, campaign.doubter(watcher))
                watcher.on_stage("measuring the background")
                busy = await measure_background(rig, folder, "before") if campaign.lacks("before") else None
                if busy is not None:
                    checks.append(idle_line(rig, busy, campaign.doubter(watcher)))
                    campaign.note(preflight=checks)
                await campaign.execute_all(rig, to_do, watcher)
                if unproved:
                    watcher.on_stage("asking what limits")
                    await campaign.plan_proof(unproved)
                    await campaign.execute_all(rig, campaign.to_do(proof=True), watcher)
                watcher.on_stage("measuring the background again")
                await measure_background(rig, folder, "after")
        return campaign.finish()


class _Campaign:
    """A campaign's folder and ledger while it runs."""

    def __init__(self, experiment: Experiment, design: Design, file: CampaignFile, ledger: Ledger) -> None:
        self._experiment = experiment
        self._design = design
        self._folder = file.folder
        self._file = file
        self._ledger = ledger
        self._overheads_ns = [OVERHEAD_NS]
        stored = file.content.get("proof")
        self._proof = prove.from_json(stored, design) if stored else None

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

    def to_do(self, *, proof: bool = False) -> list[PlannedTrial]:
        """Trials that are not finished, in the order of the design; those that failed are tried again.

        Those of the proof come last; with `proof`, only they.
        """
        entries = self._ledger.entries()
        trials = [*(() if proof else self._design.trials), *(self._proof.trials if self._proof else ())]
        return [planned for planned in trials if entries[planned.order].status != "finished"]

    def has_proof(self) -> bool:
        """Whether it is planned already what tests the limiters."""
        return self._proof is not None

    async def plan_proof(self, strategy: prove.Strategy) -> None:
        """Asks for the trials of the proof, and writes them down before the first of them runs."""
        # It reads what was stored, which takes a while; the agents must hear of the lab meanwhile.
        self._proof = await asyncio.to_thread(strategy.plan, self._experiment, self._design, self._folder)
        self._ledger.add(self._proof.trials)
        self.note(proof=prove.as_json(self._proof))

    def lacks(self, when: str) -> bool:
        """Whether that background is not measured yet."""
        return not (self._folder / BACKGROUND / when).exists()

    def meet(self, rig: Rig, watcher: Watcher) -> None:
        """Writes down what the hosts are."""
        for doubt in [*rig.doubts, *self._file.add_hosts(rig)]:
            self.doubter(watcher)(doubt)
        self._file.save()

    def doubter(self, watcher: Watcher) -> Any:
        """Who takes doubts about the campaign."""

        def take(doubt: Doubt) -> None:
            self._file.add_doubts([doubt])
            watcher.on_doubt(doubt)

        return take

    def note(self, **content: Any) -> None:
        """Writes something down in `campaign.json`."""
        self._file.content |= content
        self._file.save()

    def time_left_ns(self, to_do: list[PlannedTrial]) -> int:
        """Windows and overhead of the trials to do, and the background after them."""
        overhead_ns = sum(self._overheads_ns) // len(self._overheads_ns)
        load_ns = sum(self._windows(planned).load_ns for planned in to_do)
        return load_ns + len(to_do) * overhead_ns + self._experiment.limits.background_ns

    def _windows(self, planned: PlannedTrial) -> Windows:
        windows = self._experiment.windows
        return perturbation.windows(windows) if planned.perturbation else windows

    async def execute_all(self, rig: Rig, to_do: list[PlannedTrial], watcher: Watcher) -> None:
        """The trials, one after the other."""
        for number, planned in enumerate(to_do):
            watcher.on_time_left(self.time_left_ns(to_do[number:]))
            await self.execute(rig, planned, watcher)

    async def execute(self, rig: Rig, planned: PlannedTrial, watcher: Watcher) -> None:
        """One trial with its retries; a failure that stays is in the ledger."""
        before = self._ledger.entries()[planned.order].attempt
        for attempt in range(before + 1, before + 2 + self._experiment.limits.retries):
            self._ledger.mark(planned.order, "running", attempt)
            watcher.on_trial_start(planned, attempt)
            try:
                failure = await self._attempt(rig, planned, attempt, before + 1, watcher)
            except BaseException:
                self._ledger.mark(planned.order, "planned", attempt - 1)
                raise
            if failure is None:
                return
            await recover(rig, failure)

    async def _attempt(
        self, rig: Rig, planned: PlannedTrial, attempt: int, first: int, watcher: Watcher
    ) -> TrialError | None:
        """Executes and stores one attempt; gives the reason when it failed."""
        name = f"{planned.order:05d}-{attempt}"
        settings = self._experiment.settings(planned.point.levels)
        change, windows = planned.perturbation, self._windows(planned)
        if change and change.setting and change.after is not None:
            settings[change.setting] = change.after
        account, failure = Account(), None
        if attempt > first:
            account.doubt(WarningCode.RETRIED, f"attempt {attempt}: the one before failed, see its manifest")
        began_ns, started = time.monotonic_ns(), datetime.now(UTC)
        writer = TrialWriter(self._folder / TRIALS, name)

        def keep(host: str, record: Mapping[str, Any]) -> None:
            writer.add_record(host, OPERATIONS[account.hosts[host]["role"]], record)
            watcher.on_record(host, record)

        try:
            try:
                await carry_out(rig, name, settings, windows, account, keep, writer.add_profile)
            except TrialError as error:
                failure = error
            manifest = {
                "trial": name,
                "order": planned.order,
                "attempt": attempt,
                "block": planned.block,
                "replicate": planned.replicate,
                "point": planned.point.id,
                "levels": dict(planned.point.levels),
                "settings": settings,
                "status": "failed" if failure else "finished",
                "reason": _reason(failure),
                "started_wall": started.isoformat(timespec="milliseconds"),
                "windows": vars(windows),
                "start": account.start,
                "hosts": account.hosts,
                "doubts": [doubt_json(doubt) for doubt in account.doubts],
                "overhead_ns": account.overhead_ns,
                "purpose": "proof" if change else "design",
                "perturbation": asdict(change) if change else None,
                "path": account.path,
            }
            folder = writer.seal(manifest)
        except BaseException:
            writer.discard()
            raise
        self._ledger.mark(
            planned.order,
            "failed" if failure else "finished",
            attempt,
            reason=f"{failure.code}: {failure.what}" if failure else None,
            folder=f"{TRIALS}/{folder.name}",
        )
        if not failure:
            took_ns = time.monotonic_ns() - began_ns
            self._overheads_ns.append(max(0, took_ns - windows.load_ns))
        watcher.on_trial_end(planned, manifest)
        return failure

    def finish(self) -> CampaignOutcome:
        """Closes the books."""
        of_design = {planned.order for planned in self._design.trials}
        entries = [entry for entry in self._ledger.entries().values() if entry.order in of_design]
        failed = tuple(entry for entry in entries if entry.status == "failed")
        finished = sum(entry.status == "finished" for entry in entries)
        self.note(finished=finished == len(of_design))
        return CampaignOutcome(self._folder, finished, failed)


def _reason(failure: TrialError | None) -> dict[str, str] | None:
    if failure is None:
        return None
    return {"code": failure.code, "what": failure.what, "where": failure.where, "advice": failure.advice}
