"""The script of a report: a range of time chosen in one panel of a trial filters the others, and the theme can be turned.

The page allows this script by its hash. Without it everything is there to read: panels, tables, downloads.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

_COMMENT_LINE = re.compile(r"^\s*//.*\n", re.MULTILINE)
_INDENT = re.compile(r"\n\s+")
_STYLE_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_STYLE_SPACE = re.compile(r"\s*([{};,])\s*")


@cache
def page_script() -> str:
    """The script as it stands in the page."""
    return shorter_script((files("iodyno.report") / "templates" / "report.js").read_text(encoding="utf-8"))


@cache
def page_script_source() -> str:
    """Return the source that a content security policy must allow for the script to run: its hash."""
    digest = hashlib.sha256(page_script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def shorter_script(text: str) -> str:
    """A script of ours without indents and without lines that are comments; ends of lines stay, so that no statement changes.

    No string or template in our scripts goes over an end of a line (`tests/unit/test_report_bytes.py`).

    >>> shorter_script("// of a page\\nif (a) {\\n    b(); // stays\\n}\\n")
    'if (a) {\\nb(); // stays\\n}\\n'
    """
    return _INDENT.sub("\n", _COMMENT_LINE.sub("", text))


def shorter_style(text: str) -> str:
    """A style sheet without comments and without space around braces, semicolons and commas.

    >>> shorter_style("/* ink */ a { color: red; }\\nb > c, d { margin: 0 1px }")
    'a{color: red;}b > c,d{margin: 0 1px}'
    """
    return _STYLE_SPACE.sub(r"\1", _STYLE_COMMENT.sub("", text)).strip()
