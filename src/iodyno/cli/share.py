"""A share on the command line."""

from __future__ import annotations

import re
from typing import Any

import click

from iodyno.core.invalid import invalid


class Share(click.ParamType[float]):
    """A share, mostly of a mean: `5%` or 0.05."""

    name = "SHARE"

    def __init__(self, *, zero: bool = False, low: float = 0.0, high: float = 10.0) -> None:
        self.zero, self.low, self.high = zero, low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a ratio; fails with what is allowed.

        A number of 1 or more needs its `%`: 5 would be five times the mean, and mostly means 5 %.
        """
        written = str(value).strip()
        match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,9})?|\.\d{1,9})\s*(%?)", written)
        ratio = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
        bare = match is not None and not match.group(2)
        fits = self.low <= ratio <= self.high and (ratio > 0 or self.zero)
        if not fits or (bare and ratio >= 1):
            meant = f"; did you mean {written}%?" if bare and ratio >= 1 and ratio / 100 <= self.high else ""
            self.fail(invalid(written, f"a share{self._between()}, such as 5% or 0.05{meant}"), param, ctx)
        return ratio

    def _between(self) -> str:
        if self.low:
            return f" from {self.low:.3g} to {self.high:.3g}"
        return "" if self.zero else " above 0"


SHARE = Share()
SHARE_OR_NONE = Share(zero=True)
WIDTH = Share(low=0.001, high=0.5)
EXCEED = Share(zero=True, high=0.9999)
