"""Sentences about wrong input: the value, the key or option that it is for, what is expected.

>>> for_key("factors.size", invalid("64 pages", "a size such as 64KiB"))
"invalid value '64 pages' for factors.size: expected a size such as 64KiB"
>>> for_key("hosts.server.cpu", "unknown key 'cpu': expected cpus"), for_key("server", "missing key access: expected local")
("unknown key 'cpu' in hosts.server: expected cpus", 'missing key access in server: expected local')
"""

from __future__ import annotations

import re
from typing import Any

_SHOWN = 60  # chosen: characters of a value that still leave the line readable
_VALUE = re.compile(
    r"""(invalid value(?: '(?:[^'\\]|\\.)*'| "(?:[^"\\]|\\.)*"| [^\s:]+)?|missing value)(?=: |$)"""
)
_KEY = re.compile(r"(unknown|missing) key .*?(?=: )")


def invalid(value: Any, expected: str, key: str = "") -> str:
    """Return the sentence about a value that is not what is `expected`; the key is put in where it is known already."""
    if value is None:
        text = f"missing value: expected {expected}"
    elif isinstance(value, (dict, list)):
        text = f"invalid value: {found(value)}; expected {expected}"
    else:
        text = f"invalid value {found(value)}: expected {expected}"
    return for_key(key, text) if key else text


def for_key(key: str, text: str) -> str:
    """Return the sentence with the key or option that it is about in it; before it, where it has no place for one."""
    if value := _VALUE.match(text):
        return f"{value[0]} for {key}{text[value.end() :]}"
    if name := _KEY.match(text):
        section = key.rpartition(".")[0] if name[1] == "unknown" else key
        return f"{name[0]} in {section}{text[name.end() :]}" if section else text
    return f"{key}: {text}"


def found(value: Any) -> str:
    """A value as it is shown in a sentence."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "keys with values" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return shortened(repr(value) if isinstance(value, str) else str(value))


def shortened(text: str) -> str:
    """The text on one line, cut in the middle when it is long."""
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 13]} ... {line[-8:]}"
