"""`iodyno explore`: step by step to what matters, each stage planned from what those before have told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.cli.again import again as command_again
from iodyno.cli.design_options import plan_of
from iodyno.cli.experiment_argument import experiment_argument, sensors
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.share import SHARE
from iodyno.cli.stderr import to_stderr
from iodyno.core.errors import TrialError
from iodyno.core.experiment import SensorLevel
from iodyno.core.quantity import counted
from iodyno.report.form import Form

if TYPE_CHECKING:
    from iodyno.hosts.access import AgentProgram
    from iodyno.strategies.explore import Explore, Planned

LEAST = 0.05
"""Change of the mean that matters, when nothing else is said (chosen: what nobody buys a machine for)."""


@click.command(name="explore")
@experiment_argument
@click.option(
    "--outcome",
    help="What is looked at (default: the cost that the experiment names first, else the sender's).",
)
@click.option(
    "--least", type=SHARE, default=f"{LEAST:.0%}", show_default=True, help="Change of the mean that matters."
)
@click.option("--quick", is_flag=True, help="With levels and windows of the quick form.")
@click.option(
    "--resume", metavar="FOLDER", type=click.Path(path_type=Path), help="Go on with this exploration."
)
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Make the exploration's folder there (default: campaigns).",
)
@sensors
@click.option("--yes", is_flag=True, help="Do not ask before a long stage.")
@verbose_option
@format_option()
def command(
    file: str,
    outcome: str | None,
    least: float,
    quick: bool,
    resume: Path | None,
    into: Path | None,
    sensors: SensorLevel | None,
    yes: bool,
    verbose: bool,
    form: Form,
) -> None:
    """Find which factors of the experiment in FILE matter, and what the outcome is made of, in stages.

    Five factors or more are screened first; those that are shown to matter less than --least are left out. The others
    are told apart with their interactions, with trials in the middle of their ranges; where no straight line holds,
    trials on the axes follow. Each stage says beforehand what it expects to tell. It is a campaign of its own in the
    exploration's folder, and is named on the last line.

    \b
    Examples:
      iodyno explore study:tcp-options --quick
      iodyno explore experiment.yaml --outcome server.cpu_ns_per_operation \\
        --least 10%
      iodyno explore experiment.yaml --resume campaigns/NAME
    """
    from iodyno.formats.experiment_file import read_experiment, with_sensors
    from iodyno.report.explored import effect_lines, expectation
    from iodyno.session.locate import find_agent
    from iodyno.strategies.explore import Explore

    if resume and into:
        raise click.UsageError("--resume cannot be used with --into")
    whole = with_sensors(read_experiment(file, quick=quick), sensors)
    plan_of(whole, file)  # refuses what no trial of it can do
    exploration = Explore(whole, outcome, least, Path(file).parent)
    outcome = exploration.outcome
    folder = exploration.begin(into or Path("campaigns"), resume)
    again = command_again("explore", file, folder, quick=quick, outcome=outcome, least=least, sensors=sensors)
    program = find_agent()
    while stage := exploration.ask():
        done = exploration.done
        noise = done[-1].judgement.noise_ratio if done else None
        expected = expectation(stage.experiment, stage.design, noise, curve=stage.stage.name == "curve")
        to_stderr(f"stage {len(done) + 1}, {stage.stage.name}: {stage.stage.why}: {expected}")
        _run(stage, again, yes, program, quiet=not verbose)
        to_stderr("\n".join(effect_lines(exploration.tell(stage).judgement, least)))
    _finish(exploration, folder, form, verbose=verbose)


def _run(stage: Planned, again: str, yes: bool, program: AgentProgram, *, quiet: bool) -> None:
    """Runs a stage, or what is left of it."""
    from iodyno.cli.execute import ask, execute, stopped
    from iodyno.store.files import refuse_links
    from iodyno.store.schema import CAMPAIGN

    experiment, design, campaign = stage.experiment, stage.design, stage.campaign
    refuse_links(campaign.parent, campaign.name)
    there = (campaign / CAMPAIGN).is_file()
    if not there:
        ask(experiment, design, yes)
        campaign.mkdir(exist_ok=True)
    ended = execute(experiment, design, campaign, resume=there, again=again, program=program, quiet=quiet)
    if ended.failed:
        raise TrialError(
            f"{len(ended.failed)} of {counted(len(design.trials), 'trial')} failed, the first of them: {ended.failed[0].reason}",
            where=str(campaign),
            advice=again,
        )
    if ended.cut:
        raise stopped(ended.cut, campaign, again)


def _finish(exploration: Explore, folder: Path, form: Form, *, verbose: bool) -> None:
    from iodyno.report.cost_model import study_json
    from iodyno.report.explored import explored_shown
    from iodyno.store.schema import EXPLORATION
    from iodyno.store.writer import write_json_atomically

    study = exploration.study()
    found = {**exploration.answer(), "model": study_json(study)}
    state = json.loads((folder / EXPLORATION).read_text(encoding="utf-8"))
    write_json_atomically(folder / EXPLORATION, {**state, "found": found})
    judged = [(one.campaign, one.judgement) for one in exploration.done]
    show(explored_shown(judged, study, found, verbose=verbose), form)
