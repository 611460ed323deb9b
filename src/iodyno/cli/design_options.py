"""The design on the command line: options that stand for keys of the section `design`, and the plan that they give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from iodyno.cli.options import OF_DESIGN, Option
from iodyno.core.design import DESIGN_KINDS, DIRECTIONS, Design
from iodyno.core.errors import AccessError, ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import for_key

_Function = TypeVar("_Function", bound=Callable[..., Any])


_KEYS = (
    "kind",
    "resolution",
    "runs",
    "generators",
    "clear",
    "replicates",
    "centre_points",
    "split",
    "slow",
    "seed",
    "log",
    "along",
    "direction",
)
"""Keys of the section that have an option; the others are written in the file."""


def of_design(function: _Function) -> _Function:
    """Options of a command that plans an experiment. They arrive as `design_*`; `asked` reads them."""

    of_it = partial(click.option, cls=Option, group=OF_DESIGN)
    several: dict[str, Any] = {"multiple": True, "metavar": "TEXT"}
    for option in reversed((
        of_it("--design", "design_kind", type=click.Choice(list(DESIGN_KINDS)), metavar="KIND",
                     help=f"Use this design instead of the file's: {', '.join(DESIGN_KINDS)}."),
        of_it("--resolution", "design_resolution", metavar="N", help="Of a fractional design: 3 (III) or more."),
        of_it("--runs", "design_runs", type=click.IntRange(1), help="Trials of a replicate, where there is a choice."),
        of_it("--generator", "design_generators", **several, help="Of a fraction, such as 'E = ABCD'. Repeatable."),
        of_it("--clear", "design_clear", **several, help="Effect that must be clear, such as size:rate. Repeatable."),
        of_it("--replicates", "design_replicates", type=click.IntRange(1, 1000), help="How often each point is visited."),
        of_it("--centre-points", "design_centre_points", type=click.IntRange(0, 1000),
                     help="Visits of the middle in each replicate."),
        of_it("--split", "design_split", type=click.IntRange(1), help="Blocks that each replicate is divided into."),
        of_it("--slow", "design_slow", **several, help="Factor that is slow to change. Repeatable."),
        of_it("--seed", "design_seed", type=click.IntRange(0), help="Seed of the random order."),
        of_it("--log", "design_log", **several, help="Factor whose middle is between the logarithms. Repeatable."),
        of_it("--along", "design_along", metavar="FACTOR", help="Of a ladder: the factor that makes the ramp."),
        of_it("--direction", "design_direction", type=click.Choice(DIRECTIONS), help="Of a ladder."),
        of_it("--model", "design_model", **several,
                     help="main, interactions, quadratic, or an effect: what is estimated. Repeatable."),
        of_it("--design-file", "design_file", metavar="CSV", help="Take the trials from this file."),
        of_it("--augment", "design_augment", metavar="CAMPAIGN", help="Add d_optimal points to those of this campaign."),
    )):  # fmt: skip
        function = option(function)
    return function


def asked(options: dict[str, Any], *, evaluates: bool = False) -> dict[str, Any]:
    """Takes the options of `of_design` out of a command's options: the keys of `design` that they stand for.

    `evaluates`: the command has a use for a model with any design.
    """
    model = options.pop("design_model")
    given = {name: options.pop(f"design_{name}") for name in (*_KEYS, "file", "augment")}
    keys: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value not in (None, ())
    }
    if "file" in keys:
        # Named from where the command is typed, not from beside the experiment file.
        keys = {"kind": "csv", **keys, "file": str(Path(keys["file"]).resolve())}
    if "augment" in keys:
        keys = {"kind": "d_optimal", **keys, "augment": str(Path(keys["augment"]).resolve())}
    # Other designs are made without a model, and only evaluated for one.
    if model and keys.get("kind") == "d_optimal":
        keys["model"] = list(model)
    elif model and not evaluates:
        raise click.UsageError("--model can only be used with --design d_optimal, or with `iodyno plan`")
    return keys


def planned(
    file: str, *, quick: bool = False, design: Mapping[str, Any] | None = None
) -> tuple[Experiment, Design]:
    """The experiment in the file with these keys of its design, and its plan. Raises ExperimentError."""
    from iodyno.designs import design_rows
    from iodyno.formats.experiment_file import read_experiment

    experiment = read_experiment(file, quick=quick, design=design)
    made = plan_of(experiment, file)
    skipped = design_rows.read(experiment, experiment.design.rows).skipped if experiment.design.rows else ()
    if skipped:
        note = f"of the design file, columns that name no factor are skipped: {', '.join(skipped)}"
        experiment = replace(experiment, notes=(*experiment.notes, note))
    return experiment, made


def plan_of(experiment: Experiment, file: str) -> Design:
    """The experiment's design. Raises ExperimentError with file and line of the key that is wrong, also where a script
    cannot be carried out with the levels of a point.
    """
    from iodyno import designs
    from iodyno.campaign import refused_points
    from iodyno.loads.base.formats import load_named

    with placed(experiment, file):
        design = designs.plan(experiment)
    load_named(experiment.workload.kind).refuse(experiment, design, file)
    try:
        refused_points.refuse(experiment, design, file)
    except AccessError as error:
        # A plan can be made where no agent is; a run says it again, as its error.
        click.echo(f"iodyno: note: nobody was asked whether the settings go together: {error}", err=True)
    return design


@contextmanager
def placed(experiment: Experiment, file: str) -> Iterator[None]:
    """Add the file and the line to errors raised about a key of the design, such as `design.runs`."""
    from iodyno.formats.experiment_file import line_of

    try:
        yield
    except ExperimentError as error:
        if error.where.startswith("design.rows:"):
            raise ExperimentError(error.what, where=f"{file}: {error.where}", advice=error.advice) from None
        if not re.fullmatch(r"(design|factors|placement)(\..+)?", error.where) or ":" in error.where:
            raise
        line = line_of(experiment.text, error.where)
        raise ExperimentError(
            for_key(error.where, error.what), where=f"{file}:{line}", advice=error.advice
        ) from None
