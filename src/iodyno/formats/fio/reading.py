"""One section of a job file as it is read: its options by name, what is wrong with them, what is to be said about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from iodyno.formats.fio import numbers
from iodyno.formats.fio.fields import direction
from iodyno.formats.fio.ini import Key, Section
from iodyno.formats.mistakes import Mistake

_T = TypeVar("_T")

DEFAULT_BLOCK_BYTES = 4096


class WrongError(Exception):
    """A job that cannot be read; what is wrong is noted."""


class SectionReading:
    """The options of one section, with the mistakes and the notes that they lead to."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.keys = section.keys
        self.mistakes: list[Mistake] = []
        self.notes: dict[str, None] = {}

    def note(self, key: Key | None, text: str) -> None:
        """Notes a mistake, at the option or, without one, at the section."""
        line, name = (key.line, key.name) if key else (self.section.line, "")
        place = f"[{self.section.name}] {name}".rstrip()
        if key is not None and key.file != self.section.file:
            place = f"{key.file}:{key.line}: {place}"
        self.mistakes.append(Mistake(line, place, text))

    def say(self, text: str) -> None:
        """Notes what has another meaning here."""
        self.notes[text] = None

    def last(self, *names: str) -> Key | None:
        """Of options that set the same thing, the one that counts: fio lets the last one win, those of the job after the
        global ones.
        """
        return next((key for name, key in reversed([*self.keys.items()]) if name in names), None)

    def get(self, name: str, read: Callable[[str], _T], default: _T) -> _T:
        """The value of an option."""
        key = self.keys.get(name)
        if key is None:
            return default
        try:
            return read(key.value)
        except ValueError as problem:
            self.note(key, str(problem))
            return default

    def word(self, name: str, default: str = "") -> str:
        """The text of an option."""
        return self.get(name, lambda written: written, default)

    def switch(self, name: str, default: bool = False) -> bool:
        """Whether an option is on."""
        return self.get(name, numbers.switch, default)

    def kb_base(self, name: str) -> int:
        """What a `k` in the value of an option stands for. An option that the section has from [global] was read there, with
        the kb_base of that time.
        """
        inherited = self.section.inherited
        own = self.keys.get(name) is not inherited.get(name)
        key = (self.keys if own else inherited).get("kb_base")
        return 1000 if key is not None and key.value == "1000" else 1024

    def count(self, name: str, default: int = 0) -> int:
        """The whole number of an option."""
        return self.get(name, lambda written: numbers.count(written, self.kb_base(name)), default)

    def size(self, name: str, default: int | None = None) -> int | None:
        """Bytes of an option."""
        return self.get(name, lambda written: numbers.size(written, self.kb_base(name)), default)

    def block_bytes(self, reads: float) -> int:
        """Bytes of `bs` in the direction of a load with this share of reads in percent."""

        def read(written: str) -> int:
            one = direction(written, reads, str(DEFAULT_BLOCK_BYTES))
            return numbers.size(one, self.kb_base("bs"))

        return self.get("bs", read, DEFAULT_BLOCK_BYTES)
