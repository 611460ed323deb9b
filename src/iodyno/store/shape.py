"""Which types the values of stored files have, and where one has another: files of campaigns are altered by hand, too.

A shape is a type or several; a mapping of keys, of which one that ends with `?` may be absent; `Rows` of a list; `Each` of a
mapping with any keys; `Maybe` where null stands for nothing; `Such` where values hang together. Keys that a shape does not name
are passed over: they are of another version, or of nobody's concern. By hand, as the store is read with the standard library
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rows:
    """A list, each item of which has a shape."""

    of: Any


@dataclass(frozen=True)
class Each:
    """A mapping, each value of which has a shape."""

    of: Any


@dataclass(frozen=True)
class Maybe:
    """A shape, or null."""

    of: Any


@dataclass(frozen=True)
class Such:
    """A shape whose value holds to a rule; `needed` says which."""

    of: Any
    holds: Callable[[Any], bool]
    needed: str


@dataclass(frozen=True)
class Misfit:
    """The key whose value is not of its shape, from the top of the file; what should be there, and what is."""

    key: str
    needed: str
    found: str


_WORDS: Mapping[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table of keys",
    list: "a list",
    type(None): "null",
}


def misfit(value: Any, shape: Any, within: str = "") -> Misfit | None:
    """The first value that is not of its shape; None: all are."""
    if isinstance(shape, Maybe):
        return None if value is None else misfit(value, shape.of, within)
    if isinstance(shape, Such):
        wrong = misfit(value, shape.of, within)
        return wrong if wrong or shape.holds(value) else Misfit(within, shape.needed, "others")
    if isinstance(shape, Rows):
        if not isinstance(value, list):
            return _not(list, value, within)
        found = (misfit(item, shape.of, f"{within}[{place}]") for place, item in enumerate(value))
        return next(filter(None, found), None)
    if isinstance(shape, Each):
        if not isinstance(value, dict):
            return _not(dict, value, within)
        found = (misfit(item, shape.of, _inner(within, key)) for key, item in value.items())
        return next(filter(None, found), None)
    if isinstance(shape, Mapping):
        return _of_keys(value, shape, within)
    # To Python, true is a whole number.
    fits = isinstance(value, shape) and not (isinstance(value, bool) and bool not in _types(shape))
    return None if fits else _not(shape, value, within)


def _of_keys(value: Any, shape: Mapping[str, Any], within: str) -> Misfit | None:
    if not isinstance(value, dict):
        return _not(dict, value, within)
    for named, kind in shape.items():
        key = named.removesuffix("?")
        if key not in value:
            if named == key:
                return Misfit(_inner(within, key), _said(kind), "nothing")
            continue
        found = misfit(value[key], kind, _inner(within, key))
        if found:
            return found
    return None


def _not(shape: Any, value: Any, within: str) -> Misfit:
    text = f"{value!r:.40}" if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    return Misfit(within, _said(shape), text or _WORDS[type(value)])


def _types(shape: Any) -> tuple[type, ...]:
    return shape if isinstance(shape, tuple) else (shape,)


def _said(shape: Any) -> str:
    if isinstance(shape, Maybe | Such):
        return _said(shape.of)
    if isinstance(shape, Rows):
        return _WORDS[list]
    if isinstance(shape, Each | Mapping):
        return _WORDS[dict]
    types = _types(shape)
    words = [_WORDS[one] for one in types if not (one is int and float in types)]
    return " or ".join(words)


def _inner(within: str, key: str) -> str:
    return f"{within}.{key}" if within else key
