"""`iodyno trace`: what the kernel of this machine does, event by event, as text that `iodyno heatmap` reads.

To add one: a file here with a click command named `command`, and a line in `TRACES`.
"""

from __future__ import annotations

import click

from iodyno.cli.lazy import CommandEntry, LazyGroup

TRACES: tuple[CommandEntry, ...] = (
    CommandEntry("block", "iodyno.cli.trace.block:command", "Every operation of the block devices."),
)
"""Every trace."""


@click.group(name="trace", cls=LazyGroup, entries=TRACES, no_args_is_help=True)
def command() -> None:
    """Trace what the kernel of this machine does, event by event.

    \b
    Examples:
      iodyno trace block --seconds 5 -o block.trace
      iodyno heatmap block.trace -o block.svg
    """
