"""`iodyno check`: is the experiment file right, and what does it ask for?"""

from __future__ import annotations

from typing import Any

import click

from iodyno.cli import design_options, storage_files, uperf
from iodyno.cli.experiment_argument import experiment_argument
from iodyno.cli.form import format_option, show
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.report.form import Form, Headline, Shown, flat, json_text


@click.command(name="check")
@experiment_argument
@click.option("--quick", is_flag=True, help="Look at the quick form.")
@format_option()
@uperf.setting
@storage_files.of_storage
def command(file: str, quick: bool, form: Form, variables: tuple[str, ...], **storage_asked: Any) -> None:
    """Check an experiment FILE (- is stdin) and say what it asks for; or a personality of Filebench (.f), a job file of fio
    (.fio), or a profile of uperf (.xml).

    Lists every mistake with its line, what was found, what is allowed and the nearest word; exit code 2. With --json the
    object has `ok`, and either what the experiment asks for or its `mistakes`.

    \b
    Examples:
      iodyno check study:tcp-transmit
      iodyno check study:tcp-transmit --quick --json
      iodyno check fileserver.f --target /srv/test
      iodyno check connect.xml --set nthr=4
    """
    try:
        if storage_files.in_steps(command, file, storage_asked):
            return
        experiment = _experiment(file, variables, storage_asked, quick=quick)
        summary = _summary(experiment, file)
    except ExperimentError as error:
        of_command = click.get_current_context().meta
        # A job file of several steps comes here for each of them, and for all.
        if form == "json" and __name__ not in of_command:
            of_command[__name__] = True
            click.echo(json_text({"ok": False, "file": file, "mistakes": _mistakes(error)}), nl=False)
        raise
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    told: list[tuple[str, str]] = []
    for key, value in summary.items():
        if isinstance(value, dict):
            told += [("factor", f"{name}: {', '.join(levels)}") for name, levels in value.items()]
        elif key not in ("quick", "notes") and value != "":
            told.append((key, ", ".join(value) if isinstance(value, list) else str(value)))
    title = f"OK: {file}" + (" (quick form)" if quick else "")
    shown = Shown(
        blocks=lambda: [Headline(title, tuple((key, (text,)) for key, text in told))],
        values=lambda: {"ok": True, "file": file, **summary},
        rows=lambda: [{"file": file, **flat(summary)}],
    )
    show(shown, form)


def _mistakes(error: ExperimentError) -> list[dict[str, object]]:
    """Every mistake by its line and key; of an error that is of no line, the error."""
    from iodyno.formats.mistakes import MistakesError

    if isinstance(error, MistakesError):
        return [{"line": one.line, "key": one.path, "text": one.text} for one in error.mistakes]
    return [{"line": None, "key": error.where, "text": error.what}]


def _experiment(
    file: str, variables: tuple[str, ...], storage_asked: dict[str, Any], *, quick: bool
) -> Experiment:
    """Return the experiment that the file asks for. Raises ExperimentError."""
    from iodyno.formats.experiment_file import read_experiment
    from iodyno.loads.script.uperf import is_profile

    if storage_files.kind_of(file) is not None:
        return storage_files.experiment_of(file, variables=variables, quick=quick, **storage_asked)
    if is_profile(file):
        storage_files.refuse(file, storage_asked)
        if quick:
            raise click.UsageError("--quick cannot be used with a profile of uperf")
        return uperf.experiment_of(file, variables, to=None, repeat=None, limit=None)
    uperf.refuse(file, {"variables": variables})
    storage_files.refuse(file, storage_asked)
    return read_experiment(file, quick=quick)


def _summary(experiment: Experiment, file: str) -> dict[str, object]:
    from iodyno.designs.stopping import extended
    from iodyno.loads.base.formats import load_named

    experiment = extended(experiment)
    design = design_options.plan_of(experiment, file)
    workload, searched = experiment.workload, experiment.search
    factors: dict[str, list[str]] = {}
    for factor in experiment.factors:
        for name, levels in {factor.name: factor.levels, **factor.together}.items():
            parameter = parameter_of(workload.workload, name)
            factors[name] = [parameter.show(level) if parameter else str(level) for level in levels]
    return {
        "name": experiment.name,
        "question": experiment.question,
        "hosts": [f"{host.name} ({host.access})" for host in experiment.hosts.values()],
        **({"placement": [pair.name for pair in experiment.placement]} if experiment.placement else {}),
        "workload": load_named(workload.kind).shown(workload),
        "factors": factors,
        "points": len(design.points),
        **({"search": f"largest {searched.factor} with {searched.named}"} if searched else {}),
        **({"until": experiment.until.rule.text} if experiment.until else {}),
        "trials": "as many as the search takes" if searched else len(design.trials),
        "outcomes": list(experiment.outcomes),
        "quick": experiment.quick,
        "notes": list(experiment.notes),
    }
