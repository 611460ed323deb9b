"""Output beside the results, on stderr: an errand of a campaign that may go wrong without the campaign's harm."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from iodyno.core.visible import visible


def to_stderr(text: str) -> None:
    """A line on stderr, if that takes it. A log that is full or a terminal that is gone stops no campaign of days."""
    with forgiven():
        click.echo(visible(text), err=True)


@contextmanager
def forgiven() -> Iterator[None]:
    """Lets pass what stderr says to being written to."""
    try:
        yield
    except (OSError, ValueError):  # ValueError: it was closed
        return


def settle() -> None:
    """Before the end: Python would make an exit code of its own of what stdout or stderr did not take."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            except (OSError, ValueError):
                continue
