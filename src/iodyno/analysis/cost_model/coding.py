"""Coding of the levels of a factor as columns of a model: -1 to +1 over the range, with the unit carried along.

A number is coded as (v - centre) / half range (Box, Hunter and Hunter, Statistics for Experimenters, 2005, section 5.2), so
that effects of factors with different units can be compared and are uncorrelated in a balanced design. Words are effect coded
(sum to zero; the same book, appendix 5A, for two words): the first word is -1 in all columns of the factor. A mix of words
is the weighted mean of their codes, and zero in every column is the even mix.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid

Kind = Literal["size", "duration", "count", "rate", "bit_rate", "number", "word"]
Scale = Literal["linear", "log2"]
Natural = float | str
"""A level in its base unit (bytes, nanoseconds, per second, per cent, ...), or a word."""

_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?)\s*(.*?)\s*", re.IGNORECASE)
_SHARE = re.compile(r"(.+?):\s*([\d.]+)\s*%")
_PER_CENT = {"percent": "%", "per cent": "%"}
"""Words that people write for the sign, whichever of them the data have."""


@dataclass(frozen=True)
class FactorScale:
    """A factor as the data have it: its name, what its levels are, and their unit. `levels` as they occur, in order."""

    name: str
    kind: Kind
    levels: tuple[Natural, ...]
    unit: str = ""

    @property
    def numeric(self) -> bool:
        """True where a straight line over its levels has a meaning."""
        return self.kind != "word"

    @property
    def numbers(self) -> tuple[float, ...]:
        """Its levels as numbers. Raises ExperimentError where they are words."""
        found = [level for level in self.levels if not isinstance(level, str)]
        if not self.numeric or len(found) != len(self.levels):
            raise ExperimentError(
                f"the levels of {self.name} are words ({', '.join(map(str, self.levels))}), and no numbers",
                where=f"factor {self.name}",
                advice=f"write {self.name} alone in the formula: words are effect coded",
            )
        return tuple(found)

    def show(self, level: Natural) -> str:
        """The level as people write it."""
        if isinstance(level, str):
            return level
        if self.kind in ("size", "duration", "rate", "bit_rate") and float(level).is_integer():
            return quantity.show(_quantity_kind(self.kind), int(level))
        return f"{level:.6g}{self.shown_unit}"

    @property
    def shown_unit(self) -> str:
        """The unit behind a number."""
        unit = {"size": "B", "duration": "ns", "rate": "/s", "bit_rate": "bit/s"}.get(self.kind, self.unit)
        return unit if unit in ("%", "") else f" {unit}"

    def parse(self, written: str) -> Natural:
        """A level as people write it. Raises ExperimentError with what was found and what is allowed.

        A number of a factor that has a unit needs it: `read=1` is not said where `read` is in per cent.
        """
        if self.kind == "word":
            if written not in self.levels:
                raise self._refused(written, "one of " + ", ".join(map(str, self.levels)))
            return written
        if self.kind in ("size", "duration", "rate", "bit_rate", "count"):
            try:
                return float(quantity.parse(_quantity_kind(self.kind), written))
            except ValueError as problem:
                raise ExperimentError(str(problem), where=f"factor {self.name}") from None
        return self._parse_number(written)

    def _parse_number(self, written: str) -> float:
        match = _NUMBER.fullmatch(written)
        if match is None:
            raise self._refused(written, f"a number{f' with the unit {self.unit}' if self.unit else ''}")
        number, unit = match.groups()
        if not math.isfinite(float(number)):
            raise self._refused(written, "a finite number")
        if _PER_CENT.get(unit, unit) != _PER_CENT.get(self.unit, self.unit):
            raise self._refused(
                written,
                f"a number with its unit, such as {number}{'' if self.unit == '%' else ' '}{self.unit}"
                if self.unit
                else f"a number without a unit, such as {number}",
            )
        return float(number)

    def _refused(self, written: str, allowed: str) -> ExperimentError:
        return ExperimentError(
            invalid(written, allowed),
            where=f"factor {self.name}",
            advice=f"its levels are {', '.join(self.show(level) for level in self.levels)}",
        )


@dataclass(frozen=True)
class NumericCoding:
    """A number over its range: -1 at `low`, +1 at `high`, on a linear or a base 2 logarithmic scale.

    `origin`: 0 at 0 and 1 at `high` instead, for a line that is to pass through the origin.
    """

    factor: FactorScale
    scale: Scale = "linear"
    origin: bool = False

    @property
    def name(self) -> str:
        """The factor's name."""
        return self.factor.name

    @property
    def symbol(self) -> str:
        """The variable of an equation in natural units."""
        return self.name if self.scale == "linear" else f"log2({self.name})"

    @property
    def columns(self) -> tuple[str, ...]:
        """One column."""
        return (self.symbol,)

    @property
    def low(self) -> float:
        """The least level of the data."""
        return min(self.factor.numbers)

    @property
    def high(self) -> float:
        """The greatest level of the data."""
        return max(self.factor.numbers)

    @property
    def centre(self) -> float:
        """Level that is coded as 0, on the scale of the coding."""
        if self.origin:
            return 0.0
        return (self.on_scale(self.low) + self.on_scale(self.high)) / 2

    @property
    def half_range(self) -> float:
        """Length of 1 on the coded scale: half the range, on the scale of the coding."""
        if self.origin:
            return max(abs(self.low), abs(self.high))
        return (self.on_scale(self.high) - self.on_scale(self.low)) / 2

    @property
    def middle(self) -> float:
        """The middle of the range in natural units."""
        middle = (self.on_scale(self.low) + self.on_scale(self.high)) / 2
        return middle if self.scale == "linear" else float(2**middle)

    def on_scale(self, level: float) -> float:
        """The level, or its logarithm. Raises ExperimentError for a logarithm of nothing."""
        if self.scale == "linear":
            return level
        if level <= 0:
            raise ExperimentError(
                f"found the level {self.factor.show(level)}, and it has no logarithm",
                where=f"factor {self.name}",
                advice=f"write {self.name} instead of log({self.name})",
            )
        return math.log2(level)

    def code(self, level: Natural) -> tuple[float, ...]:
        """The level on the coded scale."""
        if isinstance(level, str):
            raise ExperimentError(invalid(level, "a number"), where=f"factor {self.name}")
        return ((self.on_scale(level) - self.centre) / self.half_range,)

    def inside(self, level: Natural) -> bool:
        """Tell whether the level lies in the range of the data; a rounding error is none."""
        slack = 1e-9 * (self.high - self.low)
        return not isinstance(level, str) and self.low - slack <= level <= self.high + slack


@dataclass(frozen=True)
class WordCoding:
    """Words against their mean: a column for each word but the first, which is -1 in all of them."""

    factor: FactorScale

    @property
    def name(self) -> str:
        """The factor's name."""
        return self.factor.name

    @property
    def columns(self) -> tuple[str, ...]:
        """A column for each word but the first."""
        return tuple(f"{self.name}[{self.factor.show(level)}]" for level in self.factor.levels[1:])

    def code(self, level: Natural) -> tuple[float, ...]:
        """The word on the coded scale. Raises ExperimentError for one that the data do not have."""
        if level not in self.factor.levels:
            raise ExperimentError(
                invalid(level, ", ".join(self.factor.show(known) for known in self.factor.levels)),
                where=f"factor {self.name}",
                advice="a word that was not measured says nothing",
            )
        place = self.factor.levels.index(level)
        count = len(self.factor.levels) - 1
        if place == 0:
            return (-1.0,) * count
        return tuple(1.0 if at == place - 1 else 0.0 for at in range(count))

    def mix(self, shares: Mapping[Natural, float]) -> tuple[float, ...]:
        """The weighted mean of the words' codes; the shares add up to 1."""
        codes = [(self.code(level), share) for level, share in shares.items()]
        return tuple(sum(code[at] * share for code, share in codes) for at in range(len(self.columns)))


Coding = NumericCoding | WordCoding


@dataclass(frozen=True)
class Setting:
    """Place of one factor in a prediction: its coded columns, how that is written, and whether it lies in the range."""

    coded: tuple[float, ...]
    text: str
    inside: bool = True
    chosen: bool = True


def coding_of(factor: FactorScale, scale: Scale = "linear", *, words: bool = False) -> Coding:
    """The coding of a factor; `words`: its numbers are names. Raises ExperimentError where nothing varies."""
    if len(factor.levels) < 2:
        raise ExperimentError(
            f"{factor.name} has one level only, so that it has no effect to be found",
            where=f"factor {factor.name}",
            advice=f"leave {factor.name} out of the formula",
        )
    if factor.kind == "word" or words:
        if scale != "linear":
            factor.numbers  # noqa: B018 - raises: words have no logarithm
        return WordCoding(factor)
    found = NumericCoding(factor, scale)
    found.code(found.low)
    return found


def setting_of(coding: Coding, written: str | None) -> Setting:
    """A setting as people write it: a level, or a mix of words such as `tcp:70%+udp:30%`; None: the middle.

    Raises ExperimentError for what is no level, and for shares that do not add up to 100 %.
    """
    factor = coding.factor
    if written is None:
        zero = (0.0,) * len(coding.columns)
        if isinstance(coding, NumericCoding):
            zero = coding.code(coding.middle)
            return Setting(zero, f"{factor.name}={factor.show(coding.middle)} (middle)", chosen=False)
        return Setting(zero, f"{factor.name}: even mix of {len(factor.levels)}", chosen=False)
    if isinstance(coding, WordCoding):
        if _SHARE.search(written):
            return _mixed(coding, written)
        level = _word(factor, written)
        return Setting(coding.code(level), f"{factor.name}={factor.show(level)}")
    value = factor.parse(written)
    return Setting(coding.code(value), f"{factor.name}={factor.show(value)}", coding.inside(value))


def _mixed(coding: WordCoding, written: str) -> Setting:
    shares: dict[Natural, float] = {}
    for part in written.split("+"):
        match = _SHARE.fullmatch(part.strip())
        if match is None:
            raise ExperimentError(
                invalid(written, "shares of words, such as a:70%+b:30%"),
                where=f"factor {coding.name}",
            )
        shares[_word(coding.factor, match[1].strip())] = float(match[2]) / 100
    total = sum(shares.values())
    if abs(total - 1) > 1e-9:
        raise ExperimentError(
            f"invalid value {written!r}: the shares add up to {100 * total:g}%; expected 100%",
            where=f"factor {coding.name}",
        )
    return Setting(coding.mix(shares), f"{coding.name}={written}")


def _word(factor: FactorScale, written: str) -> Natural:
    """A level of a factor whose levels are names; numbers that are names are written as numbers."""
    for level in factor.levels:
        if written in (factor.show(level), str(level)):
            return level
    return factor.parse(written)


def _quantity_kind(kind: Kind) -> quantity.Kind:
    found: dict[Kind, quantity.Kind] = {
        "size": "size",
        "duration": "duration",
        "bit_rate": "bit_rate",
        "rate": "rate",
        "count": "count",
    }
    return found[kind]
