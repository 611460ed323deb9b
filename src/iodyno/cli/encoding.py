"""Lets stdout and stderr take every character, whatever encoding the locale or the terminal has.

A campaign of hours must not end in an error because its table has a `±` in it. What an encoding lacks is written in other
characters that say the same, in names as an escape, and in JSON as JSON's own escape. What a terminal would obey is shown as
text: it came out of a campaign, a file or from a host. The lab's own escape sequences go through `Unescaped`.
"""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TextIO

from iodyno.core.visible import visible

_PLAIN = {
    "±": "+/-",
    "×": "x",
    "–": "-",
    "−": "-",
    "─": "-",
    "│": "|",
    "├": "+",
    "└": "+",
    "┘": "+",
    "…": "...",
    "·": ".",
    "→": "->",
    "←": "<-",
    "▸": ">",
    "▾": "v",
    "▲": "^",
    "▼": "v",
    "“": '"',
    "”": '"',
    "‘": "'",
    "’": "'",
    "µ": "u",
    "²": "^2",
    "⚠": "!",
    "✓": "yes",
    "\u200b": "",
    "\u202f": " ",
    "\u00a0": " ",
    # Shades, each denser than the one before.
    **dict(zip("░▒▓█", "-=%#", strict=True)),
    **dict.fromkeys("▉▊▋▌▇▆▅", "#"),
    **dict.fromkeys("▍▎▏▄▃", "="),
    **dict.fromkeys("▂▁", "_"),
}
"""Plain text for the characters beside ASCII in the tables, sentences and pictures of the terminal."""
_WORDS, _JSON, _ASCII = "iodyno.words", "iodyno.json", "iodyno_ascii"


def take_all_characters(arguments: Sequence[str]) -> None:
    """Sets stdout and stderr so that no text fails to be written, and none steers a terminal; JSON comes out as ASCII where they
    are not UTF-8.
    """
    codecs.register_error(_WORDS, _words)
    codecs.register_error(_JSON, _json)
    codecs.register(_ascii)
    as_json = _asks_json(arguments) or list(arguments[:1]) == ["schema"]
    for place, errors in (("stdout", _JSON if as_json else _WORDS), ("stderr", _WORDS)):
        stream = getattr(sys, place)
        if not isinstance(stream, io.TextIOWrapper):
            continue
        name = codecs.lookup(stream.encoding).name
        plain = name == "ascii" or (errors == _JSON and name != "utf-8")
        buffering = stream.line_buffering, stream.write_through
        encoding = _ASCII if plain else stream.encoding
        setattr(sys, place, _Visible(stream.detach(), encoding, errors, None, *buffering))


def spelled(text: str) -> str:
    """The text in the characters that stdout will write it in: what is laid out in columns is so before."""
    encoding = getattr(sys.stdout, "encoding", None)
    if text.isascii() or not encoding:
        return text
    return "".join(character if _has(encoding, character) else _otherwise(character) for character in text)


def _has(encoding: str, character: str) -> bool:
    try:
        character.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _asks_json(arguments: Sequence[str]) -> bool:
    return bool({"--json", "--format=json"} & {*arguments}) or ("--format", "json") in pairwise(arguments)


class _Visible(io.TextIOWrapper):
    def write(self, text: str) -> int:
        return super().write(visible(text))

    def write_unescaped(self, text: str) -> int:
        return super().write(text)


class Unescaped:
    """The same stream for what the lab itself tells the terminal: colours, the place of the cursor."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text as it is."""
        write = getattr(self._stream, "write_unescaped", self._stream.write)
        return int(write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _words(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what is written for the first character that the encoding lacks."""
    character, after = _lacking(error)
    if 0xDC80 <= ord(character) <= 0xDCFF:
        # A byte of a file's name that is no text: written as it is there.
        return bytes([ord(character) - 0xDC00]), after
    return _otherwise(character), after


def _otherwise(character: str) -> str:
    return _PLAIN.get(character, character.encode("ascii", "backslashreplace").decode("ascii"))


def _json(error: UnicodeError) -> tuple[str, int]:
    """The same in JSON: all that is not ASCII stands in its strings."""
    character, after = _lacking(error)
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(*[iter(units)] * 2, strict=True)), after


def _lacking(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return error.object[error.start], error.start + 1


def _ascii(name: str) -> codecs.CodecInfo | None:
    """ASCII by a name of our own: click takes a stream that calls itself ASCII for a mistake, and writes UTF-8 past it."""
    if name != _ASCII:
        return None
    known = codecs.lookup("ascii")
    return codecs.CodecInfo(
        known.encode,
        known.decode,
        known.streamreader,
        known.streamwriter,
        known.incrementalencoder,
        known.incrementaldecoder,
        _ASCII,
    )
