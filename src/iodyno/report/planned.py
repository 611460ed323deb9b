"""What `iodyno plan` shows: points, order and duration of an experiment, and what its design will tell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from iodyno.core.decision import UntilSpec
from iodyno.core.design import Design, Point
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.core.quantity import counted
from iodyno.core.search import SearchSpec
from iodyno.designs import perturbation
from iodyno.designs.design_rows import OTHERWISE
from iodyno.designs.duration import TRIAL_OVERHEAD_NS, Duration, estimate
from iodyno.report.design_tables import (
    design_json,
    evaluation_brief,
    evaluation_lines,
    percent,
    structure_lines,
)
from iodyno.report.form import Block, Row, Shown
from iodyno.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from iodyno.analysis.repeatability import Repeatability
    from iodyno.designs.evaluation import Evaluation

_LEVELS_MOST = 12
"""Levels of a factor that are told one by one without -v (chosen: a line)."""


def plan_shown(
    experiment: Experiment,
    design: Design,
    evaluation: Evaluation | None,
    measured: Repeatability | None,
    *,
    verbose: bool = False,
) -> Shown:
    """Return what there is to show of a plan. `measured`: the noise, where it is of a campaign. `verbose`: with points, order and
    each effect.
    """
    return Shown(
        blocks=lambda: _blocks(experiment, design, evaluation, measured, verbose=verbose),
        values=lambda: _values(experiment, design, evaluation, measured),
        rows=lambda: trial_rows(design),
    )


def _blocks(
    experiment: Experiment,
    design: Design,
    evaluation: Evaluation | None,
    measured: Repeatability | None,
    *,
    verbose: bool,
) -> Iterator[Block]:
    duration = estimate(experiment, design)
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
    if verbose:
        yield from _order(experiment, design)
    elif names := _factors(experiment, design):
        rows = tuple((Cell(name), Cell(_levels(experiment, design, name))) for name in names)
        yield Table("", (Column("factor"), Column("levels")), rows)
    yield from _described(experiment, design, evaluation, measured, verbose=verbose)
    if not verbose:
        yield (
            "Points with -v."
            if experiment.search
            else f"{design.kind}, seed {design.seed}; points and order with -v."
        )


def _factors(experiment: Experiment, design: Design) -> list[str]:
    """List the factors, without what is set along with the levels of one."""
    along = {name for factor in experiment.factors for name in factor.together}
    return [name for name in _columns(design) if name not in along]


def _levels(experiment: Experiment, design: Design, name: str) -> str:
    """List the levels of a factor, or its range where there are many."""
    labels = {point.levels[name]: _shown(experiment, point, name) for point in design.points}
    numbers = all(isinstance(level, int | float) and not isinstance(level, bool) for level in labels)
    shown = [labels[level] for level in (sorted(labels) if numbers else labels)]
    if len(shown) <= _LEVELS_MOST:
        return ", ".join(shown)
    if numbers:
        return f"{shown[0]} to {shown[-1]}, {len(shown)} levels"
    return f"{', '.join(shown[: _LEVELS_MOST - 1])} and {len(shown) - _LEVELS_MOST + 1} more"


def _order(experiment: Experiment, design: Design) -> Iterator[Block]:
    """Yield the points, and the order of their trials."""
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
    yield Table("Points", tuple(map(Column, ("point", *names))), tuple(rows))
    if not experiment.search:
        yield f"Order ({design.kind}, seed {design.seed}), block by block:"
        yield from blocks
        if placed:
            yield f"Each on a pair of machines: {', '.join(f'{place[1:]} {name}' for name, place in placed.items())}"


def _described(
    experiment: Experiment,
    design: Design,
    evaluation: Evaluation | None,
    measured: Repeatability | None,
    *,
    verbose: bool,
) -> list[str]:
    """Describe the design, and what it will tell; each effect with `verbose`, or where that was asked for by a noise."""
    structure = structure_lines(experiment, design)
    if not verbose and (evaluation is None or evaluation.noise_ratio is None):
        return [*structure, *evaluation_brief(evaluation)]
    lines = ["", *structure] if structure and verbose else structure
    evaluated = evaluation_lines(evaluation)
    if measured:
        evaluated.append(
            f"  the noise is that of {measured.outcome} there: {percent(measured.noise_ratio)} "
            f"[{percent(measured.low_ratio)}, {percent(measured.high_ratio)}], over {counted(measured.points, 'point')}"
        )
    if evaluated and (verbose or lines):
        lines.append("")
    return [*lines, *evaluated]


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
        **design_json(design, evaluation),
        "noise": asdict(measured) if measured else None,
        "proof": {"most_trials": perturbation.most_trials(experiment, design)} if experiment.prove else None,
        "notes": list(experiment.notes),
    }


def trial_rows(design: Design) -> Iterator[Row]:
    """Yield a row for each trial, levels in base units."""
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
