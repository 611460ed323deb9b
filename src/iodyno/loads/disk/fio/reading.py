"""One section of a job file as it is read: its options by name, what is wrong with them, what is to be said about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.formats.mistakes import Mistake
from iodyno.loads.disk.fio import numbers
from iodyno.loads.disk.fio.fields import direction
from iodyno.loads.disk.fio.ini import Key, Section

_T = TypeVar("_T")

DEFAULT_BLOCK_BYTES = 4096
_NAMED = 3  # chosen: names that are read at the beginning of a sentence


@dataclass(frozen=True)
class Wrong:
    """A mistake of a job: at an option or, without one, at its section."""

    section: Section
    key: Key | None
    text: str


def mistakes_of(wrong: Sequence[Wrong]) -> list[Mistake]:
    """The mistakes of all jobs; one of an option of [global] once, not once for each job."""
    labels: dict[tuple[int, str, str], list[str]] = {}
    for each in wrong:
        line, name = (each.key.line, each.key.name) if each.key else (each.section.line, "")
        if each.key is not None and each.key.file != each.section.file:
            name = f"{each.key.file}:{each.key.line}: {name}"
        of = labels.setdefault((line, name, each.text), [])
        if each.section.label not in of:
            of.append(each.section.label)
    return [
        Mistake(line, f"{of_jobs(of)} {name}".rstrip(" :"), text) for (line, name, text), of in labels.items()
    ]


def of_jobs(labels: Sequence[str]) -> str:
    """The jobs that a sentence is about.

    >>> of_jobs(["a"]), of_jobs(["a", "b"]), of_jobs(["a", "b", "c", "d"])
    ('[a]', '[a], [b]', '[a] and 3 more jobs:')
    """
    if len(labels) > _NAMED:
        return f"[{labels[0]}] and {counted(len(labels) - 1, 'more job')}:"
    return ", ".join(f"[{label}]" for label in labels)


class WrongError(Exception):
    """A job that cannot be read; what is wrong is noted."""


class SectionReading:
    """The options of one section, with the mistakes and the notes that they lead to."""

    def __init__(self, section: Section) -> None:
        self.section = section
        self.keys = section.keys
        self.wrong: list[Wrong] = []
        self.notes: dict[str, None] = {}

    def note(self, key: Key | None, text: str) -> None:
        """Notes a mistake, at the option or, without one, at the section."""
        self.wrong.append(Wrong(self.section, key, text))

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
        """Tell whether an option is on."""
        return self.get(name, numbers.switch, default)

    def kb_base(self, name: str) -> int:
        """Return the factor that a `k` in the value of an option stands for. An option that the section has from [global] was
        read there, with the kb_base of that time.
        """
        inherited = self.section.inherited
        own = self.keys.get(name) is not inherited.get(name)
        key = (self.keys if own else inherited).get("kb_base")
        return 1000 if key is not None and key.value == "1000" else 1024

    def count(self, name: str, default: int = 0) -> int:
        """The whole number of an option."""
        return self.get(name, lambda written: numbers.count(written, self.kb_base(name)), default)

    def at_least_one(self, name: str) -> int:
        """The whole number of an option that is 1 by default, and not less."""
        number = self.count(name, 1)
        if number < 1:
            self.note(self.keys[name], invalid(self.keys[name].value, "1 and more"))
        return max(1, number)

    def size(self, name: str, default: int | None = None) -> int | None:
        """Bytes of an option."""
        return self.get(name, lambda written: numbers.size(written, self.kb_base(name)), default)

    def block_bytes(self, reads: float) -> int:
        """Bytes of `bs` in the direction of a load with this share of reads in percent."""

        def read(written: str) -> int:
            one = direction(written, reads, str(DEFAULT_BLOCK_BYTES))
            return numbers.size(one, self.kb_base("bs"))

        return self.get("bs", read, DEFAULT_BLOCK_BYTES)
