"""`iodyno studies`: the experiments that ship."""

from __future__ import annotations

import json

import click

from iodyno.formats import shipped


@click.command(name="studies")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """List the experiments that ship, with what they ask. Each stands for a file: study:NAME.

    \b
    Examples:
      iodyno studies
      iodyno plan study:tcp-transmit --quick
      iodyno run study:tcp-transmit --quick
    """
    found = shipped.studies()
    if as_json:
        paths = {name: str(shipped.folder() / f"{name}.yaml") for name in found}
        click.echo(
            json.dumps(
                {"studies": [{"name": n, "question": q, "file": paths[n]} for n, q in found.items()]},
                indent=2,
            )
        )
        return
    width = max(map(len, found), default=0)
    for name, question in found.items():
        click.echo(f"{name:<{width}}  {question}")
