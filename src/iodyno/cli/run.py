"""`iodyno run`: executes an experiment from its file to the report."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli import design_options, storage_files, uperf
from iodyno.cli.again import again as command_again
from iodyno.cli.campaign_argument import complete_campaign
from iodyno.cli.experiment_argument import experiment_argument, sensors
from iodyno.cli.form import format_option, verbose_option
from iodyno.cli.options import GroupedCommand
from iodyno.cli.prove import asked_proof, proof_options
from iodyno.cli.signals import named_when_stopped
from iodyno.cli.stderr import to_stderr
from iodyno.cli.watch_beside import page_beside
from iodyno.core.decision import MAX_TRIALS
from iodyno.core.experiment import SensorLevel
from iodyno.report.form import Form, json_text

if TYPE_CHECKING:
    from iodyno.campaign.runner import CampaignOutcome


@click.command(name="run", cls=GroupedCommand)
@experiment_argument
@click.option("--quick", is_flag=True, help="Run the quick form of the experiment.")
@click.option(
    "--resume",
    metavar="CAMPAIGN",
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
    help="Go on with this campaign.",
)
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Make the campaign's folder there (default: campaigns).",
)
@proof_options
@click.option(
    "--until", metavar="RULE", help="Stop when this is known, such as 'ratio(size=1KiB/size=64KiB) > 1.5'."
)
@click.option(
    "--max-trials",
    type=click.IntRange(2, 99_999),
    help=f"Stop after so many trials without an answer (default: {MAX_TRIALS}).",
)
@click.option(
    "--destroy",
    metavar="PATH",
    multiple=True,
    help="A device or file to write to, whatever it holds; may be repeated.",
)
@design_options.of_design
@uperf.of_profiles
@storage_files.of_storage
@click.option("--watch", "watched", is_flag=True, help="Serve the live page of `iodyno watch` while it runs.")
@sensors
@click.option("--yes", is_flag=True, help="Do not ask before a long campaign.")
@verbose_option
@format_option()
def command(
    file: str,
    quick: bool,
    resume: Path | None,
    into: Path | None,
    prove: str | None,
    until: str | None,
    max_trials: int | None,
    destroy: tuple[str, ...],
    watched: bool,
    sensors: SensorLevel | None,
    yes: bool,
    verbose: bool,
    form: Form,
    **asked: Any,
) -> None:
    """Run the experiment in FILE (- is stdin), or a profile of uperf, a personality of Filebench (.f) or a job file of fio
    (.fio), and name the campaign's folder on the last line.

    Ctrl-C stops cleanly; finished trials stay, and --resume goes on from there. Another Ctrl-C, 2 s later or more, ends it at
    once; the next run or `iodyno restore` takes back what was left. Failed trials are retried within the experiment's limit, and
    once more by --resume.

    With --prove, or `prove: on` in FILE, extra trials change the resource that is suspected to limit each point a little,
    and the report says by how much the rate followed. A finished campaign can be proved later: --resume with --prove.

    With --until, or `until:` in FILE, trials come block by block until the rule has its answer or --max-trials are made; the
    design's replicates then say nothing. Rules: 'ratio(X) > 1.5', 'difference(X) > 0', 'no difference(X) beyond 2%',
    'X=A costs more than X=B', 'width(ratio(X)) < 5%'.

    \b
    Examples:
      iodyno run study:tcp-transmit --quick
      iodyno run study:tcp-transmit --quick --prove
      iodyno run FILE --until 'ratio(size=1KiB/size=64KiB) > 1.5'
      iodyno run study:tcp-transmit --resume campaigns/NAME
      iodyno run study:tcp-options --design fractional --resolution 3
      iodyno run profile.xml --set nthr=4 --set proto=tcp
      iodyno run fileserver.f --target /srv/test --set nfiles=1000 --seconds 10
      iodyno run job.fio --section randread --target /srv/test
    """
    from iodyno.campaign.folder import was_quick
    from iodyno.cli.execute import ask, execute, folder_for, raise_for, raise_without_answer
    from iodyno.formats.experiment_file import read_experiment, with_sensors
    from iodyno.loads.script.uperf import is_profile
    from iodyno.session.locate import find_agent
    from iodyno.store.schema import EXPERIMENT
    from iodyno.strategies.until import with_rule

    if resume and into:
        raise click.UsageError("--resume cannot be used with --into")
    design_keys = design_options.asked(asked)
    # A campaign goes on in the form that it was begun in.
    storage_asked = {name: asked.pop(name) for name in ("target", "seconds", "sections", "remove_files")}
    # Files of a personality go after each trial, as its own key says; what any other load laid out, in the end.
    in_the_end = storage_asked["remove_files"] and storage_files.kind_of(file) != "wml"
    storage_asked["remove_files"] = storage_asked["remove_files"] and not in_the_end
    profile = is_profile(file)
    foreign = profile or storage_files.kind_of(file) is not None
    if foreign and not profile:
        if resume or design_keys:
            raise click.UsageError("--resume and a design cannot be used with a workload of another tool")
        if storage_files.in_steps(command, file, storage_asked):
            return
        experiment = storage_files.experiment_of(file, **asked, **storage_asked, quick=quick)
    elif profile:
        storage_files.refuse(file, storage_asked)
        if quick or resume or design_keys:
            raise click.UsageError("--quick, --resume and a design cannot be used with a profile of uperf")
        experiment = uperf.experiment_of(file, **asked)
    else:
        uperf.refuse(file, asked)
        storage_files.refuse(file, storage_asked)
        quick = quick or (resume is not None and was_quick(resume))
        experiment = read_experiment(file, quick=quick, design=design_keys)
    experiment = with_sensors(experiment, sensors)
    experiment = replace(experiment, prove=asked_proof(prove) or experiment.prove)
    with design_options.placed(experiment, file):
        experiment = with_rule(experiment, until, max_trials, resume) or experiment
    design = design_options.plan_of(experiment, file)
    program = find_agent()
    for note in experiment.notes:
        to_stderr(f"iodyno: note: {note}")
    ask(experiment, design, yes)
    folder = folder_for("run", experiment.name, into, resume)
    again = command_again(
        "run",
        folder / EXPERIMENT if foreign or design_keys or file == "-" else file,
        folder,
        prove=prove == "on",
        prove_foreign=prove == "foreign",
        sensors=sensors,
        destroy=destroy,
        remove=in_the_end,
    )
    with page_beside(folder) if watched else nullcontext():
        outcome = execute(
            experiment,
            design,
            folder,
            resume=resume is not None,
            again=again,
            program=program,
            destroy=destroy,
            remove_targets=in_the_end,
        )
    with named_when_stopped(folder):
        outcome = _shown(outcome, form, searched=experiment.search is not None, verbose=verbose)
    due = outcome.finished + len(outcome.failed) if experiment.until else len(design.trials)
    raise_for(outcome, due, folder, again)
    if "search" in outcome.answers:
        from iodyno.analysis.goal_results import goal_result

        stored = outcome.answers["search"].content["goal_results"]
        raise_without_answer([goal_result(each) for each in stored], folder)


def _shown(outcome: CampaignOutcome, form: Form, *, searched: bool, verbose: bool) -> CampaignOutcome:
    """Shows the report of what was measured, if anything was, and the campaign's folder on the last line; gives the outcome with
    the trials that are void among those that failed.
    """
    from iodyno.cli.execute import without_void

    try:
        if outcome.finished:
            # Imported here: slow, and not needed while the load is on.
            from iodyno.analysis.dataset import read_dataset

            dataset = read_dataset(outcome.folder)
            outcome = outcome if searched else without_void(outcome, dataset)
            if form != "json":
                from iodyno.cli.report import show_finished

                show_finished(dataset, form, verbose=verbose)
    finally:
        # Whatever becomes of the report, the trials are stored there.
        if form != "json":
            click.echo(str(outcome.folder), err=form == "csv")
    if form == "json":
        failed = [{"order": entry.order, "reason": entry.reason} for entry in outcome.failed]
        skipped = [{"order": entry.order, "reason": entry.reason} for entry in outcome.skipped]
        counts = {"finished": outcome.complete, "finished_trials": outcome.finished}
        decided = {"decision": outcome.answers["until"].content} if "until" in outcome.answers else {}
        found = {"campaign": str(outcome.folder), **counts, "failed": failed, "skipped": skipped, **decided}
        click.echo(json_text(found), nl=False)
    return outcome
