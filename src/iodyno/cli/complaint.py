"""Complaints about a wrong option, in the words of all other errors: the value, what is expected, the nearest word."""

from __future__ import annotations

import re
from collections.abc import Mapping

import click

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import for_key, invalid

OF_OTHER_TOOLS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("-c", "--client", "-H"), ("HOST", "--on")),
    **dict.fromkeys(("-s", "--server"), ("HOST: no server is to be started",)),
    **dict.fromkeys(("-P", "--parallel", "--flows", "--nthreads", "-T"), ("--connections", "--workers")),
    **dict.fromkeys(("-t", "--time", "--duration", "--runtime", "--time_based"), ("--seconds", "--for")),
    "--seconds": ("--for",),
    **dict.fromkeys(
        ("-O", "--omit", "--ramp_time", "--warmup"), ("--seconds: a warm-up is before, and not in it",)
    ),
    **dict.fromkeys(
        ("-p", "--port"), ("HOST: ports are free ones; data_port of a host in a file names one",)
    ),
    "--mtu": ("--mss, or tunables: {all: {mtu: 9000}} in a file",),
    **dict.fromkeys(("-R", "--reverse"), ("--direction reverse",)),
    "--bidir": ("--direction both",),
    **dict.fromkeys(("-i", "--interval"), ("--verbose: intervals are in the report",)),
    "-n": ("--seconds: bytes or operations are not counted off",),
    "-l": ("--size for iperf3's -l, --seconds for netperf's", "--seconds"),
    **dict.fromkeys(("--len", "--length", "--request"), ("--size",)),
    "--response": ("--response-size",),
    **dict.fromkeys(("-u", "--udp"), ("--transport udp",)),
    "--protocol": ("--transport",),
    **dict.fromkeys(("-b", "--bitrate", "--rate_iops"), ("--rate", "--link-rate")),
    "-w": ("--window",),
    **dict.fromkeys(("-C", "--congestion"), ("--congestion-control",)),
    **dict.fromkeys(("-M", "--set-mss"), ("--mss",)),
    **dict.fromkeys(("-N", "--no-delay"), ("--no-nagle", "--nagle")),
    "-J": ("--json",),
    "--output-format": ("--format",),
    **dict.fromkeys(("--bs", "--blocksize"), ("--block", "--size")),
    **dict.fromkeys(("--iodepth", "--depth"), ("--queue-depth", "--connections")),
    **dict.fromkeys(("--fsync", "--fdatasync"), ("--sync fsync, and --sync-every",)),
    "--numjobs": ("--workers", "--connections"),
    **dict.fromkeys(("--filename", "--name"), ("--target",)),
    **dict.fromkeys(("--rw", "--readwrite"), ("--pattern, and --read for the share of reads",)),
    "--rwmixread": ("--read",),
    **dict.fromkeys(("--ioengine", "--engine"), ("--syscalls", "--engine")),
    **dict.fromkeys(("-o", "--output"), ("--output", "--html", "--into")),
    "--titletext": ("--title",),
    "--unitstime": ("--time-unit",),
    "--unitslatency": ("--value-unit",),
    "--minlat": ("--min",),
    "--maxlat": ("--max",),
    "--steplat": ("--row-step",),
    "--stepsec": ("--column",),
    "--boxsize": ("--box-size",),
}
"""Options that users of iperf3, netperf, uperf, fio and trace2heatmap.pl type first, with ours: the first of them that a command
has, and what is to be known of it.
"""


def of_usage(error: click.ClickException) -> ExperimentError:
    """The error as it is shown."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    advice = f"{context.command_path if context else 'iodyno'} --help"
    if isinstance(error, click.NoSuchOption):
        return ExperimentError(_unknown_option(error), advice=advice)
    extra = re.match(r"Got unexpected extra argument", error.message)
    if extra and context and any("--target" in each.opts for each in context.command.params):
        return ExperimentError(
            f"{error.message}: a target is named by --target, a host by --on", advice=advice
        )
    if type(error) is not click.BadParameter:
        return ExperimentError(error.format_message(), advice=advice)
    return ExperimentError(for_key(_option(error), _said(error)), advice=advice)


def _unknown_option(error: click.NoSuchOption) -> str:
    """The sentence about an option that the command has not: what it is called here, or the nearest one."""
    from iodyno.formats.mistakes import nearest_of

    params = error.ctx.command.params if error.ctx else []
    here = [
        option.upper() if isinstance(each, click.Argument) else option
        for each in params
        for option in (*each.opts, *each.secondary_opts)
    ]
    said = f"unknown option {error.option_name!r}"
    for ours in OF_OTHER_TOOLS.get(error.option_name, ()):
        if re.match(r"[-\w]+", ours)[0] in here:  # type: ignore[index]
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
    return error.message + (nearest(listed[1], words) if listed and listed[1] not in words else "")


def _between(kind: click.IntRange | click.FloatRange) -> str:
    """The range in words."""
    least = "" if kind.min is None else f" above {kind.min}" if kind.min_open else f" from {kind.min}"
    if kind.max is None:
        return least
    most = (
        f"below {kind.max}" if kind.max_open else f"at most {kind.max}" if kind.min_open else f"to {kind.max}"
    )
    return f"{least} and {most}" if kind.min_open else f"{least or ' up'} {most}"
