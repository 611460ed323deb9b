"""`iodyno studies`: the experiments that ship, and examples of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from iodyno.cli.form import format_option, show
from iodyno.formats import shipped
from iodyno.report.form import Form, Shown
from iodyno.report.table import Cell, Column, Table


@click.command(name="studies")
@format_option()
def command(form: Form) -> None:
    """List the experiments that ship, with what they ask, and examples of models.

    Each stands for a file: study:NAME where an experiment is, example:NAME where `iodyno model` reads one.

    \b
    Examples:
      iodyno studies
      iodyno plan study:tcp-transmit --quick
      iodyno run study:tcp-transmit --quick
      iodyno model network example:three-tier
    """
    studies = [
        {"name": name, "question": question, "file": str(shipped.STUDIES.files[name])}
        for name, question in shipped.studies().items()
    ]
    examples = [
        {"name": name, "command": line, "file": str(shipped.EXAMPLES.files[name])}
        for name, line in shipped.examples().items()
    ]
    tables = [
        _table("Experiments that ship", shipped.STUDIES.kind, "question", studies),
        _table("Examples of models", shipped.EXAMPLES.kind, "command", examples),
    ]
    values = {"studies": studies, "examples": examples}
    show(Shown(lambda: tables, lambda: values, lambda: [*studies, *examples]), form)


def _table(title: str, kind: str, says: str, rows: Sequence[Mapping[str, str]]) -> Table:
    cells = tuple((Cell(f"{kind}:{row['name']}"), Cell(row[says])) for row in rows)
    return Table(title, (Column("file"), Column(says)), cells)
