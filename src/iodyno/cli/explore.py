"""`iodyno explore`: step by step to what matters, each stage planned from what those before have told."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.again import again as command_again
from iodyno.cli.design_options import plan_of
from iodyno.cli.experiment_argument import experiment_argument, sensors
from iodyno.cli.form import format_option, show, verbose_option
from iodyno.cli.share import SHARE
from iodyno.cli.stderr import to_stderr
from iodyno.core.errors import ExperimentError, TrialError
from iodyno.core.experiment import SensorLevel
from iodyno.core.quantity import counted
from iodyno.report.form import Block, Form, Headline, Row, Shown

if TYPE_CHECKING:
    from iodyno.analysis.cost_model.shown import CostStudy
    from iodyno.designs.adaptive import Effect
    from iodyno.hosts.access import AgentProgram
    from iodyno.strategies.explore import Done, Explore, Planned


_MOST = 4
"""Effects that the answer names (chosen: with its other lines it has ten)."""
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
        _run(stage, again, yes, program, quiet=not verbose)
        to_stderr("\n".join(_effects(exploration.tell(stage), least)))
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


def _finish(exploration: Explore, folder: Path, form: Form, *, verbose: bool) -> None:
    from iodyno.cli.model.cost import model_blocks
    from iodyno.report.cost_model import study_json
    from iodyno.store.writer import write_json_atomically
    from iodyno.strategies.explore import STATE

    study = exploration.study()
    found = {**exploration.answer(), "model": study_json(study)}
    state = json.loads((folder / STATE).read_text(encoding="utf-8"))
    write_json_atomically(folder / STATE, {**state, "found": found})

    def blocks() -> Iterator[Block]:
        yield _headline(exploration, study, found)
        if verbose:
            yield ""
            yield from model_blocks(study)
        yield str(folder)

    show(Shown(blocks, lambda: found, lambda: _rows(found)), form)


def _headline(exploration: Explore, study: CostStudy, found: Mapping[str, Any]) -> Headline:
    """Return what matters, by how much, and what was not shown to."""
    from iodyno.report.cost_answer import study_headline
    from iodyno.report.cost_model import outcome_words
    from iodyno.store.schema import EXPERIMENT

    least = exploration.least
    # The last stage but that of curves: it alone tells all that is left apart.
    judged = next((one for one in reversed(exploration.done) if one.judgement.effects), exploration.done[-1])
    ratios = judged.judgement.ratios
    large = [effect for effect in judged.judgement.effects if effect.matters(least)]
    large.sort(key=lambda effect: -_magnitude(effect, ratios))
    shown = [effect for effect in large if _is_shown(effect, least)]
    names = [":".join(effect.factors) for effect in shown if len(effect.factors) == 1]
    matters = (
        f"{' and '.join(names)} matter{'s' if len(names) == 1 else ''}"
        if names
        else "no factor is shown to matter"
    )
    rows: list[tuple[str, tuple[str, ...]]] = []
    for effect in large[:_MOST]:
        size = _size_of(effect, ratios)
        rest = "" if effect in shown else f" (may be less than {100 * least:g} %)"
        rows.append((":".join(effect.factors), (f"{size}{rest}",)))
    if len(large) > _MOST:
        rows.append(("", (f"{len(large) - _MOST} more effects with --format csv",)))
    small = [":".join(effect.factors) for effect in judged.judgement.effects if effect not in large]
    if held := ", ".join([*found["left_out"], *small]):
        rows.append((f"< {100 * least:g} %", (held,)))
    told = study_headline(study)
    rows.append(("Equation", (told.title,)))
    rows += [row for row in told.rows if row[0] == "Warning"]
    stages = counted(len(exploration.done), "stage")
    last = exploration.done[-1].campaign / EXPERIMENT
    rows.append(("From", (f"{counted(found['trials'], 'trial')} in {stages}; the last one: {last}",)))
    title = f"{outcome_words(study)}, from low to high: {matters} by {100 * least:g} % or more"
    return Headline(title, tuple(rows))


def _is_shown(effect: Effect, least: float) -> bool:
    """Tell whether the whole interval of an effect lies beyond the least one."""
    low, high = effect.low_ratio, effect.high_ratio
    return low is not None and high is not None and (low >= least or high <= -least)


def _rows(found: Mapping[str, Any]) -> Iterator[Row]:
    """Yield a row for each effect that each stage judged."""
    for number, stage in enumerate(found["stages"], 1):
        for effect in stage["effects"]:
            yield {
                "outcome": found["outcome"],
                "stage": number,
                "name": stage["name"],
                "effect": ":".join(effect["factors"]),
                "aliases": ", ".join(":".join(factors) for factors in effect["aliases"]),
                **{key: effect[key] for key in ("estimate_ratio", "low_ratio", "high_ratio")},
            }
