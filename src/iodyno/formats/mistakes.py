"""Mistakes in a file that people write: where, the value, what is expected, the nearest word.

All mistakes of a file become one error, in the order of its lines.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import for_key, found, shortened
from iodyno.core.quantity import counted

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
_LISTED_PARTS = 6  # chosen: words of a line, where only a part of each is alike
_COMPARED = 60  # chosen: characters of a word that may be a slip of another one


@dataclass(frozen=True, order=True)
class Mistake:
    """One mistake: its line, counted from 1, the path of its key, and a sentence."""

    line: int
    path: str
    text: str

    def __str__(self) -> str:
        return for_key(self.path, self.text) if self.path else self.text


class MistakesError(ExperimentError):
    """Mistakes in a file, one by one, in the order of its lines."""

    def __init__(self, what: str, mistakes: Sequence[Mistake], *, where: str, advice: str) -> None:
        super().__init__(what, where=where, advice=advice)
        self.mistakes = tuple(mistakes)


def error(file: str, mistakes: Iterable[Mistake], advice: str = "") -> MistakesError:
    """One error that lists every mistake as `file:line: what`, with its key."""
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


def nearest(word: str, allowed: Iterable[str]) -> str:
    """`; did you mean ...?` with the nearest of the allowed words, or nothing when none is near."""
    near = nearest_of(word, allowed)
    return f"; did you mean {near!r}?" if near else ""


def nearest_of(word: str, allowed: Iterable[str]) -> str:
    """Return the nearest of the allowed words; empty when none is near."""
    by_lower = {candidate.lower(): candidate for candidate in allowed}
    near = difflib.get_close_matches(word.lower()[:_COMPARED], by_lower, n=1, cutoff=0.55)
    return by_lower[near[0]] if near else ""


def unknown(word: str, allowed: Iterable[str], what: str = "") -> str:
    """Return the sentence about a word that is not one of the allowed ones; `what` they name, such as `factor of the file`."""
    words = list(allowed)
    noun, of, whole = what.partition(" of ")
    said = f"unknown {noun} {found(word)}{of}{whole}" if what else f"invalid value {found(word)}"
    if word in OPTIONS and "." not in OPTIONS[word][1] and (key := _of_command(word, words)):
        return f"{said}: expected {key}"
    if "tcp" in words and word.lower() in _NOT_SPOKEN:
        return f"{said}: {_NOT_SPOKEN[word.lower()]}; expected {_one_of(word, words)}"
    return f"{said}: expected {_one_of(word, words)}{nearest(word, words)}"


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """The sentence about a key that is none of the allowed ones; those with a dot are tunables of hosts."""
    keys = list(allowed)
    plain = [name for name in keys if "." not in name]
    if option := _of_command(key, plain):
        return f"unknown key {found(key)}: expected {option}"
    tunables = ", and tunables of hosts (`iodyno tunables`)" if len(plain) < len(keys) else ""
    return f"unknown key {found(key)}: expected {_one_of(key, plain)}{tunables}{nearest(key, keys)}"


def _one_of(word: str, allowed: Sequence[str]) -> str:
    return f"{'one of ' if len(allowed) > 1 else ''}{listed(word, allowed)}"


def listed(word: str, allowed: Sequence[str]) -> str:
    """The allowed words; of many only those like `word`, or that have a part of it, where there are such.

    >>> listed("cpu_cores", [*(f"metric_{n}" for n in range(30)), "cpu_busy_ratio", "HOST.cpu_irq_ratio"])
    'cpu_busy_ratio, HOST.cpu_irq_ratio and 30 others'
    """
    if len(allowed) > _LISTED_WORDS:
        near = difflib.get_close_matches(word.lower()[:_COMPARED], allowed, n=5, cutoff=0.55)
        near = near or [name for name in allowed if _parts(word) & _parts(name)][:_LISTED_PARTS]
        if near:
            return f"{', '.join(near)} and {counted(len(allowed) - len(near), 'other')}"
    return ", ".join(allowed) or "nothing"


def _parts(name: str) -> set[str]:
    return {part for part in re.split(r"[^a-z0-9]+", name.lower()) if len(part) > 2}


def _of_command(word: str, allowed: Sequence[str]) -> str:
    """Name the key of the file for that which an option of a command calls `word`; empty where there is none such."""
    option, key = OPTIONS.get(word, ("", ""))
    if not option or ("." not in key and key not in allowed):
        return ""
    return f"{key}, which is the option {option} of commands"
