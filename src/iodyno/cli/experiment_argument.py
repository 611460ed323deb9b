"""The argument FILE of commands that read an experiment: a path, or `study:NAME` of one that ships; and what stands over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from iodyno.core.experiment import SENSOR_LEVELS
from iodyno.formats import shipped

sensors = click.option(
    "--sensors",
    type=click.Choice(SENSOR_LEVELS),
    help="How much is read beside the load, instead of the file's `sensors` (full).",
)
_Function = TypeVar("_Function", bound=Callable[..., Any])


def experiment_argument(function: _Function) -> _Function:
    """Add FILE, which arrives as the path of a file or as `-`."""

    def found(_ctx: click.Context, _argument: click.Parameter, written: str) -> str:
        return shipped.path_of(written)

    def complete(_ctx: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
        # A shell may take what stands behind a colon for a word of its own: then the paths are of use.
        studies = shipped.addresses(begun, shipped.STUDIES)
        return [CompletionItem(name) for name in studies] or [CompletionItem(begun, type="file")]

    return click.argument("file", callback=found, shell_complete=complete)(function)
