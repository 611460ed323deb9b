"""Factors as ranges: their ends, their middle, any place between, and what a place of the coded scale sets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

from iodyno.core.design import Coding
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import Factor, parameter_of
from iodyno.core.parameter import Parameter
from iodyno.core.quantity import counted
from iodyno.core.workload import Level


def is_number(level: Level) -> bool:
    """Tell whether a level is a number: on and off are words."""
    return isinstance(level, int) and not isinstance(level, bool)


def coding_of(factor: Factor, *, log: bool = False, among: Sequence[Level] = ()) -> Coding:
    """Return the coding of the factor's levels. `among`: levels beside those of the file that a design visits."""
    if all(is_number(level) for level in factor.levels):
        numbers = sorted(int(level) for level in (*factor.levels, *among))
        ends = sorted(int(level) for level in factor.levels)
        scale: Literal["linear", "log"] = "log" if log and numbers[0] > 0 else "linear"
        coding = Coding("number", ends[0], ends[-1], None, (), scale)
        middle = ends[len(ends) // 2] if len(ends) % 2 and len(ends) > 2 else round(coding.natural(0))
        return Coding("number", ends[0], ends[-1], middle, (), scale)
    return Coding("word", factor.levels[0], factor.levels[-1], None, factor.levels)


def codings(experiment: Experiment) -> dict[str, Coding]:
    """The coding of every factor with more than one level, in the order of the file. Raises ExperimentError."""
    found = {}
    for factor in experiment.factors:
        log = factor.name in experiment.design.log
        if log and not all(is_number(level) and int(level) > 0 for level in factor.levels):
            raise ExperimentError(
                f"{factor.name} has levels that have no logarithm: {shown(experiment, factor)}",
                where="design.log",
                advice="name factors whose levels are numbers above 0",
            )
        if len(factor.levels) > 1:
            found[factor.name] = coding_of(factor, log=log)
    return found


def varied(experiment: Experiment) -> list[Factor]:
    """The factors with more than one level."""
    return [factor for factor in experiment.factors if len(factor.levels) > 1]


def shown(experiment: Experiment, factor: Factor) -> str:
    """The factor's levels as people write them."""
    return ", ".join(shown_level(experiment, factor.name, level) for level in factor.levels)


def shown_level(experiment: Experiment, name: str, level: Level) -> str:
    """A level of a parameter or tunable as people write it."""
    parameter = parameter_of(experiment.workload.workload, name)
    return parameter.show(level) if parameter else str(level)


def two_levels(experiment: Experiment) -> list[tuple[Level, Level]]:
    """The ends of every factor: least and greatest number, or both words. Raises ExperimentError."""
    kind = experiment.design.kind
    if not experiment.factors:
        raise ExperimentError(
            "missing factor: expected factors with two levels each",
            where="factors",
            advice=f"add factors, or leave the design {kind} out",
        )
    ends = []
    for factor in experiment.factors:
        coding = coding_of(factor)
        if len(factor.levels) < 2:
            raise ExperimentError(
                f"invalid value: one level ({shown(experiment, factor)}); expected two for the design {kind}",
                where=f"factors.{factor.name}",
                advice="give it two levels, or set it in workload",
            )
        if coding.kind == "word" and len(factor.levels) > 2:
            raise ExperimentError(
                f"invalid value: {counted(len(factor.levels), 'word')} ({shown(experiment, factor)}); expected "
                f"two in the design {kind}",
                where=f"factors.{factor.name}",
                advice="leave two of them, or use the design full_factorial or d_optimal",
            )
        ends.append((coding.low, coding.high))
    return ends


def numbers_only(experiment: Experiment) -> dict[str, Coding]:
    """The coding of every factor of a design that needs numbers. Raises ExperimentError, which names the first with words."""
    kind = experiment.design.kind
    if not experiment.factors:
        two_levels(experiment)
    for factor in experiment.factors:
        if not all(is_number(level) for level in factor.levels):
            raise ExperimentError(
                f"invalid value: words ({shown(experiment, factor)}); expected numbers, as the design "
                f"{kind} has points between them",
                where=f"factors.{factor.name}",
                advice="use full_factorial, fractional or d_optimal, or one experiment for each word",
            )
        if len(factor.levels) < 2:
            two_levels(experiment)
    return codings(experiment)


def at(factor: Factor, level: Level, parameter: Parameter | None = None) -> dict[str, Level]:
    """Return the settings of the level, with what is set together. Raises ExperimentError, with the level as people write that
    of `parameter`, for one between those of the file that others are set together with.
    """
    for index, own in enumerate(factor.levels):
        if own == level and type(own) is type(level):
            return factor.settings(index)
    if factor.together:
        written = parameter.show(level) if parameter else level
        raise ExperimentError(
            f"the design needs {factor.name} at {written}, which the file does not list, but sets {', '.join(factor.together)} "
            "together with those it lists",
            where=f"factors.{factor.name}",
            advice="list that level with what is set together, or leave together out",
        )
    return {factor.name: level}


def place(experiment: Experiment, factor: Factor, coding: Coding, coded: float) -> dict[str, Level]:
    """Return the settings of the factor at a place of its coded scale, rounded to its unit.

    The ends and the middle are those of the file. Raises ExperimentError where the parameter cannot hold the number.
    """
    if coded == -1 or coded == 1:
        return at(factor, coding.low if coded < 0 else coding.high)
    if coded == 0 and coding.centre is not None:
        return at(factor, coding.centre)
    level = round(coding.natural(coded))
    parameter = parameter_of(experiment.workload.workload, factor.name)
    if parameter is not None and not parameter.low <= level <= parameter.high:
        raise ExperimentError(
            f"the design {experiment.design.kind} needs {factor.name} at {parameter.show(level)}; "
            f"expected {parameter.show(parameter.low)} to {parameter.show(parameter.high)}",
            where=f"factors.{factor.name}",
            advice="choose a narrower range, or `axial: faced`, which stays within it",
        )
    return at(factor, level, parameter)


def rows_of(
    experiment: Experiment, coded: Sequence[Sequence[float]], coding: Mapping[str, Coding]
) -> list[dict[str, Level]]:
    """The rows of a coded design in levels; its columns are the factors in the order of the file."""
    rows = []
    for line in coded:
        row: dict[str, Level] = {}
        for factor, value in zip(experiment.factors, line, strict=True):
            row |= place(experiment, factor, coding[factor.name], value)
        rows.append(row)
    return rows


def centre(experiment: Experiment) -> list[dict[str, Level]]:
    """The middle of all factors that are numbers, with each combination of the words. Raises ExperimentError when
    there is none.
    """
    choices: list[list[dict[str, Level]]] = []
    numbers = 0
    for factor in experiment.factors:
        coding = coding_of(factor, log=factor.name in experiment.design.log)
        if coding.kind == "number" and len(factor.levels) > 1:
            numbers += 1
            choices.append([place(experiment, factor, coding, 0)])
        else:
            choices.append([factor.settings(index) for index in range(len(factor.levels))])
    if not numbers:
        raise ExperimentError(
            "missing factor whose levels are numbers: expected one that has a middle",
            where="design.centre_points",
            advice="leave centre_points out",
        )
    rows = []
    for chosen in itertools.product(*choices):
        row: dict[str, Level] = {}
        for settings in chosen:
            row |= settings
        rows.append(row)
    return rows
