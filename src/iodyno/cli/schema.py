"""`iodyno schema`: the JSON Schema of an experiment file, for editors."""

from __future__ import annotations

import json

import click


@click.command(name="schema")
def command() -> None:
    """Print the JSON Schema (draft 2020-12) of an experiment file.

    Editors complete and check experiment files with it: begin a file with the second line below.

    \b
    Examples:
      iodyno schema > experiment.schema.json
      # yaml-language-server: $schema=experiment.schema.json
    """
    from iodyno.formats.experiment_file import experiment_schema

    click.echo(json.dumps(experiment_schema(), indent=2, ensure_ascii=False))
