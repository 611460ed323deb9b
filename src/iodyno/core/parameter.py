"""One thing that a workload, or a host, can be told: its name, its unit, its range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity
from iodyno.core.invalid import invalid

Level = int | bool | str
"""A level in its base unit: bytes, nanoseconds, a count, yes or no, or a word."""


@dataclass(frozen=True)
class Parameter:
    """One thing that a workload can be told."""

    name: str
    kind: Literal["size", "duration", "count", "rate", "bit_rate", "share", "switch", "word", "text", "path"]
    help: str
    low: int = 1
    high: int = 2**62
    words: tuple[str, ...] = ()
    default: Level | None = None
    form: Callable[[str], str] | None = None
    """Check of a text that is none of `words`; gives it as it is shown. None: there is no such text."""
    like: str = ""
    """Form of such a text, beside words."""

    def parse(self, written: object) -> Level:
        """The level in its base unit. Raises ValueError with what was found and what is allowed."""
        if self.kind == "switch":
            return _switch(written, self.words)
        if (
            self.form is not None
            and isinstance(written, str)
            and (self.kind == "path" or _is_call(self, written))
        ):
            return self.form(written)
        if self.kind == "word":
            if self.form is not None and isinstance(written, (int, float)) and not isinstance(written, bool):
                written = str(written)
            if isinstance(written, str) and self.form is not None and written not in self.words:
                return self._formed(written)
            if not isinstance(written, str) or (self.words and written not in self.words):
                allowed = ", ".join(self.words) or "a word"
                raise ValueError(invalid(written, allowed))
            return written
        if self.kind == "text":
            if (
                not isinstance(written, (str, int))
                or not str(written).isprintable()
                or len(str(written)) > 200
            ):
                raise ValueError(invalid(written, "a text of one line, 200 characters at most"))
            return str(written)
        if self.kind == "path" or not isinstance(written, (str, int, float)):
            raise ValueError(invalid(written, f"one {self.kind}"))
        value = quantity.parse(self.kind, written)
        if not self.low <= value <= self.high:
            low, high = quantity.show(self.kind, self.low), quantity.show(self.kind, self.high)
            # A share of 70 is mostly meant in per cent.
            meant = f"{written}%" if self.kind == "share" and not str(written).endswith("%") else ""
            fits = bool(meant) and self.low <= quantity.parse_exact("share", meant) <= self.high
            raise ValueError(invalid(written, f"{low} to {high}{f'; did you mean {meant}?' if fits else ''}"))
        return value

    def _formed(self, written: str) -> str:
        assert self.form is not None
        if self.words and "(" not in written:
            raise ValueError(invalid(written, ", ".join((*self.words, self.like))))
        return self.form(written)

    def show(self, level: Level) -> str:
        """The level as people write it."""
        if isinstance(level, bool):
            return "on" if level else "off"
        if isinstance(level, int) and self.kind in ("size", "duration", "count", "rate", "bit_rate", "share"):
            return quantity.show(self.kind, level)
        return str(level)


def _is_call(parameter: Parameter, written: str) -> bool:
    """Tell whether a quantity is drawn from a law, such as `uniform(4KiB, 64KiB)`."""
    return parameter.kind == "size" and "(" in written


def _switch(written: object, more: tuple[str, ...]) -> Level:
    words = {True: True, False: False, "on": True, "off": False, "yes": True, "no": False}
    if isinstance(written, (bool, str)) and written in words:
        return words[written]
    if isinstance(written, str) and written in more:
        return written
    raise ValueError(invalid(written, ", ".join(("on", "off", *more))))
