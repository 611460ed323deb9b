"""`iodyno check`: is the experiment file right, and what does it ask for?"""

from __future__ import annotations

import json

import click

from iodyno import designs
from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import read_experiment


@click.command(name="check")
@click.argument("file")
@click.option("--quick", is_flag=True, help="Look at the quick form.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(file: str, quick: bool, as_json: bool) -> None:
    """Check an experiment FILE and say what it asks for.

    Lists every mistake with its line, what was found, what is allowed and the nearest word; exit code 2.

    \b
    Examples:
      iodyno check studies/tcp-transmit.yaml
      iodyno check studies/tcp-transmit.yaml --quick --json
    """
    experiment = read_experiment(file, quick=quick)
    for note in experiment.notes:
        click.echo(f"iodyno: note: {note}", err=True)
    summary = _summary(experiment)
    if as_json:
        click.echo(json.dumps({"ok": True, "file": file, **summary}, indent=2))
        return
    click.echo(f"OK: {file}" + (" (quick form)" if quick else ""))
    for key, value in summary.items():
        if key not in ("quick", "factors", "notes") and value != "":
            click.echo(f"  {key:<9} {', '.join(value) if isinstance(value, list) else value}")
        for name, levels in value.items() if key == "factors" and isinstance(value, dict) else ():
            click.echo(f"  factor    {name}: {', '.join(levels)}")


def _summary(experiment: Experiment) -> dict[str, object]:
    design = designs.plan(experiment)
    workload = experiment.workload
    factors: dict[str, list[str]] = {}
    for factor in experiment.factors:
        for name, levels in {factor.name: factor.levels, **factor.together}.items():
            parameter = workload.workload.parameter(name)
            factors[name] = [parameter.show(level) if parameter else str(level) for level in levels]
    return {
        "name": experiment.name,
        "question": experiment.question,
        "hosts": [f"{host.name} ({host.access})" for host in experiment.hosts.values()],
        "workload": f"{workload.kind} from {workload.sender} to {workload.receiver}",
        "factors": factors,
        "points": len(design.points),
        "trials": len(design.trials),
        "outcomes": list(experiment.outcomes),
        "quick": experiment.quick,
        "notes": list(experiment.notes),
    }
