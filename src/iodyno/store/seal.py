"""The seal of `campaign.json` and of each `manifest.json`: their last key, `sha256`, is over all the others.

>>> sealed({"trial": "00000-1"})["sha256"][:8]
'94e6869c'
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SEAL = "sha256"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with its seal, in the place of one that it may have."""
    rest = {key: value for key, value in document.items() if key != SEAL}
    return {**rest, SEAL: _digest(rest)}


def unsealed(document: dict[str, Any], since: int) -> dict[str, Any] | None:
    """Return the document without its seal; None: it is not what was sealed. Before version `since` it may have none."""
    rest = {key: value for key, value in document.items() if key != SEAL}
    if SEAL not in document:
        return rest if rest["schema_version"] < since else None
    try:
        return rest if document[SEAL] == _digest(rest) else None
    except (ValueError, RecursionError):
        # What is never written: a number that is none, half a character, ever deeper objects.
        return None


def _digest(document: Mapping[str, Any]) -> str:
    # What is between the values is no part of it: a file that was only laid out anew is what it was.
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
