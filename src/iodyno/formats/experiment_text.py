"""The text of an experiment file, for experiments that are made in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any


def experiment_text(mapping: Mapping[str, Any]) -> str:
    """The mapping as an experiment file, for experiments that are made in memory.

    Values are str, int, float, bool, None, list and dict. Every text is quoted, and read back as it was.
    """
    return "".join(f"{key}: {_flow(value)}\n" for key, value in mapping.items())


_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        # JSON and YAML read a text in double quotes alike, but for what YAML calls unprintable.
        quoted = json.dumps(value.replace("${", "$${"), ensure_ascii=False)
        return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)
    return json.dumps(value)
