"""Effects as people write them: `size`, `size:connections`, or letters for the factors in the order of the file, `AB`.

An effect is held as a number with a bit for each factor, so that the product of two effects is their exclusive or: a
factor at two levels, multiplied by itself, is constant (Box, Hunter and Hunter, Statistics for Experimenters, chapter 12).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from iodyno.core.invalid import invalid

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
"""Without I, which stands for the constant in that notation."""


def name_of(mask: int, names: Sequence[str]) -> str:
    """The effect with the names of its factors, in their order.

    >>> name_of(0b101, ("size", "nagle", "connections"))
    'size:connections'
    """
    return ":".join(name for index, name in enumerate(names) if mask >> index & 1)


def parse(written: str, names: Sequence[str]) -> int:
    """The effect as bits. Raises ValueError with what was found and what is allowed.

    >>> parse("size:connections", ("size", "nagle", "connections")), parse("AC", ("size", "nagle", "connections"))
    (5, 5)
    """
    steps = [step.strip() for step in re.split(r"[:*]", written)]
    mask = 0
    if len(steps) == 1 and steps[0] not in names:
        steps = [_of_letter(letter, written, names) for letter in steps[0]]
    for word in steps:
        step = word if word in names else _of_letter(word, written, names)
        bit = 1 << list(names).index(step)
        if mask & bit:
            raise ValueError(f"invalid value {written!r}: {step} stands twice; expected each factor once")
        mask |= bit
    if not mask:
        raise ValueError(_allowed(written, names))
    return mask


def order_of(mask: int) -> int:
    """Return the number of factors of the effect: 1 a main effect, 2 a two-factor interaction."""
    return mask.bit_count()


def up_to_second(count: int) -> list[int]:
    """All main effects of that many factors, then all their two-factor interactions."""
    mains = [1 << index for index in range(count)]
    return mains + [1 << a | 1 << b for a in range(count) for b in range(a + 1, count)]


def _of_letter(letter: str, written: str, names: Sequence[str]) -> str:
    place = LETTERS.find(letter) if len(letter) == 1 else -1
    if not 0 <= place < len(names):
        raise ValueError(_allowed(written, names))
    return names[place]


def _allowed(written: str, names: Sequence[str]) -> str:
    pairs = ", ".join(f"{letter} = {name}" for letter, name in zip(LETTERS, names, strict=False))
    return invalid(written, f"factors joined by `:`, or their letters ({pairs})")
