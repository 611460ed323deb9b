"""`iodyno explore`: step by step to what matters, each stage planned from what those before have told."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iodyno.cli.again import again as command_again
from iodyno.cli.design_options import plan_of
from iodyno.cli.experiment_argument import experiment_argument, sensors
from iodyno.cli.share import SHARE
from iodyno.cli.stderr import to_stderr
from iodyno.core.errors import ExperimentError, TrialError
from iodyno.core.experiment import SensorLevel
from iodyno.core.quantity import counted

if TYPE_CHECKING:
    from iodyno.designs.adaptive import Effect
    from iodyno.hosts.access import AgentProgram
    from iodyno.strategies.explore import Done, Explore, Planned


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def command(
    file: str,
    outcome: str | None,
    least: float,
    quick: bool,
    resume: Path | None,
    into: Path | None,
    sensors: SensorLevel | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Find which factors of the experiment in FILE matter, and what the outcome is made of, in stages.

    Five factors or more are screened first; those that are shown to matter less than --least are left out. The others
    are told apart with their interactions, with trials in the middle of their ranges; where no straight line holds,
    trials on the axes follow. Each stage says beforehand what it expects to tell. It is a campaign of its own in the
    exploration's folder, and is named on the last line.

    \b
    Examples:
      iodyno explore studies/tcp-options.yaml --quick
      iodyno explore experiment.yaml --outcome server.cpu_ns_per_operation \\
        --least 10%
      iodyno explore experiment.yaml --resume campaigns/NAME
    """
    from iodyno.formats.experiment_file import read_experiment, with_sensors
    from iodyno.session.locate import find_agent
    from iodyno.strategies.explore import Explore

    if resume and into:
        raise click.UsageError("--resume cannot be used with --into")
    whole = with_sensors(read_experiment(file, quick=quick), sensors)
    if whole.search is not None or whole.until is not None:
        raise ExperimentError(
            "a search or a rule decides itself what is run",
            where=file,
            advice="`iodyno run`, or leave that section out",
        )
    plan_of(whole, file)  # refuses what no trial of it can do
    exploration = Explore(whole, outcome, least, Path(file).parent)
    outcome = exploration.outcome
    folder = exploration.begin(into or Path("campaigns"), resume)
    again = command_again("explore", file, folder, quick=quick, outcome=outcome, least=least, sensors=sensors)
    program = find_agent()
    while stage := exploration.ask():
        done = exploration.done
        noise = done[-1].judgement.noise_ratio if done else None
        to_stderr(_announced(len(done) + 1, stage, noise))
        _run(stage, again, yes, program)
        to_stderr("\n".join(_effects(exploration.tell(stage), least)))
    _finish(exploration, folder, as_json)


def _run(stage: Planned, again: str, yes: bool, program: AgentProgram) -> None:
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
    ended = execute(experiment, design, campaign, resume=there, again=again, program=program)
    if ended.failed:
        raise TrialError(
            f"{len(ended.failed)} of {counted(len(design.trials), 'trial')} failed, the first of them: {ended.failed[0].reason}",
            where=str(campaign),
            advice=again,
        )
    if ended.cut:
        raise stopped(ended.cut, campaign, again)


def _announced(number: int, planned: Planned, noise: float | None) -> str:
    from iodyno.designs.evaluation import evaluate

    stage, experiment, design = planned.stage, planned.experiment, planned.design
    trials = f"{counted(len(design.points), 'point')}, {counted(len(design.trials), 'trial')}"
    expected = evaluate(experiment, design, noise_ratio=noise) if stage.name != "curve" else None
    widths = (
        [t.half_width_ratio for t in expected.terms if t.half_width_ratio is not None] if expected else []
    )
    tells = ""
    if widths:
        unit = "of the mean" if noise is not None else "times the noise between trials"
        size = f"{100 * max(widths):.2g} %" if noise is not None else f"{max(widths):.2g}"
        tells = f"; expects to tell effects to +- {size} {unit}"
    return f"stage {number}, {stage.name}: {stage.why}: {trials}{tells}"


def _effects(done: Done, least: float) -> list[str]:
    """The effects that may matter, the largest first, and what was shown to be small."""
    judgement = done.judgement
    large = sorted(
        (e for e in judgement.effects if e.matters(least)), key=lambda e: -_magnitude(e, judgement.ratios)
    )
    noise = "unknown" if judgement.noise_ratio is None else f"{100 * judgement.noise_ratio:.2g} %"
    lines = [
        f"  noise between trials {noise}; {len(large)} of {len(judgement.effects)} effects may be {100 * least:g} % or more"
    ]
    for effect in large:
        aliases = "".join(f" = {':'.join(factors)}" for factors in effect.aliases)
        lines.append(f"    {':'.join(effect.factors)}{aliases}: {_size_of(effect, judgement.ratios)}")
    if judgement.curved:
        lines.append(f"  no straight line in {judgement.curved}")
    return lines


def _magnitude(effect: Effect, ratio: bool) -> float:
    """A fall to a half is as large as a rise to twice as much."""
    return abs(math.log1p(effect.estimate_ratio)) if ratio else abs(effect.estimate_ratio)


def _size_of(effect: Effect, ratio: bool) -> str:
    """`x 0.21 [0.19, 0.23]` from the low to the high end, or `+12 [+3, +21] % of the mean`."""
    ends = (effect.low_ratio, effect.high_ratio)
    known = [end for end in ends if end is not None]
    if not ratio:
        bounds = f" [{100 * known[0]:+.3g}, {100 * known[1]:+.3g}]" if len(known) == 2 else ""
        return f"{100 * effect.estimate_ratio:+.3g}{bounds} % of the mean"
    bounds = f" [{1 + known[0]:.3g}, {1 + known[1]:.3g}]" if len(known) == 2 else ""
    return f"x {1 + effect.estimate_ratio:.3g}{bounds}"


def _finish(exploration: Explore, folder: Path, as_json: bool) -> None:
    from iodyno.report.cost_model import study_json
    from iodyno.store.schema import EXPERIMENT
    from iodyno.store.writer import write_json_atomically
    from iodyno.strategies.explore import STATE

    study = exploration.study()
    found = {**exploration.answer(), "model": study_json(study)}
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    write_json_atomically(folder / STATE, {**state, "found": found})
    if as_json:
        click.echo(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
        return
    from iodyno.cli.model.cost import show_study

    show_study(study, [], None)
    if held := ", ".join(found["left_out"]):
        click.echo(
            f"\nLeft out, as shown to change the mean by less than {100 * exploration.least:g} %: {held} (at the first level)."
        )
    last = exploration.done[-1].campaign / EXPERIMENT
    click.echo(
        f"{found['trials']} trials in {len(exploration.done)} stages; the last one's experiment: {last}"
    )
    click.echo(str(folder))
