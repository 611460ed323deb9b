"""`iodyno plan`: what a run would do, and how long it would take."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterable
from dataclasses import replace

import click

from iodyno import designs
from iodyno.core.design import Design, Point
from iodyno.core.experiment import Experiment
from iodyno.designs import perturbation
from iodyno.designs.duration import TRIAL_OVERHEAD_NS, Duration, estimate
from iodyno.formats.experiment_file import read_experiment


@click.command(name="plan")
@click.argument("file")
@click.option("--quick", is_flag=True, help="Plan the quick form.")
@click.option("--prove", is_flag=True, help="Plan the proof of what limits too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, levels in base units.")
@click.option("--csv", "as_csv", is_flag=True, help="Print one line per trial, levels in base units.")
def command(file: str, quick: bool, prove: bool, as_json: bool, as_csv: bool) -> None:
    """Show points, order and duration of the experiment in FILE. Runs nothing.

    The order is random inside each block, drawn from the seed: the same file gives the same order.

    \b
    Examples:
      iodyno plan studies/tcp-transmit.yaml
      iodyno plan studies/tcp-transmit.yaml --quick
      iodyno plan studies/tcp-transmit.yaml --csv > order.csv
    """
    if as_json and as_csv:
        raise click.UsageError("found --json and --csv, allowed: one of them")
    experiment = read_experiment(file, quick=quick)
    experiment = replace(experiment, prove=experiment.prove or prove)
    design = designs.plan(experiment)
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(_as_json(experiment, design), indent=2))
    elif as_csv:
        click.echo(_as_csv(design), nl=False)
    else:
        click.echo(_as_text(experiment, design))


def _as_text(experiment: Experiment, design: Design) -> str:
    duration = estimate(experiment, design)
    names = _columns(design)
    rows = [[point.id, *(_shown(experiment, point, name) for name in names)] for point in design.points]
    blocks = [
        f"  {block + 1:>3}  {' '.join(trial.point.id for trial in trials)}"
        for block, trials in itertools.groupby(design.trials, key=lambda trial: trial.block)
    ]
    form = " (quick form)" if experiment.quick else ""
    return "\n".join(
        [
            f"{experiment.name}{form}: {experiment.question.strip()}".rstrip(": "),
            "",
            *(f"  {line}" for line in _table(["point", *names], rows)),
            "",
            f"Order ({design.kind}, seed {design.seed}), block by block:",
            *blocks,
            "",
            f"{_many(len(design.points), 'point')} x {_many(experiment.design.replicates, 'replicate')}"
            f" = {_many(len(design.trials), 'trial')}",
            _time(duration),
            *([_proof(experiment, design)] if experiment.prove else []),
        ]
    )


def _proof(experiment: Experiment, design: Design) -> str:
    most = perturbation.most_trials(design)
    each_ns = perturbation.windows(experiment.windows).load_ns + TRIAL_OVERHEAD_NS
    return (
        f"and a proof of what limits: at most {_many(most, 'trial')} more, {clock(most * each_ns)}; "
        "which ones is known when these have run"
    )


def _many(number: int, thing: str) -> str:
    return f"{number} {thing}" + ("s" if number != 1 else "")


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


def _as_json(experiment: Experiment, design: Design) -> dict[str, object]:
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
            for t in design.trials
        ],
        "duration": {
            "load_ns": duration.load_ns,
            "overhead_ns": duration.overhead_ns,
            "background_ns": duration.background_ns,
            "total_ns": duration.total_ns,
        },
        "proof": {"most_trials": perturbation.most_trials(design)} if experiment.prove else None,
        "notes": list(experiment.notes),
    }


def _as_csv(design: Design) -> str:
    written = io.StringIO()
    names = _columns(design)
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(["order", "block", "replicate", "point", *names])
    for trial in design.trials:
        levels = (trial.point.levels.get(name) for name in names)
        rows.writerow([trial.order, trial.block, trial.replicate, trial.point.id, *levels])
    return written.getvalue()


def _columns(design: Design) -> list[str]:
    return list(design.points[0].levels)


def _shown(experiment: Experiment, point: Point, name: str) -> str:
    parameter = experiment.workload.workload.parameter(name)
    level = point.levels[name]
    return parameter.show(level) if parameter else str(level)


def _table(head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """Columns as wide as their widest cell; every cell but the first to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
