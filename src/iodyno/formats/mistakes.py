"""Mistakes in a file that people write: where, what was found, what is allowed, the nearest word.

All mistakes of a file become one error, in the order of its lines.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import ExperimentError

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file."""

OPTIONS = {
    "flows": ("--connections", "connections"),
    "request": ("--size", "size"),
    "size": ("--size", "working_set"),
    "seconds": ("--seconds", "windows.measured"),
    "repeat": ("--repeat", "design.replicates"),
    "within": ("--within", "search.time"),
    "to": ("--to", "hosts"),
}
"""Options of commands without a file that a file has another word for: as typed there, and the key here."""

_NOT_SPOKEN = {
    "rds": "iodyno does not speak RDS, which most kernels lack (CONFIG_RDS); RDS over TCP runs on tcp, which can stand in for it",
}
"""Transports that profiles and sources name and no load has, with what to take instead."""

_LISTED = 50  # chosen: mistakes that fit on a screen; who has more begins with the first of them
_LISTED_WORDS = 20  # chosen: allowed words that are read in a line; of more, the near ones tell more than all
_SHOWN = 60  # chosen: characters of a found value that still leave the line readable


@dataclass(frozen=True, order=True)
class Mistake:
    """One mistake: its line, counted from 1, the path of its key, and a sentence."""

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class MistakesError(ExperimentError):
    """Mistakes in a file, one by one, in the order of its lines."""

    def __init__(self, what: str, mistakes: Sequence[Mistake], *, where: str, advice: str) -> None:
        super().__init__(what, where=where, advice=advice)
        self.mistakes = tuple(mistakes)


def error(file: str, mistakes: Iterable[Mistake], advice: str = "") -> MistakesError:
    """One error that lists every mistake as `file:line: key.path: what`."""
    ordered = sorted(set(mistakes))
    if len(ordered) == 1:
        return MistakesError(str(ordered[0]), ordered, where=f"{file}:{ordered[0].line}", advice=advice)
    lines = "".join(f"\n  {file}:{mistake.line}: {mistake}" for mistake in ordered[:_LISTED])
    if len(ordered) > _LISTED:
        lines += f"\n  {file}: and {len(ordered) - _LISTED} more"
    return MistakesError(f"{len(ordered)} mistakes{lines}", ordered, where=file, advice=advice)


def dotted(path: Sequence[str | int]) -> str:
    """The path as people write it: `factors.size[2]`."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        else:
            written += ("." if written else "") + shortened(step)
    return written


def shortened(text: str) -> str:
    """The text on one line, cut in the middle when it is long."""
    line = text if text.isprintable() else repr(text)[1:-1]
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 13]} ... {line[-8:]}"


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
    return shortened(repr(value) if isinstance(value, str) else str(value))


def nearest(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean ...?` with the nearest of the allowed words, or nothing when none is near."""
    by_lower = {candidate.lower(): candidate for candidate in allowed}
    near = difflib.get_close_matches(word.lower()[:_SHOWN], by_lower, n=1, cutoff=0.55)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""


def unknown(word: str, allowed: Iterable[str]) -> str:
    """The sentence about a word that is not one of the allowed ones."""
    words = list(allowed)
    option = _of_command(word, words) if word in OPTIONS and "." not in OPTIONS[word][1] else ""
    if "tcp" in words and word.lower() in _NOT_SPOKEN:
        option = f": {_NOT_SPOKEN[word.lower()]}; allowed: {listed(word, words)}"
    return f"found {found(word)}{option or f', allowed: {listed(word, words)}{nearest(word, words)}'}"


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """The sentence about a key that is none of the allowed ones; those with a dot are tunables of hosts."""
    keys = list(allowed)
    plain = [name for name in keys if "." not in name]
    if option := _of_command(key, plain):
        return f"unknown key{option}"
    tunables = ", and tunables of hosts (`iodyno tunables`)" if len(plain) < len(keys) else ""
    return f"unknown key, allowed: {listed(key, plain)}{tunables}{nearest(key, keys)}"


def listed(word: str, allowed: Sequence[str]) -> str:
    """The allowed words; of many only those like `word`, where there are such."""
    if len(allowed) > _LISTED_WORDS:
        near = difflib.get_close_matches(word.lower()[:_SHOWN], allowed, n=5, cutoff=0.55)
        if near:
            return f"{', '.join(near)} and {len(allowed) - len(near)} others"
    return ", ".join(allowed) or "nothing"


def _of_command(word: str, allowed: Sequence[str]) -> str:
    """Name the key of the file for that which an option of a command calls `word`; empty where there is none such."""
    option, key = OPTIONS.get(word, ("", ""))
    if not option or ("." not in key and key not in allowed):
        return ""
    return f", allowed: {key}, which is the option {option} of commands"
