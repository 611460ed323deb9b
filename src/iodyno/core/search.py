"""A search as a value: the largest rate that meets a goal.

>>> parse_goal("p99 <= 1ms")
Goal(outcome='response_time_p99_ns', most=1000000.0, text='p99 <= 1ms', over=0.01)
>>> parse_goal("loss = 0").most, parse_goal("loss <= 0.1 %").most
(0.0, 0.001)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iodyno.core import quantity
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level

_QUANTITIES: Mapping[str, tuple[str, Literal["duration", "share"], float | None]] = {
    "loss": ("loss_ratio", "share", None),
    "mean": ("response_time_mean_ns", "duration", None),
    "p50": ("response_time_p50_ns", "duration", 0.5),
    "p90": ("response_time_p90_ns", "duration", 0.1),
    "p99": ("response_time_p99_ns", "duration", 0.01),
    "p999": ("response_time_p999_ns", "duration", 0.001),
}
_WRITTEN = re.compile(r"\s*(?P<what>[a-z0-9]+)\s*(?P<relation><=|=)\s*(?P<bound>\S.*?)\s*")


@dataclass(frozen=True)
class Goal:
    """An outcome, in its unit, that must not be more than `most`; `text` is how it was written.

    `over`: of a quantile, the share of the operations that may take longer; None: it is no quantile. A trial of few
    operations has no 99th percentile to speak of, but they can be counted.
    """

    outcome: str
    most: float
    text: str
    over: float | None = None


@dataclass(frozen=True)
class SearchSpec:
    """The search for the largest level of `factor`, between `low` and `high`, that meets the goal.

    It ends when the 95 % interval is narrower than `precision` of the rate, or after `time_ns`.
    """

    goal: Goal
    factor: str = "rate"
    low: int = 100
    high: int = 10_000_000
    precision: float = 0.05
    time_ns: int = 180_000_000_000


@dataclass(frozen=True)
class Tried:
    """A level that was tried, and whether it met the goal. `suspect`: why a miss may be the generator's."""

    level: int
    met: bool
    suspect: str = ""


@dataclass(frozen=True)
class Found:
    """State of a search or its result, for one point of the design.

    `low` and `high` bound the 95 % interval of the largest level that meets the goal; `estimate` is its median.
    `confirmed`: the greatest level that met it at every one of the last trials there; None: there is none.
    `ended`: why no more was tried: `precise`, `time`, `edge` (it lies outside of what was searched), `failed` (a trial told
    nothing; `warning` says why), or empty.
    """

    point: str
    levels: Mapping[str, Level]
    estimate: float
    low: float
    high: float
    confirmed: int | None
    trials: int
    ended: str
    warning: str = ""

    @property
    def known(self) -> bool:
        """True where any trial told something; if not, the interval is all that was to be searched."""
        return self.trials > 0


def parse_goal(written: object) -> Goal:
    """The goal in the text. Raises ValueError with what was found and what is allowed."""
    allowed = (
        "loss = 0, loss <= 0.1 %, or one of p50, p90, p99, p999, mean with a duration, such as p99 <= 1ms"
    )
    match = _WRITTEN.fullmatch(written) if isinstance(written, str) and len(written) < 100 else None
    if match is None or match["what"] not in _QUANTITIES:
        raise ValueError(invalid(written, allowed))
    outcome, kind, over = _QUANTITIES[match["what"]]
    if match["relation"] == "=" and (kind != "share" or match["bound"] != "0"):
        raise ValueError(invalid(written, allowed))
    if kind == "duration":
        most = float(quantity.parse("duration", match["bound"]))
        if not most:
            raise ValueError(invalid(written, "a time above 0, such as 1ms"))
    else:
        share = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)\s*(%?)", match["bound"])
        if share is None:
            raise ValueError(invalid(written, allowed))
        most = float(share[1]) / (100 if share[2] else 1)
    return Goal(outcome, most, " ".join(str(written).split()), over)
