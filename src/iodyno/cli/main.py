"""The `iodyno` command: finds the command asked for, runs it, and prints what went wrong in one place.

Commands are imported when they are called, so that `iodyno --help` answers at once. To add one: a file
with a click command named `command`, and a line in `COMMANDS`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from iodyno.cli.encoding import take_all_characters
from iodyno.cli.lazy import CommandEntry, LazyGroup, PipeClosedError
from iodyno.cli.stderr import settle, to_stderr
from iodyno.core.errors import Interrupted, IodynoError, StoreError

PIPE_CLOSED = 141
"""128 + SIGPIPE, what a shell reports of a program whose reader went away."""


COMMANDS = (
    CommandEntry("init", "iodyno.cli.init:command", "Write a starter experiment file, with comments."),
    CommandEntry("check", "iodyno.cli.check:command", "Check an experiment file and say what it asks for."),
    CommandEntry("plan", "iodyno.cli.plan:command", "Show points, order and how long it will take."),
    CommandEntry("hosts", "iodyno.cli.hosts:command", "Check every host of an experiment, side by side."),
    CommandEntry("run", "iodyno.cli.run:command", "Run an experiment, or go on with a campaign."),
    CommandEntry("noise", "iodyno.cli.noise:command", "Measure what varies when nothing is changed."),
    CommandEntry(
        "convert",
        "iodyno.cli.convert:command",
        "Make an experiment file from one of uperf, Filebench or fio.",
    ),
    CommandEntry("tcp", "iodyno.cli.tcp:command", "Measure rate and cost of TCP right now, without a file."),
    CommandEntry("rr", "iodyno.cli.rr:command", "Measure requests and answers right now, without a file."),
    CommandEntry("disk", "iodyno.cli.disk:command", "Measure a disk or a file right now, without a file."),
    CommandEntry("record", "iodyno.cli.record:command", "Record what a host does, without a load."),
    CommandEntry("search", "iodyno.cli.search:command", "Find the largest rate that meets a goal."),
    CommandEntry("explore", "iodyno.cli.explore:command", "Find what matters, in stages."),
    CommandEntry("watch", "iodyno.cli.watch:command", "Look on while a campaign runs, or replay it."),
    CommandEntry("report", "iodyno.cli.report:command", "Show what a campaign found."),
    CommandEntry(
        "heatmap", "iodyno.cli.heatmap:command", "Draw what averages hide, of a trace or a campaign."
    ),
    CommandEntry("trace", "iodyno.cli.trace:command", "Trace what the kernel does, event by event."),
    CommandEntry("profile", "iodyno.cli.profile:command", "Show or export which functions take CPU time."),
    CommandEntry(
        "compare", "iodyno.cli.compare:command", "Compare two points or two campaigns, by function too."
    ),
    CommandEntry("model", "iodyno.cli.model:command", "Calculate queues, networks and scaling curves."),
    CommandEntry("paths", "iodyno.cli.paths:command", "Show what can lie between two hosts on this machine."),
    CommandEntry(
        "tunables", "iodyno.cli.tunables:command", "Show what of a host can be set, and where it is at."
    ),
    CommandEntry(
        "restore", "iodyno.cli.restore:command", "Restore what a run that is gone left set on a host."
    ),
    CommandEntry("studies", "iodyno.cli.studies:command", "List the experiments and examples that ship."),
    CommandEntry("schema", "iodyno.cli.schema:command", "Print the JSON Schema of an experiment file."),
    CommandEntry("completion", "iodyno.cli.completion:command", "Print the completion script of a shell."),
)
"""Every command, in the order of work."""


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
    entries=COMMANDS,
    no_args_is_help=True,
    # What looks like a colour is shown as text: none of our lines is left to click to take one out of.
    context_settings={"help_option_names": ["-h", "--help"], "color": True},
    epilog="Exit codes: 0 done, 1 not as expected, 2 wrong file or option, 3 host or agent not reached, 4 host cannot carry it, "
    "5 trials failed, 6 results not stored or read, 130 stopped with Ctrl-C. Pages named docs/... are at "
    "https://github.com/iodyno/iodyno.",
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
      iodyno plan study:tcp-transmit --quick
      iodyno run study:tcp-transmit --quick
      iodyno report campaigns/NAME
    """


DEFECT = 70
"""EX_SOFTWARE of sysexits.h: what failed is iodyno, which must not look like what is not as expected."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command and leaves with its exit code."""
    take_all_characters(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(arguments)
    except Exception:  # noqa: BLE001  (whatever it is, its exit code is its own)
        traceback.print_exc()
        code = DEFECT
    settle()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; its exit code. Every error that a user can do something about is printed here."""
    try:
        done = iodyno.main(
            args=None if arguments is None else list(arguments), prog_name="iodyno", standalone_mode=False
        )
        if sys.stdout is not None:
            sys.stdout.flush()
        return done if isinstance(done, int) else 0
    except (BrokenPipeError, PipeClosedError):
        # Python must not complain about it while it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort) as stop:
        if isinstance(stop.__cause__, EOFError):
            raise stop.__cause__ from None  # Of a stream that ended within, which click takes for one who leaves a prompt.
        return _failed(Interrupted("stopped"))
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.ClickException as error:
        # Imported here: what is right needs it not.
        from iodyno.cli.complaint import of_usage

        return _failed(of_usage(error), error.exit_code)
    except IodynoError as error:
        return _failed(error)
    except OSError as error:
        # A disk that is full under stdout, above all; what is known to fail elsewhere has its own error.
        place = str(error.filename) if error.filename else "output"
        return _failed(StoreError(f"cannot be written or read: {error.strerror or error}", where=place))


def _failed(error: IodynoError, exit_code: int | None = None) -> int:
    # Who stopped it knows that it is no error.
    to_stderr(f"iodyno: {'' if isinstance(error, Interrupted) else 'error: '}{error}")
    return error.exit_code if exit_code is None else exit_code
