"""`iodyno model`: calculates queues, networks of queues and scaling curves.

To add one: a file here with a click command named `command`, and a line in `MODELS`.
"""

from __future__ import annotations

import click

from iodyno.cli.lazy import CommandEntry, LazyGroup

MODELS: tuple[CommandEntry, ...] = (
    CommandEntry("mm1", "iodyno.cli.model.mm1:command", "One server, an infinite queue."),
    CommandEntry("md1", "iodyno.cli.model.md1:command", "One server of constant service."),
    CommandEntry("mg1", "iodyno.cli.model.mg1:command", "One server, service of a measured variation."),
    CommandEntry(
        "mmc", "iodyno.cli.model.mmc:command", "Several servers at one queue, and with a queue each."
    ),
    CommandEntry("mdc", "iodyno.cli.model.mdc:command", "Several servers of constant service."),
    CommandEntry(
        "ggc", "iodyno.cli.model.ggc:command", "Several servers by measured variation: approximation, bounds."
    ),
    CommandEntry("mminf", "iodyno.cli.model.mminf:command", "A server for everyone: a delay."),
    CommandEntry("mm1k", "iodyno.cli.model.mm1k:command", "One server, finite buffers: loss and delay."),
    CommandEntry("md1k", "iodyno.cli.model.md1k:command", "One server of constant service, finite buffers."),
    CommandEntry("mmck", "iodyno.cli.model.mmck:command", "Several servers, finite buffers."),
    CommandEntry("credits", "iodyno.cli.model.credits:command", "A line with credit flow control."),
    CommandEntry("mmcn", "iodyno.cli.model.mmcn:command", "A closed loop of clients at several servers."),
    CommandEntry(
        "engset", "iodyno.cli.model.engset:command", "Clients that are turned away and think again."
    ),
    CommandEntry("forkjoin", "iodyno.cli.model.forkjoin:command", "All of several answers, or a quorum."),
    CommandEntry(
        "simulate",
        "iodyno.cli.model.simulate:command",
        "Simulate a queue that has no formula, with intervals.",
    ),
    CommandEntry(
        "network", "iodyno.cli.model.network:command", "Solve a network of queues from a model file."
    ),
    CommandEntry("pdq", "iodyno.cli.model.pdq:command", "Run a script that calls PDQ."),
    CommandEntry(
        "usl", "iodyno.cli.model.usl:command", "Fit the Universal Scalability Law to measured rates."
    ),
    CommandEntry("fit", "iodyno.cli.model.fit:command", "Fit queues to a campaign and predict from them."),
    CommandEntry(
        "cost", "iodyno.cli.model.cost:command", "Find what an outcome is made of, with an equation."
    ),
)
"""Every model, from the simplest queue to what is fitted to measurements."""


@click.group(name="model", cls=LazyGroup, entries=MODELS, no_args_is_help=True)
def command() -> None:
    """Calculate queues, networks of queues and scaling curves.

    \b
    Examples:
      iodyno model mmc --servers 8 --service 127us --utilisation 0,.2,.4,.6,.8 \\
        --percentiles 50,99
      iodyno model mm1k --buffers 8 --service 2.5us --utilisation .9 --json
      iodyno model network docs/examples/three-tier.yaml
      iodyno model usl --data threads-vs-rate.csv --json
    """
