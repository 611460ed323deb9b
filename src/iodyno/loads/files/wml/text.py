"""The text of a personality within an experiment file."""

from __future__ import annotations


def inline(text: str) -> str:
    """The text as an experiment file holds it: on several lines, however short, which tells it from the name of a file."""
    return text.rstrip("\n") + "\n\n"
