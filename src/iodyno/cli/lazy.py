"""Groups of commands that are imported when they are called, so that `iodyno --help` answers at once."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from iodyno.core.errors import ExperimentError


class PipeClosedError(Exception):
    """Whoever read our output has seen enough."""


@dataclass(frozen=True)
class CommandEntry:
    """A command: its word, the module and attribute that hold it, and one line of help."""

    name: str
    place: str
    help: str


class LazyGroup(click.Group):
    """A group whose commands are known by `entries` and imported when they are called."""

    def __init__(self, *args: Any, entries: Sequence[CommandEntry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words of all commands, in the order of work."""
        return [entry.name for entry in self.entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        entry = next((entry for entry in self.entries if entry.name == cmd_name), None)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        loaded = getattr(importlib.import_module(module), attribute)
        assert isinstance(loaded, click.Command)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word, or an error with the nearest command."""
        words = self.list_commands(ctx)
        if args and args[0] not in words and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], words, n=1, cutoff=0.5)
            advice = f"{ctx.command_path} {near[0]}" if near else f"{ctx.command_path} --help"
            known = f"expected one of {', '.join(words)}"
            raise ExperimentError(f"unknown command {args[0]!r}: {known}", advice=advice)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. A reader that went away is no error, which click would make of it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise PipeClosedError from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands that begin so, without importing any, and the options of the group itself."""
        commands = [
            CompletionItem(e.name, help=e.help) for e in self.entries if e.name.startswith(incomplete)
        ]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in self.entries] or [("none yet", "")])
