"""`iodyno noise`: what varies when nothing is changed, and how small an effect can be claimed."""

from __future__ import annotations

from pathlib import Path

import click

from iodyno.cli.again import again as command_again
from iodyno.cli.campaign_argument import complete_campaign, tell_lost
from iodyno.cli.experiment_argument import experiment_argument, sensors
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.number import Seconds
from iodyno.core.errors import TrialError
from iodyno.core.experiment import SensorLevel
from iodyno.core.noise import NoiseSpec
from iodyno.report.form import Form


@click.command(name="noise")
@experiment_argument
@click.option(
    "--point",
    metavar="LEVELS",
    default="",
    help="The point, such as 'size=1KiB'; left out: the first levels.",
)
@click.option(
    "--blocks", type=click.IntRange(2, 1000), default=3, show_default=True, help="Groups of restarts."
)
@click.option(
    "--restarts",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Starts of the agents in a block.",
)
@click.option(
    "--trials", type=click.IntRange(2, 1000), default=4, show_default=True, help="Trials after each start."
)
@click.option(
    "--pause",
    type=Seconds(0, 86_400),
    default=0,
    show_default=True,
    help="Seconds to wait before a block.",
)
@click.option("--quick", is_flag=True, help="With the windows of the quick form.")
@click.option(
    "--resume",
    metavar="CAMPAIGN",
    type=click.Path(path_type=Path),
    shell_complete=complete_campaign,
    help="Go on with this ladder.",
)
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Make the campaign's folder there (default: campaigns).",
)
@sensors
@click.option("--yes", is_flag=True, help="Do not ask before a long campaign.")
@verbose_option
@format_option()
def command(
    file: str,
    point: str,
    blocks: int,
    restarts: int,
    trials: int,
    pause: float,
    quick: bool,
    resume: Path | None,
    into: Path | None,
    sensors: SensorLevel | None,
    yes: bool,
    verbose: bool,
    form: Form,
) -> None:
    """Repeat one point of the experiment in FILE at every level at which something may vary.

    Intervals within trials, trials after one start of the agents, starts of the agents within a block, blocks in time: the
    variance of each outcome is split among them. What follows are the smallest effects that `iodyno compare` mostly
    claims, within a campaign and between two, and how often to repeat each level. FILE may be the folder of a ladder that was
    made; it is then shown again.

    \b
    Examples:
      iodyno noise study:tcp-transmit --quick
      iodyno noise experiment.yaml --point size=1KiB --blocks 4 --pause 600
      iodyno noise campaigns/NAME --json
    """
    from iodyno.campaign.folder import was_quick
    from iodyno.cli.execute import ask, execute, folder_for, raise_for
    from iodyno.designs import noise_ladder
    from iodyno.formats.experiment_file import read_experiment, with_sensors
    from iodyno.session.locate import find_agent
    from iodyno.store.schema import CAMPAIGN

    if (Path(file) / CAMPAIGN).is_file():
        _show(Path(file), 3, form, verbose=verbose)
        return
    whole = with_sensors(
        read_experiment(file, quick=quick or (resume is not None and was_quick(resume))), sensors
    )
    spec = NoiseSpec(blocks, restarts, trials, round(pause * 1e9))
    experiment = noise_ladder.of_point(whole, noise_ladder.levels_of(whole, point), spec)
    design = noise_ladder.plan(experiment)
    program = find_agent()
    ask(experiment, design, yes)
    folder = folder_for("noise", f"{experiment.name}-noise", into, resume)
    again = command_again(
        "noise",
        file,
        folder,
        quick=quick,
        point=point,
        blocks=blocks,
        restarts=restarts,
        trials=trials,
        pause=pause or None,
        sensors=sensors,
    )
    outcome = execute(
        experiment,
        design,
        folder,
        resume=resume is not None,
        again=again,
        program=program,
        quiet=not verbose,
    )
    if not outcome.finished:
        first = outcome.failed[0].reason if outcome.failed else "nothing was run"
        raise TrialError(f"no trial finished, the first of them: {first}", where=str(folder), advice=again)
    _show(folder, max(2, whole.design.replicates), form, verbose=verbose)
    raise_for(outcome, len(design.trials), folder, again)


def _show(folder: Path, trials: int, form: Form, *, verbose: bool) -> None:
    # Imported here: slow, and not needed while the load is on.
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.decisions.ladder import ladder as read_ladder
    from iodyno.report.noise import noise_shown

    dataset = read_dataset(folder)
    found = read_ladder(dataset, trials=trials)
    tell_lost(folder, dataset.trials)
    show(noise_shown(found, str(folder), verbose=verbose), form)
