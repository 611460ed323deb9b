"""Runs a campaign until its end or a signal, and names what went wrong: what every command that measures shares."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno import strategies
from iodyno.campaign.folder import new_folder
from iodyno.campaign.ledger import Entry
from iodyno.campaign.runner import CampaignOutcome, run_campaign
from iodyno.campaign.watcher import Watcher
from iodyno.cli import progress
from iodyno.cli.signals import stopped_by_signals, stopped_words
from iodyno.cli.stderr import to_stderr
from iodyno.core.design import Design
from iodyno.core.errors import (
    CERTAIN,
    AccessError,
    Interrupted,
    IodynoError,
    PreflightError,
    StoreError,
    TrialError,
)
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs.duration import estimate
from iodyno.hosts.access import AgentProgram
from iodyno.loads.base.campaign import load_for
from iodyno.store.schema import BACKGROUND, MANIFEST, TRIALS
from iodyno.store.writer import RESUME

if TYPE_CHECKING:
    from iodyno.analysis.dataset import Dataset
    from iodyno.core.search import GoalResult

_VOID = "void"
_ASK_FROM_NS = 30 * 60 * 10**9
"""A campaign that is longer than this is asked about on a terminal (chosen: longer than a coffee)."""


def execute(
    experiment: Experiment,
    design: Design,
    folder: Path,
    *,
    resume: bool,
    again: str,
    program: AgentProgram | None = None,
    destroy: Collection[str] = (),
    remove_targets: bool = False,
    ahead: Callable[[], None] = lambda: None,
    stored: Callable[[], None] = lambda: None,
    quiet: bool = False,
) -> CampaignOutcome:
    """Runs the campaign until its end or a signal, and shows how far it is (`quiet`: on a terminal alone, nothing stays);
    `again` is the command that goes on with it. `ahead` and `stored` are called as `run_campaign` says.

    Raises Interrupted on SIGINT, SIGTERM and SIGHUP, when everything is removed. A second SIGINT ends the process.
    """
    signals: list[int] = []

    async def until_stopped(watcher: Watcher) -> CampaignOutcome:
        task = asyncio.current_task()
        assert task is not None
        with stopped_by_signals(task) as came:
            nonlocal signals
            signals = came
            return await run_campaign(
                experiment,
                design,
                folder,
                strategies.of_experiment(experiment, design, folder),
                resume=resume,
                watcher=watcher,
                program=program,
                destroy=destroy,
                remove_targets=remove_targets,
                ahead=ahead,
                stored=stored,
            )

    try:
        if not resume:
            load_for(experiment).refuse(experiment, design)
        with progress.watcher(experiment, design, quiet=quiet) as watcher:
            return asyncio.run(until_stopped(watcher))
    except (asyncio.CancelledError, KeyboardInterrupt) as stop:
        if isinstance(stop, asyncio.CancelledError) and not signals:
            raise  # No signal came: this is a defect, and no user has stopped it.
        if not resume and not _begun(folder):
            shutil.rmtree(folder, ignore_errors=True)
            raise Interrupted(f"{stopped_words(signals)}; nothing was measured") from None
        what = f"{stopped_words(signals)}; finished trials are kept"
        raise Interrupted(what, where=str(folder), advice=again) from None
    except StoreError as error:
        error.advice = error.advice.replace(RESUME, f"`{again}`")
        raise
    except (AccessError, PreflightError, TrialError) as error:
        if _begun(folder):
            raise stopped(error, folder, again) from None
        if isinstance(error, (AccessError, PreflightError)) and not resume:
            # Nothing was measured: there is nothing in it.
            shutil.rmtree(folder, ignore_errors=True)
        raise


def folder_for(command: str, name: str, into: Path | None, resume: Path | None) -> Path:
    """Return the folder of a campaign that begins, or goes on. Raises StoreError where there is none to go on with."""
    folder = resume or new_folder(into or Path("campaigns"), name)
    if not folder.is_dir():
        raise StoreError(
            "is not there", where=str(folder), advice=f"name a folder that `iodyno {command}` printed"
        )
    return folder


def raise_for(outcome: CampaignOutcome, due: int, folder: Path, again: str) -> None:
    """Raises TrialError where some of the `due` trials failed, and what cut the campaign short where that is so."""
    if outcome.failed:
        raise failed(outcome, due, folder, again)
    if outcome.cut:
        raise stopped(outcome.cut, folder, again)


def raise_without_answer(found: Sequence[GoalResult], folder: Path) -> None:
    """Raises TrialError where a trial of a search told nothing, so that a goal has no answer."""
    if found and all(result.known and result.ended != "failed" for result in found):
        return
    why = next((result.warning for result in found if result.warning), "no trial told anything")
    raise TrialError(
        f"the search has no answer: {why}",
        where=str(folder),
        advice="see why its trials failed: iodyno report shows each",
    )


def ask(experiment: Experiment, design: Design, yes: bool) -> None:
    """Asks on a terminal whether a long campaign is wanted. Raises click.Abort."""
    total_ns = estimate(experiment, design).total_ns
    if total_ns < _ASK_FROM_NS or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    minutes = total_ns // (60 * 10**9)
    click.confirm(f"{len(design.trials)} trials take about {minutes} minutes. Go on?", abort=True, err=True)


def failed(outcome: CampaignOutcome, due: int, folder: Path, again: str) -> TrialError:
    """The error of a campaign of which trials failed, of so many: what to try is to go on, or, where the first of them would
    fail again in the same way, what its failure names.
    """
    first = outcome.failed[0]
    where = folder / (first.folder or "")
    text = f"{len(outcome.failed)} of {counted(due, 'trial')} failed, the first of them: {first.reason}"
    earlier = _reason_of_first_attempt(folder, first.order, first.attempt)
    if earlier not in (None, first.reason):
        text += f"; its first attempt: {earlier}"
    advice = again
    if str(first.reason).startswith(f"{_VOID}:"):
        behind = "fell behind" in str(first.reason)
        advice = (
            "a lower rate, or CPUs of its own for the sender"
            if behind
            else "a larger working_set, or direct: on"
        )
    if str(first.reason).partition(":")[0] in CERTAIN:
        try:
            advised = json.loads((where / MANIFEST).read_text(encoding="utf-8"))["reason"]["advice"]
        except (OSError, ValueError, KeyError, TypeError):
            advised = ""
        advice = advised or again
    return TrialError(text, where=str(where), advice=advice)


def stopped(error: IodynoError, folder: Path, again: str) -> IodynoError:
    """The error that ended a campaign of which something is stored, with where that is and how it goes on."""
    error.what += f"; finished trials are kept in {folder}"
    error.advice = f"{error.advice}; then {again}" if error.advice else again
    return error


def without_void(outcome: CampaignOutcome, dataset: Dataset) -> CampaignOutcome:
    """The outcome with the trials that are void among those that failed; each is named on stderr.

    Only an analysis sees that, not the campaign, and it stays: no other start makes such a trial again.
    """
    void = [
        Entry(trial.order, "failed", trial.attempt, f"{_VOID}: {trial.reason}", f"{TRIALS}/{trial.name}")
        for trial in dataset.trials
        if trial.status == _VOID
    ]
    for entry in void:
        to_stderr(f"trial {entry.order + 1} is {entry.reason}")
    finished, failed = outcome.finished - len(void), (*outcome.failed, *void)
    return replace(outcome, finished=finished, failed=failed, complete=outcome.complete and not void)


def _reason_of_first_attempt(folder: Path, order: int, last: int) -> str | None:
    """Why the first attempt at a trial failed, of which `last` is the last; none: it was the only one, or cannot be read."""
    for attempt in range(1, last):
        place = folder / TRIALS / f"{order:05d}-{attempt}" / MANIFEST
        try:
            reason = json.loads(place.read_text(encoding="utf-8"))["reason"]
            return f"{reason['code']}: {reason['what']}"
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


def _begun(folder: Path) -> bool:
    """Tell whether anything measured is stored in the campaign."""
    return any(
        (folder / place).is_dir() and any((folder / place).iterdir()) for place in (TRIALS, BACKGROUND)
    )
