"""A share on the command line."""

from __future__ import annotations

import re
from typing import Any

import click


class Share(click.ParamType[float]):
    """A share, mostly of a mean: `5%` or 0.05."""

    name = "SHARE"

    def __init__(self, *, zero: bool = False) -> None:
        self.zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share as a ratio; fails with what is allowed."""
        written = str(value).strip()
        match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,9})?|\.\d{1,9})\s*(%?)", written)
        ratio = float(match.group(1)) / (100 if match.group(2) else 1) if match else -1.0
        if not 0 <= ratio <= 10 or (ratio == 0 and not self.zero):
            least = "" if self.zero else " above 0"
            self.fail(f"found {written!r}, allowed: a share{least}, such as 5% or 0.05", param, ctx)
        return ratio


SHARE = Share()
SHARE_OR_NONE = Share(zero=True)
