"""A number on the command line: a finite one, as no option means anything by `nan` or by what is beyond all doubles."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import click

from iodyno.core import quantity


class NumberRange(click.FloatRange):
    """A finite number, within bounds where there are any."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with what is allowed."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return found

    def _describe_range(self) -> str:
        """Nothing where there are no bounds, which click would show as `x<=None`."""
        return "" if self.min is None and self.max is None else super()._describe_range()


class Seconds(NumberRange):
    """A time in seconds: `10`, or with its unit, as experiment files have it: `10s`, `500ms`, `2min`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; fails with what is allowed."""
        if isinstance(value, str) and value[-1:].isalpha():
            with suppress(ValueError):
                value = float(quantity.parse_exact("duration", value) / 10**9)
        return super().convert(value, param, ctx)


NUMBER = NumberRange()
SEED = click.IntRange(0, 2**63 - 1)
"""Seeds of random numbers, as in a design."""
