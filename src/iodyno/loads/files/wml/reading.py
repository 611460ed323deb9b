"""A file becomes a personality: its text, its statements, and what is to be said about them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import found
from iodyno.formats.given_file import head_of, read_given
from iodyno.loads.files.core.attributes import STATEMENTS
from iodyno.loads.files.core.values import Personality, Place, ProcessText, Statement
from iodyno.loads.files.wml.grammar import Grammar

MAX_BYTES = 1 << 20
"""Largest personality. Chosen: thirty times the largest that Filebench ships."""
_MAX_LOADS = 16
_ADVICE = "name a personality of Filebench, a text file such as fileserver.f"


def is_personality(path: str | os.PathLike[str]) -> bool:
    """Tell whether the file is a personality: by its suffix .f or .wml, or by its first statement. False when it cannot be read
    and has another name.
    """
    file = Path(path)
    if file.suffix.lower() in (".f", ".wml"):
        return True
    if file.suffix.lower() in (".yaml", ".yml", ".json", ".xml", ".fio"):
        return False
    head = head_of(file).decode("utf-8", errors="replace")
    for line in head.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return re.match(rf"({'|'.join(STATEMENTS)})\s+[$\w\"]+\s*[=\w\"]", line.strip()) is not None
    return False


def read_personality(path: str | os.PathLike[str]) -> Personality:
    """The personality in the file. Raises ExperimentError with line and column."""
    return parse_personality(_content(Path(path), None), file=str(path))


def parse_personality(text: str | bytes, *, file: str = "personality.f") -> Personality:
    """The personality in the text, which errors call `file`. Raises ExperimentError with line and column."""
    decoded = _decoded(text, file)
    reading = _Reading(file)
    statements = reading.statements(decoded, file)
    if not any(isinstance(statement, ProcessText) for statement in statements):
        raise ExperimentError(
            "found no `define process`, so nothing would run",
            where=file,
            advice="docs/guides/filebench.md shows a whole personality",
        )
    return Personality(
        Path(file).stem or "personality", statements, reading.whole(decoded), file, tuple(reading.notes())
    )


class _Reading:
    """A file with those that it loads."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.loading: list[Path] = []
        self.loads = 0
        self.loaded: list[tuple[str, str]] = []
        self.said: dict[str, dict[str, None]] = {}

    def statements(self, text: str, file: str) -> tuple[Statement, ...]:
        """The statements of one file."""

        def include(name: str, place: Place) -> tuple[Statement, ...]:
            return self.include(name, place, file)

        grammar = Grammar(text, file, include)
        statements = grammar.statements()
        for note, lines in grammar.notes.items():
            self.said.setdefault(note, {}).update({f"{file}:{line}": None for line in lines})
        return statements

    def include(self, name: str, place: Place, file: str) -> tuple[Statement, ...]:
        """The statements of the file that `load` names, beside the one that loads it."""
        here = Path(file).parent
        near = [here / name, here / f"{name}.f"]
        path = next((candidate for candidate in near if candidate.is_file()), None)
        if path is None:
            raise place.error(
                f"load {found(name)}: neither {near[0]} nor {near[1]} is there",
                "put the file beside this one",
            )
        self.loads += 1
        if path.resolve() in self.loading or self.loads > _MAX_LOADS:
            raise place.error(
                f"load {found(name)}: files load each other, or more than {_MAX_LOADS} are loaded"
            )
        self.loading.append(path.resolve())
        text = _decoded(_content(path, place), str(path))
        statements = self.statements(text, str(path))
        self.loading.pop()
        self.loaded.append((name, text))
        return statements

    def whole(self, text: str) -> str:
        """The text with each loaded file in the place of its `load`."""
        for name, loaded in reversed(self.loaded):
            pattern = rf"""\bload\s+["]?{re.escape(name)}["]?(?![\w.])"""
            text = re.sub(pattern, lambda _, put=loaded: f"\n{put}\n", text, count=1)  # type: ignore[misc]
        return text

    def notes(self) -> list[str]:
        """Return the notes, with their places."""
        shown = []
        for text, places in self.said.items():
            listed = list(places)
            more = f" and {len(listed) - 3} more" if len(listed) > 3 else ""
            shown.append(f"{', '.join(listed[:3])}{more}: {text}")
        return shown


def _content(path: Path, place: Place | None) -> bytes:
    where = str(place or path)
    try:
        return read_given(path, MAX_BYTES)
    except OSError as problem:
        text = f"cannot be read: {problem.strerror}"
        raise ExperimentError(text, where=where, advice=_ADVICE) from None


def _decoded(text: str | bytes, file: str) -> str:
    """The text of the file. Raises ExperimentError with the place of the first byte that is no text."""
    raw = text.encode("utf-8", errors="surrogatepass") if isinstance(text, str) else text
    if len(raw) > MAX_BYTES:
        raise ExperimentError(
            f"is larger than {MAX_BYTES >> 20} MiB; expected a personality of that size", where=file
        )
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    # Comments are in whatever their authors' machines had; only they may hold what is no UTF-8.
    decoded = raw.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    for line, content in enumerate(decoded.splitlines(), start=1):
        code = content.partition("#")[0]
        for character in ("\x00", "\x1b", "\ufffd"):
            if character in code:
                column = code.index(character) + 1
                shown = "a byte that is no UTF-8" if character == "\ufffd" else f"the character {character!r}"
                raise ExperimentError(
                    f"invalid value: {shown}; expected text", where=f"{file}:{line}:{column}", advice=_ADVICE
                )
    if not decoded.strip():
        raise ExperimentError("the file is empty; expected a personality", where=file, advice=_ADVICE)
    return decoded
