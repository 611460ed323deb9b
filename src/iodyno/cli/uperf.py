"""Profiles of uperf on the command line: the options that they have, and the experiment that they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from iodyno.cli.options import OF_FOREIGN, Option
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import invalid

_Function = TypeVar("_Function", bound=Callable[..., Any])


def setting(function: _Function) -> _Function:
    """The option that gives a variable of the profile its value."""
    return click.option(
        "--set", "variables", cls=Option, group=OF_FOREIGN, metavar="NAME=VALUE", multiple=True,
        help="Value of a variable of a profile or a personality; else it comes from the environment.",
    )(function)  # fmt: skip


def receiving_host(function: _Function) -> _Function:
    """The option that names the other host."""
    return click.option(
        "--to",
        cls=Option,
        group=OF_FOREIGN,
        metavar="[USER@]HOST",
        help="The other host of a profile, or the one host of a personality or a job file; without it, this machine.",
    )(function)


def of_profiles(function: _Function) -> _Function:
    """Options of a command that runs a profile."""
    for option in (
        setting,
        receiving_host,
        click.option("--repeat", cls=Option, group=OF_FOREIGN, type=click.IntRange(1, 1000),
                     help="Number of trials.  [default: 1]"),
        click.option("--limit", cls=Option, group=OF_FOREIGN, metavar="DURATION",
                     help="Limit for all that has no duration.  [default: 10min; of a profile, for each transaction]"),
    ):  # fmt: skip
        function = option(function)
    return function


def refuse(file: str, asked: Mapping[str, Any]) -> None:
    """Refuses the options of profiles where the file is an experiment."""
    if not Path(file).exists():
        return  # which is what will be said
    names = {"variables": "--set", "to": "--to", "repeat": "--repeat", "limit": "--limit"}
    for name, option in names.items():
        if asked.get(name):
            raise click.UsageError(
                f"{option} can only be used with a profile of uperf; {file} is an experiment file"
            )


def given(variables: tuple[str, ...]) -> dict[str, str]:
    """The variables that options set. Raises ExperimentError.

    >>> given(("nthr=4", "proto=tcp"))
    {'nthr': '4', 'proto': 'tcp'}
    """
    found = {}
    for written in variables:
        name, equals, value = written.partition("=")
        if not equals or not name.strip() or not value:
            raise ExperimentError(invalid(written, "NAME=VALUE"), where="--set", advice="--set nthr=4")
        found[name.strip().removeprefix("$")] = value
    return found


def experiment_of(
    file: str, variables: tuple[str, ...], to: str | None, repeat: int | None, limit: str | None
) -> Experiment:
    """The experiment that runs the profile in the file. Raises ExperimentError."""
    from iodyno.formats.experiment_file import experiment_text, parse_experiment
    from iodyno.loads.script.uperf import experiment_keys, host_notes, read_profile, values_of
    from iodyno.loads.script.uperf.experiment import never_made_notes

    profile = read_profile(file)
    levels = values_of(profile, os.environ, given(variables))
    keys = experiment_keys(profile, levels, to=to, repeat=repeat or 1, limit_ns=_limit_ns(limit))
    experiment = parse_experiment(experiment_text(keys), file=file, environment={})
    notes = (*host_notes(profile, levels, to), *never_made_notes(profile, levels), *profile.notes)
    return replace(experiment, notes=notes)


def _limit_ns(written: str | None) -> int | None:
    from iodyno.loads.script.uperf.experiment import SHORTEST_NS
    from iodyno.loads.script.uperf.profile import MAX_DURATION_NS

    try:
        limit_ns = quantity.parse("duration", written) if written else None
        if limit_ns is not None and not SHORTEST_NS <= limit_ns <= MAX_DURATION_NS:
            raise ValueError(invalid(written, f"10ms to {quantity.show('duration', MAX_DURATION_NS)}"))
    except ValueError as problem:
        raise ExperimentError(str(problem), where="--limit", advice="--limit 30min") from None
    return limit_ns
