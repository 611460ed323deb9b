"""`iodyno model`: calculates queues, networks of queues and scaling curves.

To add one: a file here with a click command named `command`, and a line in `MODELS`.
"""

from __future__ import annotations

import click

from iodyno.cli.lazy import CommandEntry, LazyGroup

MODELS: tuple[CommandEntry, ...] = (
    CommandEntry(
        "queue", "iodyno.cli.model.queue:command", "Calculate a queue such as M/M/8, or simulate it."
    ),
    CommandEntry(
        "network", "iodyno.cli.model.network:command", "Solve a network of queues from a model file."
    ),
    CommandEntry("pdq", "iodyno.cli.model.pdq:command", "Run a script that calls PDQ."),
    CommandEntry(
        "fit", "iodyno.cli.model.fit:command", "Fit queues or a law of scaling to what was measured."
    ),
    CommandEntry(
        "cost", "iodyno.cli.model.cost:command", "Find what an outcome is made of, with an equation."
    ),
)
"""Every model, from one queue to what is fitted to measurements."""


@click.group(name="model", cls=LazyGroup, entries=MODELS, no_args_is_help=True)
def command() -> None:
    """Calculate queues and networks of queues, and fit models to measurements.

    \b
    Examples:
      iodyno model queue M/M/8 --service 127us --utilisation 0,.2,.4,.6,.8
      iodyno model network example:three-tier
      iodyno model cost campaigns/NAME
    """
