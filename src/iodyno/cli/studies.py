"""`iodyno studies`: the experiments that ship."""

from __future__ import annotations

import click

from iodyno.cli.form import format_option, show
from iodyno.formats import shipped
from iodyno.report.form import Form, Shown
from iodyno.report.table import Cell, Column, Table


@click.command(name="studies")
@format_option()
def command(form: Form) -> None:
    """List the experiments that ship, with what they ask. Each stands for a file: study:NAME.

    \b
    Examples:
      iodyno studies
      iodyno plan study:tcp-transmit --quick
      iodyno run study:tcp-transmit --quick
    """
    rows = [
        {"name": name, "question": question, "file": str(shipped.folder() / f"{name}.yaml")}
        for name, question in shipped.studies().items()
    ]
    cells = tuple((Cell(f"study:{row['name']}"), Cell(row["question"])) for row in rows)
    table = Table("Experiments that ship", (Column("file"), Column("question")), cells)
    show(Shown(lambda: [table], lambda: {"studies": rows}, lambda: rows), form)
