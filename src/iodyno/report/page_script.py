"""The script of a report: a range of time chosen in one panel of a trial filters the others, and the theme can be turned.

The page allows this script by its hash. Without it everything is there to read: panels, tables, downloads.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files


@cache
def page_script() -> str:
    """The script as it stands in the page."""
    return (files("iodyno.report") / "templates" / "report.js").read_text(encoding="utf-8")


@cache
def page_script_source() -> str:
    """What a content security policy must allow for it to run: its hash."""
    digest = hashlib.sha256(page_script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
