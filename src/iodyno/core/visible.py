"""Shows what a terminal would obey: text that came out of a file or from a host must not steer the screen that it is read on."""

from __future__ import annotations

import re

_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Control characters, except the tab and the end of a line, and those that turn the direction of writing round."""
_IN_TEXT = re.compile(f"[{_OBEYED}]")
_IN_LINE = re.compile(f"[{_OBEYED}\t\n]")
_BYTES = re.compile("[\udc80-\udcff]{2,}")
"""Bytes of a file's name that are no text; in a text from elsewhere they may be some together."""


def visible(text: str) -> str:
    r"""The text with every control character as JSON writes it.

    >>> print(visible("a\x1b[2Jb \u202e"))
    a\u001b[2Jb \u202e
    """
    return _escaped(_IN_TEXT, text)


def visible_line(text: str) -> str:
    """The same of what has to stay on one line, without a tab in it: a cell of a table."""
    return _escaped(_IN_LINE, text)


def _escaped(obeyed: re.Pattern[str], text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    whole = _BYTES.sub(
        lambda run: run[0].encode(errors="surrogateescape").decode(errors="surrogateescape"), text
    )
    return obeyed.sub(lambda found: f"\\u{ord(found[0]):04x}", whole)
