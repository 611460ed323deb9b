"""Options with what click's have not: a group in the help, and older words that are still taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

OF_DESIGN = "Options of the design"
OF_FOREIGN = "Options of files of other tools (uperf, Filebench, fio)"


class Option(click.Option):
    """An option that stands in a `group` of the help. `older`: words that it had before, which are taken and not shown."""

    def __init__(self, *args: Any, group: str = "", older: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group
        self.older = tuple(older)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Has the parser know the older words, too."""
        shown = self.opts
        self.opts = [*shown, *self.older]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


class GroupedCommand(click.Command):
    """A command whose help has its options in groups; those without one come first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes a list for each group, in the order in which groups come first."""
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                name = (parameter.group if isinstance(parameter, Option) else "") or "Options"
                groups.setdefault(name, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)
