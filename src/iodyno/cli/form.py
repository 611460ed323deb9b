"""--format: the form in which a command prints what it has found, one option for all of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from iodyno.cli.encoding import spelled
from iodyno.report.form import FORMS, Block, Form, Headline, Shown, written

_Function = TypeVar("_Function", bound=Callable[..., Any])


def format_option(*others: str) -> Callable[[_Function], _Function]:
    """Add --format and its short form --json: the parameter `form`. `others`: forms beside the four."""

    def add(function: _Function) -> _Function:
        short = click.option("--json", "form", flag_value="json", help="The same as --format json.")
        choice = click.Choice((*FORMS, *others))
        return click.option(
            "--format",
            "form",
            type=choice,
            default="text",
            show_default=True,
            help="Form of what is printed.",
        )(short(function))

    return add


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show all that was found, the methods and every warning, not the answer alone.",
)


def show(shown: Shown, form: Form) -> None:
    """Prints what a command has to show."""
    width = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None
    if form == "text":
        laid_out = replace(shown, blocks=lambda: map(_spelled, shown.blocks()))
        click.echo(written(laid_out, form, width), nl=False)
        return
    click.echo(written(shown, form, width), nl=False)


def _spelled(block: Block) -> Block:
    """The block in the characters of stdout, as a column is as wide as what is written in it."""
    if isinstance(block, str):
        return spelled(block)
    if isinstance(block, Headline):
        rows = tuple((spelled(label), tuple(map(spelled, cells))) for label, cells in block.rows)
        return replace(block, title=spelled(block.title), rows=rows)
    columns = tuple(
        replace(each, title=spelled(each.title), group=spelled(each.group)) for each in block.columns
    )
    cells = tuple(tuple(replace(cell, text=spelled(cell.text)) for cell in row) for row in block.rows)
    return replace(block, title=spelled(block.title), columns=columns, rows=cells)
