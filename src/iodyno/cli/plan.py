"""`iodyno plan`: what a run would do, and how long it would take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from iodyno.cli import design_options, design_tables
from iodyno.cli.design_tables import percent
from iodyno.cli.experiment_argument import experiment_argument
from iodyno.cli.form import format_option, show
from iodyno.cli.options import GroupedCommand
from iodyno.cli.prove import asked_proof, proof_options
from iodyno.cli.share import SHARE, SHARE_OR_NONE
from iodyno.core.decision import UntilSpec
from iodyno.core.design import Design, Point
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.core.quantity import counted
from iodyno.core.search import SearchSpec
from iodyno.report.form import Block, Form, Row, Shown
from iodyno.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from iodyno.analysis.repeatability import Repeatability
    from iodyno.designs.duration import Duration
    from iodyno.designs.evaluation import Evaluation


@click.command(name="plan", cls=GroupedCommand)
@experiment_argument
@click.option("--quick", is_flag=True, help="Plan the quick form.")
@proof_options
@design_options.of_design
@click.option(
    "--noise", type=SHARE, help="Noise between trials of a point, such as 5%: intervals are for it."
)
@click.option("--noise-from", metavar="CAMPAIGN", help="Take the noise from this campaign's replicates.")
@click.option("--outcome", help="Outcome whose noise is taken.  [default: the campaign's first]")
@click.option("--effect", type=SHARE, help="Effect, such as 10%, of which the power is told.")
@click.option(
    "--plot-noise", type=SHARE_OR_NONE, default="0", help="Noise between whole plots, where factors are slow."
)
@format_option()
def command(
    file: str,
    quick: bool,
    prove: str | None,
    noise: float | None,
    noise_from: str | None,
    outcome: str | None,
    effect: float | None,
    plot_noise: float,
    form: Form,
    **options: Any,
) -> None:
    """Show points, order and duration of the experiment in FILE, and what it will tell. Runs nothing.

    The order is random inside each block, drawn from the seed: the same file gives the same order. Options such as
    --design replace keys of the file's section `design`; `iodyno run` takes the same ones.

    \b
    Examples:
      iodyno plan studies/tcp-transmit.yaml
      iodyno plan studies/tcp-transmit.yaml --quick
      iodyno plan studies/tcp-transmit.yaml --format csv > order.csv
      iodyno plan studies/tcp-options.yaml --design fractional --resolution 3 \\
        --noise 5% --effect 10%
      iodyno plan studies/tcp-options.yaml --design full_factorial --split 2 \\
        --slow nagle
      iodyno plan studies/tcp-options.yaml --design-file order.csv
    """
    from iodyno.designs.evaluation import evaluate
    from iodyno.designs.stopping import extended

    if noise is not None and noise_from:
        raise click.UsageError("--noise cannot be used with --noise-from")
    if outcome and not noise_from:
        raise click.UsageError("--outcome can only be used with --noise-from")
    model = options["design_model"]
    experiment, design = design_options.planned(
        file, quick=quick, design=design_options.asked(options, evaluates=True)
    )
    experiment = replace(experiment, prove=asked_proof(prove) or experiment.prove)
    if experiment.until:
        experiment = extended(experiment)
        design = design_options.plan_of(experiment, file)
    measured = _noise_of(noise_from, outcome)
    evaluation = None
    if form != "csv":
        evaluation = evaluate(
            experiment,
            design,
            noise_ratio=measured.noise_ratio if measured else noise,
            effect_ratio=effect,
            plot_noise_ratio=plot_noise,
            model=model,
        )
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    shown = Shown(
        blocks=lambda: _blocks(experiment, design, evaluation, measured),
        values=lambda: _values(experiment, design, evaluation, measured),
        rows=lambda: trial_rows(design),
    )
    show(shown, form)


def _noise_of(campaign: str | None, outcome: str | None) -> Repeatability | None:
    if campaign is None:
        return None
    # Imported here: it reads and analyses a campaign, which most plans do not ask for.
    from iodyno.analysis.repeatability import of_campaign

    return of_campaign(campaign, outcome)


def _blocks(
    experiment: Experiment, design: Design, evaluation: Evaluation | None, measured: Repeatability | None
) -> Iterator[Block]:
    from iodyno.designs.duration import estimate

    duration = estimate(experiment, design)
    names = _columns(design)
    placed = {pair.name: f"/{place}" for place, pair in enumerate(experiment.placement, 1)}
    rows = [
        tuple(map(Cell, (point.id, *(_shown(experiment, point, name) for name in names))))
        for point in design.points
    ]
    blocks = [
        f"  {block + 1:>3}  {' '.join(trial.point.id + placed.get(trial.pair or '', '') for trial in trials)}"
        for block, trials in itertools.groupby(design.trials, key=lambda trial: trial.block)
    ]
    form = " (quick form)" if experiment.quick else ""
    yield f"{experiment.name}{form}: {experiment.question.strip()}".rstrip(": ")
    if experiment.search:
        yield _search(experiment.search, design)
    else:
        yield (
            f"{counted(len(design.points), 'point')} x {counted(experiment.design.replicates, 'replicate')}"
            f" = {counted(len(design.trials), 'trial')}, {_time(duration)}"
        )
        if experiment.until:
            yield _until(experiment.until)
    if experiment.prove:
        yield _proof(experiment, design)
    yield ""
    yield Table("Points", tuple(map(Column, ("point", *names))), tuple(rows))
    if not experiment.search:
        yield f"Order ({design.kind}, seed {design.seed}), block by block:"
        yield from blocks
        if placed:
            yield f"Each on a pair of machines: {', '.join(f'{place[1:]} {name}' for name, place in placed.items())}"
    yield from _described(experiment, design, evaluation, measured)


def _described(
    experiment: Experiment, design: Design, evaluation: Evaluation | None, measured: Repeatability | None
) -> list[str]:
    """Describe the design, and what it will tell."""
    structure = design_tables.structure_lines(experiment, design)
    lines = ["", *structure] if structure else []
    evaluated = design_tables.evaluation_lines(evaluation)
    if measured:
        evaluated.append(
            f"  the noise is that of {measured.outcome} there: {percent(measured.noise_ratio)} "
            f"[{percent(measured.low_ratio)}, {percent(measured.high_ratio)}], over {counted(measured.points, 'point')}"
        )
    return [*lines, "", *evaluated] if evaluated else lines


def _until(spec: UntilSpec) -> str:
    return f"at most: it ends when it is known whether {spec.rule.text}, which is asked after every block"


def _search(spec: SearchSpec, design: Design) -> str:
    points = len(design.points)
    each = "" if points == 1 else f" at each of {points} points"
    return (
        f"a search for the largest {spec.factor} with {spec.named}, {spec.min_load} to {spec.max_load}{each}: "
        f"{clock(points * spec.duration_ns)} at most; which trials is known when those before have run"
    )


def _proof(experiment: Experiment, design: Design) -> str:
    from iodyno.designs import perturbation
    from iodyno.designs.duration import TRIAL_OVERHEAD_NS

    most = perturbation.most_trials(experiment, design)
    each_ns = perturbation.windows(experiment.windows).load_ns + TRIAL_OVERHEAD_NS
    return (
        f"and a proof of what limits: at most {counted(most, 'trial')} more, {clock(most * each_ns)}; "
        "which ones is known when these have run"
    )


def _time(duration: Duration) -> str:
    around = duration.overhead_ns + duration.background_ns
    return (
        f"about {clock(duration.total_ns)} in all: {clock(duration.load_ns)} under load, "
        f"{clock(around)} around it (estimated)"
    )


def clock(ns: int) -> str:
    """A length of time to plan a day with.

    >>> clock(95 * 10**9), clock(4 * 3600 * 10**9 + 90 * 10**9)
    ('1 min 35 s', '4 h 2 min')
    """
    seconds = round(ns / 1e9)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min"


def _values(
    experiment: Experiment, design: Design, evaluation: Evaluation | None, measured: Repeatability | None
) -> dict[str, object]:
    from iodyno.designs import perturbation
    from iodyno.designs.duration import estimate

    duration = estimate(experiment, design)
    names = _columns(design)
    return {
        "name": experiment.name,
        "quick": experiment.quick,
        "design": design.kind,
        "seed": design.seed,
        "points": [
            {
                "id": point.id,
                "levels": dict(point.levels),
                "labels": {name: _shown(experiment, point, name) for name in names},
            }
            for point in design.points
        ],
        "trials": [
            {"order": t.order, "block": t.block, "replicate": t.replicate, "point": t.point.id}
            | ({"pair": t.pair} if t.pair else {})
            for t in design.trials
        ],
        "duration": {
            "load_ns": duration.load_ns,
            "overhead_ns": duration.overhead_ns,
            "background_ns": duration.background_ns,
            "total_ns": duration.total_ns,
        },
        "search": asdict(experiment.search) if experiment.search else None,
        **design_tables.design_json(design, evaluation),
        "noise": asdict(measured) if measured else None,
        "proof": {"most_trials": perturbation.most_trials(experiment, design)} if experiment.prove else None,
        "notes": list(experiment.notes),
    }


def trial_rows(design: Design) -> Iterator[Row]:
    """Yield a row for each trial, levels in base units."""
    from iodyno.designs.design_rows import OTHERWISE

    names = _columns(design)
    heads = [other if own in names else own for own, other in OTHERWISE.items()]
    for trial in design.trials:
        own = (trial.order, trial.block, trial.replicate, trial.point.id)
        pair = {"pair": trial.pair} if trial.pair else {}
        yield dict(zip(heads, own, strict=True)) | pair | {n: trial.point.levels.get(n) for n in names}


def _columns(design: Design) -> list[str]:
    return list(design.points[0].levels)


def _shown(experiment: Experiment, point: Point, name: str) -> str:
    parameter = parameter_of(experiment.workload.workload, name)
    level = point.levels[name]
    return parameter.show(level) if parameter else str(level)
