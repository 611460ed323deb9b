"""The `iodyno` command: finds the command asked for, runs it, and prints what went wrong in one place.

Commands are imported when they are called, so that `iodyno --help` answers at once. To add one: a file
with a click command named `command`, and a line in `COMMANDS`.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import click
from click.shell_completion import CompletionItem

from iodyno.core.errors import ExperimentError, Interrupted, IodynoError

PIPE_CLOSED = 141
"""128 + SIGPIPE, what a shell reports of a program whose reader went away."""


@dataclass(frozen=True)
class CommandEntry:
    """A command: its word, the module and attribute that hold it, and one line of help."""

    name: str
    place: str
    help: str


COMMANDS = (
    CommandEntry("init", "iodyno.cli.init:command", "Write a starter experiment file, with comments."),
    CommandEntry("check", "iodyno.cli.check:command", "Check an experiment file and say what it asks for."),
    CommandEntry("plan", "iodyno.cli.plan:command", "Show points, order and how long it will take."),
    CommandEntry("run", "iodyno.cli.run:command", "Run an experiment, or go on with a campaign."),
    CommandEntry("tcp", "iodyno.cli.tcp:command", "Measure rate and cost of TCP right now, without a file."),
    CommandEntry("report", "iodyno.cli.report:command", "Show what a campaign found."),
    CommandEntry("profile", "iodyno.cli.profile:command", "Show or export which functions take CPU time."),
    CommandEntry(
        "compare", "iodyno.cli.compare:command", "Compare two points or two campaigns, by function too."
    ),
    CommandEntry("schema", "iodyno.cli.schema:command", "Print the JSON Schema of an experiment file."),
    CommandEntry("completion", "iodyno.cli.completion:command", "Print the completion script of a shell."),
)
"""Every command, in the order of work."""


class _PipeClosedError(Exception):
    """Whoever read our output has seen enough."""


class LazyGroup(click.Group):
    """A group whose commands are known by `COMMANDS` and imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The words of all commands, in the order of work."""
        return [entry.name for entry in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, imported now."""
        entry = next((entry for entry in COMMANDS if entry.name == cmd_name), None)
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
            advice = f"iodyno {near[0]}" if near else "iodyno --help"
            raise ExperimentError(
                f"found {args[0]!r}, allowed: {', '.join(words)}", where="command", advice=advice
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. A reader that went away is no error, which click would make of it."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosedError from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands that begin so, without importing any, and the options of `iodyno` itself."""
        commands = [CompletionItem(e.name, help=e.help) for e in COMMANDS if e.name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in COMMANDS])


def _show_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    # Imported here: slow, and needed by this option alone.
    from importlib.metadata import PackageNotFoundError, version

    from iodyno.session.locate import expected_build

    try:
        number = version("iodyno")
    except PackageNotFoundError:
        number = "(not installed)"
    try:
        build = expected_build()
    except IodynoError:
        build = "none"
    click.echo(f"iodyno {number}, agent build {build}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 done, 2 wrong file or option, 3 host or agent not reached, 4 host cannot carry it, "
    "5 trials failed, 6 results not stored or read, 130 stopped with Ctrl-C.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show version and build.",
)
def iodyno() -> None:
    """The dynamometer for network and storage I/O: what a path costs, where its wall is, and why.

    \b
    Examples:
      iodyno tcp --connections 4 --size 64KiB --seconds 5
      iodyno plan studies/tcp-transmit.yaml --quick
      iodyno run studies/tcp-transmit.yaml --quick
      iodyno report campaigns/NAME
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and leaves with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code. Every error that a user can do something about is printed here."""
    try:
        done = iodyno.main(
            args=None if arguments is None else list(arguments), prog_name="iodyno", standalone_mode=False
        )
        sys.stdout.flush()
        return done if isinstance(done, int) else 0
    except (BrokenPipeError, _PipeClosedError):
        # Python must not complain about it while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        return _failed(Interrupted("stopped"))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        context = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "iodyno"
        return _failed(ExperimentError(error.format_message(), advice=f"{context} --help"), error.exit_code)
    except IodynoError as error:
        return _failed(error)


def _failed(error: IodynoError, exit_code: int | None = None) -> int:
    click.echo(f"iodyno: error: {error}", err=True)
    return error.exit_code if exit_code is None else exit_code
