"""Complaints about a wrong option, in the words of all other errors: the value, what is expected, the nearest word."""

from __future__ import annotations

import re

import click

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import for_key, invalid

OF_OTHER_TOOLS = {
    "--flows": "--connections",
    "--parallel": "--connections",
    "-P": "--connections",
    "--len": "--size",
    "--length": "--size",
    "--request": "--size",
    "--response": "--response-size",
    "--time": "--seconds",
    "--duration": "--seconds",
    "--runtime": "--seconds",
    "--udp": "--transport",
    "--protocol": "--transport",
    "--congestion": "--congestion-control",
    "--set-mss": "--mss",
    "--no-delay": "--nagle",
    "--bitrate": "--rate",
    "--rate_iops": "--rate",
    "--bs": "--block",
    "--blocksize": "--block",
    "--iodepth": "--queue-depth",
    "--numjobs": "--workers",
    "--nthreads": "--connections",
    "--filename": "--target",
    "--rw": "--pattern",
    "--readwrite": "--pattern",
    "--rwmixread": "--read",
    "--ioengine": "--syscalls",
}
"""Options of iperf3, netperf, uperf and fio, with ours where a command has it."""


def of_usage(error: click.ClickException) -> ExperimentError:
    """The error as it is shown."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    advice = f"{context.command_path if context else 'iodyno'} --help"
    if isinstance(error, click.NoSuchOption):
        return ExperimentError(_unknown_option(error), advice=advice)
    if type(error) is not click.BadParameter:
        return ExperimentError(error.format_message(), advice=advice)
    return ExperimentError(for_key(_option(error), _said(error)), advice=advice)


def _unknown_option(error: click.NoSuchOption) -> str:
    """The sentence about an option that the command has not: what it is called here, or the nearest one."""
    from iodyno.formats.mistakes import nearest_of

    here = [option for each in error.ctx.command.params for option in each.opts] if error.ctx else []
    said, ours = f"unknown option {error.option_name!r}", OF_OTHER_TOOLS.get(error.option_name)
    if ours in here:
        return f"{said}: expected {ours}"
    near = nearest_of(error.option_name.lstrip("-"), (name.lstrip("-") for name in here))
    return f"{said}; did you mean '--{near}'?" if near else said


def _option(error: click.BadParameter) -> str:
    """The option or argument, as it is typed."""
    hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
    shown = hint if isinstance(hint, str) else " / ".join(hint)
    shown = shown.replace("'", "")
    if shown.startswith("{") and error.param and error.param.name:
        return error.param.name.upper()
    return shown or "command line"


def _said(error: click.BadParameter) -> str:
    from iodyno.formats.mistakes import nearest, unknown

    kind = error.param.type if error.param else None
    if isinstance(kind, click.Choice) and (
        said := re.match(r"'(.*)' is not one of ", error.message, re.DOTALL)
    ):
        return unknown(said[1], [str(word) for word in kind.choices])
    if isinstance(kind, (click.IntRange, click.FloatRange)):
        said = re.match(r"(.*?) is not (?:a valid|in the range)", error.message, re.DOTALL)
        if said:
            whole = "a whole number" if isinstance(kind, click.IntRange) else "a number"
            return invalid(said[1].strip("'"), f"{whole}{_between(kind)}")
    listed = re.search(r"invalid value '([^']+)': expected (.*)$", error.message)
    # Of a list that goes on in words only the words count, and no letter is near to anything.
    words = [word for word in listed[2].split(", ") if " " not in word and len(word) > 1] if listed else []
    return error.message + (nearest(listed[1], words) if listed else "")


def _between(kind: click.IntRange | click.FloatRange) -> str:
    """The range in words."""
    least = "" if kind.min is None else f" above {kind.min}" if kind.min_open else f" from {kind.min}"
    if kind.max is None:
        return least
    most = (
        f"below {kind.max}" if kind.max_open else f"at most {kind.max}" if kind.min_open else f"to {kind.max}"
    )
    return f"{least} and {most}" if kind.min_open else f"{least or ' up'} {most}"
