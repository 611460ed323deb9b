"""`iodyno run`: executes an experiment from its file to the report."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import replace
from pathlib import Path

import click

from iodyno import designs
from iodyno.campaign.folder import new_folder, was_quick
from iodyno.campaign.runner import CampaignOutcome, Watcher, run_campaign
from iodyno.cli.progress import watcher as progress
from iodyno.cli.prove import strategy
from iodyno.core.design import Design
from iodyno.core.errors import Interrupted, StoreError, TrialError
from iodyno.core.experiment import Experiment
from iodyno.designs.duration import estimate
from iodyno.formats.experiment_file import read_experiment
from iodyno.hosts.access import AgentProgram
from iodyno.session.locate import find_agent

_ASK_FROM_NS = 30 * 60 * 10**9
"""A campaign that is longer than this is asked about on a terminal (chosen: longer than a coffee)."""


@click.command(name="run")
@click.argument("file")
@click.option("--quick", is_flag=True, help="Run the quick form of the experiment.")
@click.option(
    "--resume", metavar="CAMPAIGN", type=click.Path(path_type=Path), help="Go on with this campaign."
)
@click.option(
    "--into", metavar="DIR", type=click.Path(path_type=Path), help="Make the campaign's folder there."
)
@click.option("--prove", is_flag=True, help="Test what limits each point by extra trials.")
@click.option("--yes", is_flag=True, help="Do not ask before a long campaign.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of the report.")
def command(
    file: str, quick: bool, resume: Path | None, into: Path | None, prove: bool, yes: bool, as_json: bool
) -> None:
    """Run the experiment in FILE and name the campaign's folder on the last line.

    Ctrl-C stops cleanly; finished trials stay, and --resume goes on from there. Failed trials are retried within
    the experiment's limit, and once more by --resume.

    With --prove, or `prove: on` in FILE, extra trials change the resource that is suspected to limit each point a little,
    and the report says by how much the rate followed. A finished campaign can be proved later: --resume with --prove.

    \b
    Examples:
      iodyno run studies/tcp-transmit.yaml --quick
      iodyno run studies/tcp-transmit.yaml --quick --prove
      iodyno run studies/tcp-transmit.yaml --resume campaigns/NAME
    """
    if resume and into:
        raise click.UsageError("found --resume and --into, allowed: one of them")
    # A campaign goes on in the form that it was begun in.
    experiment = read_experiment(file, quick=quick or (resume is not None and was_quick(resume)))
    experiment = replace(experiment, prove=experiment.prove or prove)
    design = designs.plan(experiment)
    program = find_agent()
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    _ask(experiment, design, yes)
    folder = resume or new_folder(into or Path("campaigns"), experiment.name)
    if not folder.is_dir():
        raise StoreError("is not there", where=str(folder), advice="name a folder that `iodyno run` printed")
    again = f"iodyno run {file} --resume {folder}"
    with progress(experiment, design) as watcher:
        outcome = execute(
            experiment,
            design,
            folder,
            resume=resume is not None,
            watcher=watcher,
            again=again,
            program=program,
        )
    _show(outcome, as_json)
    if outcome.failed:
        first = outcome.failed[0]
        raise TrialError(
            f"{len(outcome.failed)} of {len(design.trials)} trials failed, the first of them: {first.reason}",
            where=str(folder / (first.folder or "")),
            advice=again,
        )


def execute(
    experiment: Experiment,
    design: Design,
    folder: Path,
    *,
    resume: bool,
    watcher: Watcher,
    again: str,
    program: AgentProgram | None = None,
) -> CampaignOutcome:
    """Runs the campaign until its end or a signal; `again` is the command that goes on with it.

    Raises Interrupted on SIGINT, SIGTERM and SIGHUP, when everything is removed.
    """

    async def until_stopped() -> CampaignOutcome:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A signal that was ignored from the start, as nohup does it, stays ignored.
            if signal.getsignal(number) != signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await run_campaign(
            experiment,
            design,
            folder,
            resume=resume,
            watcher=watcher,
            program=program,
            strategy=strategy(experiment),
        )

    try:
        return asyncio.run(until_stopped())
    except asyncio.CancelledError:
        raise Interrupted("stopped; finished trials are kept", where=str(folder), advice=again) from None


def _ask(experiment: Experiment, design: Design, yes: bool) -> None:
    total_ns = estimate(experiment, design).total_ns
    if total_ns < _ASK_FROM_NS or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    minutes = total_ns // (60 * 10**9)
    click.confirm(f"{len(design.trials)} trials take about {minutes} minutes. Go on?", abort=True, err=True)


def _show(outcome: CampaignOutcome, as_json: bool) -> None:
    """The report, if anything was measured; the campaign's folder on the last line."""
    if as_json:
        failed = [{"order": entry.order, "reason": entry.reason} for entry in outcome.failed]
        click.echo(
            json.dumps({"campaign": str(outcome.folder), "finished": outcome.finished, "failed": failed})
        )
        return
    try:
        if outcome.finished:
            # Imported here: slow, and not needed while the load is on.
            from iodyno.cli.report import show

            show(outcome.folder)
    finally:
        # Whatever becomes of the report, the trials are stored there.
        click.echo(str(outcome.folder))
