"""Storage workloads of other tools on the command line: personalities of Filebench and job files of fio."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from iodyno.cli import uperf
from iodyno.cli.number import Seconds
from iodyno.cli.options import OF_FOREIGN, Option
from iodyno.cli.stderr import to_stderr
from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.loads.files.core.binding import defined
from iodyno.loads.files.core.parameters import kinds_of
from iodyno.loads.files.core.settings import setting

_Function = TypeVar("_Function", bound=Callable[..., Any])

QUICK_S = 5
"""Longest measured time of the quick form (chosen: two or three intervals of write-back)."""


def kind_of(file: str) -> Literal["wml", "fio"] | None:
    """Return the kind of the file; None: neither."""
    from iodyno.loads.disk.fio import is_job_file
    from iodyno.loads.files.wml import is_personality

    if is_personality(file):
        return "wml"
    return "fio" if is_job_file(file) else None


def of_storage(function: _Function) -> _Function:
    """Options of a command that takes personalities and job files."""
    group: dict[str, Any] = {"cls": Option, "group": OF_FOREIGN}
    for option in (
        click.option("--target", **group, metavar="DIR", help="Where a personality or a job file makes its files."),
        click.option("--seconds", **group, type=Seconds(0.1, 86_400),
                     help="Measured time of a personality or a job file (default: its own)."),
        click.option("--section", "sections", **group, metavar="NAME", multiple=True, help="Only this job of a job file."),
        click.option("--remove", "remove_files", cls=Option, is_flag=True, older=("--remove-files", "--remove-targets"),
                     help="Remove what was laid out: for a load on disks in the end, for a personality after each trial."),
    ):  # fmt: skip
        function = option(function)
    return function


def refuse(file: str, asked: Mapping[str, Any]) -> None:
    """Refuses these options where the file is neither."""
    if not Path(file).exists():
        return  # which is what will be said
    names = {
        "target": "--target",
        "seconds": "--seconds",
        "sections": "--section",
        "remove_files": "--remove",
    }
    for name, option in names.items():
        if asked[name]:
            raise click.UsageError(
                f"{option} can only be used with a personality of Filebench or a job file of fio; "
                f"{file} is neither"
            )


def keys_of(
    file: str,
    *,
    variables: tuple[str, ...] = (),
    to: str | None = None,
    repeat: int | None = None,
    limit: str | None = None,
    target: str | None = None,
    seconds: float | None = None,
    sections: tuple[str, ...] = (),
    remove_files: bool = False,
    quick: bool = False,
    factors: bool = False,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The keys of the experiment that the file is, and what is to be said about it. Raises ExperimentError."""
    from iodyno.formats.mistakes import nearest
    from iodyno.loads.disk.fio import read_sections
    from iodyno.loads.disk.fio.experiment import chosen
    from iodyno.loads.disk.fio.experiment import experiment_keys as keys_of_jobs
    from iodyno.loads.disk.fio.options import ALIASES
    from iodyno.loads.files.wml import read_personality
    from iodyno.loads.files.wml.experiment import experiment_keys as keys_of_personality

    if kind_of(file) == "fio":
        for name, given in (("--set", variables), ("--limit", limit), ("--remove", remove_files)):
            if given:
                raise click.UsageError(
                    f"{name} can only be used with a personality of Filebench; {file} is a job file of fio"
                )
        environment = dict(os.environ)
        every = read_sections(file, environment, ALIASES)
        read = chosen(every, sections)
        keys, notes = keys_of_jobs(
            read, file=file, target=target, to=to, repeat=repeat or 1, seconds=seconds, factors=factors,
            named=sections, among=every,
        )  # fmt: skip
    else:
        if sections:
            raise click.UsageError(
                f"--section can only be used with a job file of fio; {file} is a personality"
            )
        personality = read_personality(file)
        values = {name: setting(value) for name, value in uperf.given(variables).items()}
        known = {*kinds_of(personality), *defined(personality)}
        for name in values:
            if name not in known:
                allowed = ", ".join(sorted(known)) or "none: the personality has no variable"
                raise ExperimentError(
                    f"unknown variable ${name} of {file}: expected {allowed}{nearest(name, known)}",
                    where="--set",
                )
        keys, notes = keys_of_personality(
            personality, values, os.environ, target=target, to=to, repeat=repeat or 1, seconds=seconds,
            limit_ns=_limit_ns(limit), remove=remove_files, factors=factors,
        )  # fmt: skip
    if quick:
        asked_ns = quantity.parse("duration", keys["windows"]["measured"])
        if asked_ns > QUICK_S * 10**9:
            keys["windows"] |= {"measured": f"{QUICK_S}s", "interval": "500ms"}
            notes = (*notes, f"quick: {QUICK_S} s are measured")
    return keys, notes


def in_steps(command: click.Command, file: str, asked: Mapping[str, Any]) -> bool:
    """Tell whether the file is a job file with several jobs at a time and others after them: then the command, which is the one
    that is carried out, was carried out for the jobs of each step. Raises ExperimentError.
    """
    from iodyno.loads.disk.fio import read_sections
    from iodyno.loads.disk.fio.experiment import chosen, steps
    from iodyno.loads.disk.fio.options import ALIASES

    if kind_of(file) != "fio":
        return False
    sections = read_sections(file, dict(os.environ), ALIASES)
    every = steps(chosen(sections, asked["sections"]), target=asked["target"], among=sections)
    context = click.get_current_context()
    for number, jobs in enumerate(every, 1):
        to_stderr(f"iodyno: step {number} of {len(every)}: {', '.join(jobs)}")
        context.invoke(command, **{**context.params, "sections": jobs})
    return bool(every)


def experiment_of(file: str, **asked: Any) -> Experiment:
    """The experiment that runs the file. Raises ExperimentError."""
    from iodyno.formats.experiment_file import experiment_text, parse_experiment

    keys, notes = keys_of(file, **asked)
    experiment = parse_experiment(experiment_text(keys), file=file, environment={})
    return replace(experiment, notes=(*notes, *experiment.notes))


def _limit_ns(written: str | None) -> int:
    from iodyno.loads.files.wml.experiment import LIMIT_NS

    try:
        return quantity.parse("duration", written) if written else LIMIT_NS
    except ValueError as problem:
        raise ExperimentError(str(problem), where="--limit", advice="--limit 30min") from None


def written(keys: Mapping[str, Any], file: str) -> str:
    """The experiment file, as a person would write it."""
    from iodyno.formats.experiment_file import experiment_text

    lines = [f"# Made from {Path(file).name} by `iodyno convert`. Every factor has one level: add others."]
    for key, value in keys.items():
        if not isinstance(value, Mapping):
            lines.append(experiment_text({key: value}).rstrip("\n"))
            continue
        lines.append(f"{key}:")
        for name, entry in value.items():
            if name == "program":
                lines += [
                    "  program: |",
                    *(f"    {line}".rstrip() for line in entry.replace("${", "$${").splitlines()),
                ]
            else:
                lines.append("  " + experiment_text({name: entry}).rstrip("\n"))
    return "\n".join(lines) + "\n"
