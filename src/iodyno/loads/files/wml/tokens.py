"""The words of a personality: names, numbers, texts, variables and signs, each with its place.

A number may end in k, m, g or t, which are powers of 1024. A text in quotes may hold variables and go over several lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from iodyno.core.invalid import found, invalid
from iodyno.loads.files.core.values import Expression, Joined, Place, Reference
from iodyno.loads.files.core.values import Literal as Written

Kind = Literal["word", "number", "variable", "text", "sign", "end"]

_BLANK = re.compile(r"(?:[ \t\r\f\v\n]|\\\n|#[^\n]*)+")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)[bB]?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_/.~][\w/.:;@%+~-]*")
_VARIABLE = re.compile(
    r"\$(?:(?P<bare>[A-Za-z_]\w*)(?P<attribute>\.[a-z]\w*)?|\{(?P<braced>\w+)\}|\((?P<round>\w+)\))"
)
_SIGNS = "{}(),=+-*/%"
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
MOST = 1 << 62
"""Largest number: what fits the counts of both languages."""


@dataclass(frozen=True)
class Token:
    """One word: its kind, its text, the value of a number, variable or text, and whether a blank is before it."""

    kind: Kind
    text: str
    place: Place
    value: Expression | None = None
    apart: bool = True
    attribute: str = ""

    def shown(self) -> str:
        """As a sentence names it."""
        return "the end of the file" if self.kind == "end" else found(self.text)


def tokens(text: str, file: str) -> Iterator[Token]:
    """The words of the text, the last of kind `end`. Raises ExperimentError with line and column."""
    at, line, line_start = 0, 1, 0
    apart = True
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            newlines = text.count("\n", at, blank.end())
            if newlines:
                line += newlines
                line_start = text.rindex("\n", at, blank.end()) + 1
            at, apart = blank.end(), True
            continue
        place = Place(file, line, at - line_start + 1)
        token = _token(text, at, place, apart)
        newlines = text.count("\n", at, at + len(token.text))
        if newlines:
            line += newlines
            line_start = text.rindex("\n", at, at + len(token.text)) + 1
        at, apart = at + len(token.text), False
        yield token
    yield Token("end", "", Place(file, line, len(text) - line_start + 1))


def _token(text: str, at: int, place: Place, apart: bool) -> Token:
    character = text[at]
    if character == '"':
        return _quoted(text, at, place, apart)
    if character == "$":
        return _variable(text, at, place, apart)
    if number := _NUMBER.match(text, at):
        value = number_of(number[1], number[2])
        if value is None:
            raise place.error(invalid(number[0], "whole numbers up to 2^62"), "a smaller number")
        return Token("number", number[0], place, Written(value, place), apart)
    if character.isdigit():
        wrong = re.compile(r"[\w.]+").match(text, at)
        shown = wrong[0] if wrong else character
        raise place.error(
            invalid(shown, "a number such as 16, 8k, 4m or 1g"),
            'a name that begins with a letter, or a text in "quotes"',
        )
    if word := _WORD.match(text, at):
        return Token("word", word[0], place, Written(word[0], place), apart)
    if character in _SIGNS:
        return Token("sign", character, place, None, apart)
    raise place.error(
        f"unexpected character {found(character)}, which begins nothing that a personality holds",
        f'take it out, or put the text around it in quotes: "...{character if character.isprintable() else ""}..."',
    )


def number_of(digits: str, unit: str) -> int | float | None:
    """The number: `1.5` and `k` are 1536; a fraction stays one. None when it is too large."""
    if "." not in digits:
        if len(digits) > 24:
            return None
        whole = int(digits) * _FACTORS[unit.lower()]
        return whole if whole <= MOST else None
    value = float(digits) * _FACTORS[unit.lower()]
    if value > MOST:
        return None
    return int(value) if unit and value == int(value) else value


def _variable(text: str, at: int, place: Place, apart: bool) -> Token:
    match = _VARIABLE.match(text, at)
    if match is None:
        raise place.error("unexpected $ without a name: expected a variable such as $nfiles", "$NAME")
    name = match["bare"] or match["braced"] or match["round"]
    attribute = (match["attribute"] or "").removeprefix(".")
    reference = Reference(name, place, outside=match["bare"] is None)
    return Token("variable", match[0], place, reference, apart, attribute)


def _quoted(text: str, at: int, place: Place, apart: bool) -> Token:
    """A text in quotes: `\\n`, `\\t`, `\\"`, `\\$` and `\\\\` stand for themselves, variables for their values."""
    parts: list[Expression] = []
    held: list[str] = []
    i = at + 1
    while i < len(text) and text[i] != '"':
        if text[i] == "\\" and i + 1 < len(text):
            held.append({"n": "\n", "t": "\t"}.get(text[i + 1], text[i + 1]))
            i += 2
            continue
        variable = _VARIABLE.match(text, i) if text[i] == "$" else None
        if variable is not None:
            name = variable["bare"] or variable["braced"] or variable["round"]
            # Within a text a full stop ends a sentence: no attribute is meant.
            length = len(variable[0]) - len(variable["attribute"] or "")
            parts += [Written("".join(held), place)] if held else []
            held = []
            parts.append(Reference(name, place, outside=variable["bare"] is None))
            i += length
            continue
        held.append(text[i])
        i += 1
    if i >= len(text):
        raise place.error("the text that begins here has no closing quote", 'a " at its end')
    if held or not parts:
        parts.append(Written("".join(held), place))
    whole = parts[0] if len(parts) == 1 and isinstance(parts[0], Written) else Joined(tuple(parts), place)
    return Token("text", text[at : i + 1], place, whole, apart)
