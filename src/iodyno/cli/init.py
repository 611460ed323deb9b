"""`iodyno init`: an experiment file to begin with."""

from __future__ import annotations

from pathlib import Path

import click

from iodyno.core.errors import ExperimentError

STARTER = """\
# An experiment of iodyno: one question as one file.
#   iodyno check FILE     is it right, and what does it ask for?
#   iodyno plan FILE      points, order, how long it will take
#   iodyno run FILE       measure it; --quick for a first look
#   iodyno schema         every key with what it may hold, for your editor

name: my-experiment
question: What does a transmitted KByte cost in CPU, and how does that change with the message size?

# How iodyno reaches each host:
#   local      this machine, over loopback
#   netns      two network namespaces of this machine, joined by a virtual link (needs root)
#   ssh        another machine: {access: ssh, to: user@host}
hosts:
  client: {access: netns}
  server: {access: netns}

# What runs between them. Every parameter may be set here, or varied below.
workload:
  kind: stream
  sender: client
  receiver: server
  engine: threads              # threads: one blocking thread a connection; epoll: pinned workers

# What is varied, level by level. Every combination becomes a point.
factors:
  connections: [1, 8]
  size: [1KiB, 8KiB, 64KiB]    # message size; k, M, G are powers of 1024

# How often each point is visited, in a random order drawn from the seed.
design: {kind: full_factorial, replicates: 3, blocks: true, seed: 1}

# Load is on in all windows, and counts in the measured one.
windows: {warm_up: 1s, measured: 5s, drain: 100ms, interval: 1s}

# What is measured. Costs are per host.
outcomes:
  - goodput_bits_per_s
  - client.cycles_per_kib
  - client.cpu_ns_per_kib
  - server.cpu_ns_per_kib

# What --quick replaces, key by key.
quick:
  factors: {size: [1KiB, 64KiB]}
  windows: {warm_up: 300ms, measured: 1500ms, interval: 250ms}
"""


@click.command(name="init")
@click.argument("file", default="experiment.yaml")
def command(file: str) -> None:
    """Write a starter experiment to FILE (default: experiment.yaml). A file that is there is left alone.

    \b
    Examples:
      iodyno init
      iodyno init my-question.yaml
    """
    if not file.strip():
        raise ExperimentError(
            "invalid value: an empty name; expected the name of a file", where="FILE", advice="iodyno init"
        )
    try:
        with Path(file).open("x", encoding="utf-8") as opened:
            opened.write(STARTER)
    except FileExistsError:
        raise ExperimentError("the file is there already", where=file, advice="name another file") from None
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise ExperimentError(
            f"cannot be written: {reason}", where=file, advice="name another file"
        ) from None
    click.echo(f"wrote {file}")
    click.echo(f"try: iodyno plan {file}", err=True)
