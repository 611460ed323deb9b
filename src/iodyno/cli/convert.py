"""`iodyno convert`: a workload of another tool becomes an experiment file whose numbers can be varied."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from iodyno.cli import storage_files, uperf
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.store.files import write_file


@click.command(name="convert")
@click.argument("file")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PATH",
    help="Write the file there.",
)
@uperf.setting
@uperf.receiving_host
@storage_files.of_storage
@click.option(
    "--script",
    is_flag=True,
    help="Keep the profile as a script, also where a workload of iodyno is the same.",
)
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(
    file: str,
    output: Path | None,
    variables: tuple[str, ...],
    to: str | None,
    script: bool,
    force: bool,
    **storage_asked: Any,
) -> None:
    """Make an experiment file from a profile of uperf, a personality of Filebench (.f) or a job file of fio (.fio).

    Numbers of the profile become factors with one level, so that others can be added: threads, sizes, counts, durations,
    rates. A plain profile (connect, one loop that writes, reads or does both, disconnect) becomes a workload of iodyno.
    Without -o the file is printed.

    \b
    Examples:
      iodyno convert profile.xml -o experiment.yaml
      iodyno convert profile.xml --set nthr=4 --set proto=tcp
      iodyno convert profile.xml --script -o experiment.yaml
      iodyno convert fileserver.f --target /srv/test -o experiment.yaml
      iodyno convert job.fio --section randread
    """  # fmt: skip
    from iodyno.formats.experiment_file import parse_experiment
    from iodyno.loads.script.uperf import converted, host_notes, is_profile, read_profile, values_of

    if storage_files.kind_of(file) is not None:
        keys, notes = storage_files.keys_of(file, variables=variables, to=to, factors=True, **storage_asked)
        text = storage_files.written(keys, file)
        parse_experiment(text, file=str(output or file), environment={})
        return _write(text, notes, output, force)
    storage_files.refuse(file, storage_asked)
    if Path(file).is_file() and not is_profile(file):
        raise ExperimentError(
            "is no file of another tool; expected a profile of uperf (XML), a personality of "
            "Filebench (.f, .wml), a job file of fio (.fio, .job, .ini)",
            where=file,
            advice="iodyno check FILE, where it is an experiment",
        )
    profile = read_profile(file)
    levels = values_of(profile, os.environ, uperf.given(variables))
    conversion = converted(profile, levels, to=to, plain=not script)
    parse_experiment(conversion.text, file=str(output or file), environment={})
    notes = (*conversion.notes, *host_notes(profile, levels, to), *profile.notes)
    return _write(conversion.text, notes, output, force)


def _write(text: str, notes: tuple[str, ...], output: Path | None, force: bool) -> None:
    """Says the notes and prints or writes the file. Raises StoreError."""
    for note in notes:
        click.echo(f"iodyno: note: {note}", err=True)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        if force:
            write_file(output, text.encode())
        else:
            with output.open("x", encoding="utf-8") as opened:
                opened.write(text)
    except FileExistsError:
        raise StoreError(
            "is there already", where=str(output), advice="name another file, or --force"
        ) from None
    except OSError as problem:
        raise StoreError(
            f"cannot be written: {problem.strerror}", where=str(output), advice="name another file"
        ) from None
    click.echo(f"iodyno: experiment: {output}", err=True)
