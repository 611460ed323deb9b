"""A search as a value, in the terms of RFC 9971 (Multiple Loss Ratio Search): goals, what a trial gave, and goal results.

>>> parse_goal("p99 <= 1ms")
SearchGoal(outcome='response_time_p99_ns', most=1000000.0, text='p99 <= 1ms', over=0.01)
>>> parse_goal("loss = 0").loss_ratio, parse_goal("loss <= 0.1 %").loss_ratio, parse_goal("p99 <= 1ms").loss_ratio
(0.0, 0.001, 0.01)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    "p99.9": ("response_time_p999_ns", "duration", 0.001),
}
_WRITTEN = re.compile(r"\s*(?P<what>[a-z0-9.]+)\s*(?P<relation><=|=)\s*(?P<bound>\S.*?)\s*")
TRIALS = 5
"""Full-length trials that make up the goal duration sum where none is asked for. Chosen: of five, an exceed ratio of a half bears
two that others disturbed; with more the bounds repeat better, and each takes longer."""

MOST_TRIALS = 1000
"""Most full-length trials of a goal duration sum. Chosen: by then a load has been measured for longer than any other."""


@dataclass(frozen=True)
class SearchGoal:
    """A search goal: an outcome that must not be more than `most` in a trial, and how loads are classified by such trials.

    `over`: of a quantile, the share of the operations that may take longer; None: it is no quantile. A trial of few
    operations has no 99th percentile to speak of, but those that were too late can be counted, as those that were lost are.
    """

    outcome: str
    most: float
    text: str
    over: float | None = None
    exceed_ratio: float = field(default=0.5, repr=False)
    width: float = field(default=0.05, repr=False)
    initial_trial_duration_ns: int = field(default=10**9, repr=False)
    final_trial_duration_ns: int = field(default=10**9, repr=False)
    duration_sum_ns: int = field(default=TRIALS * 10**9, repr=False)

    @property
    def loss_ratio(self) -> float:
        """Greatest trial loss ratio of a low-loss trial. Who is later than the goal counts as lost; of a mean a trial is all
        or nothing."""
        if self.outcome == "loss_ratio":
            return self.most
        return self.over or 0.0


@dataclass(frozen=True)
class SearchSpec:
    """The search for the largest loads, levels of `factor`, that meet the goals; after `duration_ns` it ends at the latest."""

    goals: tuple[SearchGoal, ...]
    factor: str = "rate"
    min_load: int = 100
    max_load: int = 10_000_000
    duration_ns: int = 180_000_000_000

    @property
    def named(self) -> str:
        """The goals in words."""
        return " and with ".join(goal.text for goal in self.goals)


@dataclass(frozen=True)
class LoadTrial:
    """Result of a trial at a load: its loss ratio by each goal. `suspect`: why a loss may be the generator's.

    `forwarded`: operations a second that were carried, as far as it is known.
    """

    load: int
    duration_ns: int
    loss_ratios: tuple[float, ...]
    forwarded: float | None = None
    suspect: str = ""


@dataclass(frozen=True)
class Bound:
    """A load that trials were made at: how many low-loss ones, of how many."""

    load: int
    low_loss_trials: int
    trials: int


@dataclass(frozen=True)
class GoalResult:
    """Goal result of a search, or its state so far, at one point of the design.

    A regular one has both relevant bounds, no further apart than the goal width. Of an irregular one the lower bound is the
    greatest load that was one, or, where `confirmed` is False, the greatest at which most trials were low-loss ones.
    `low` and `high` bound the 95 % interval of the largest load that meets the goal, whatever the bounds are; `estimate` is
    its median. `ended`: why no more was tried: `regular`, `duration`, `edge` (it lies outside of the loads), `failed` (a trial
    told nothing; `warning` says why), or empty.
    """

    point: str
    levels: Mapping[str, Level]
    goal: str
    relevant_lower_bound: Bound | None
    relevant_upper_bound: Bound | None
    confirmed: bool
    conditional_throughput: float | None
    estimate: float
    low: float
    high: float
    trials: int
    duration_ns: int
    ended: str
    warning: str = ""

    @property
    def known(self) -> bool:
        """True where any trial told something; if not, the interval is all that was to be searched."""
        return self.trials > 0

    @property
    def regular(self) -> bool:
        """True where the goal was reached."""
        return self.ended == "regular"


def parse_goal(written: object) -> SearchGoal:
    """The goal in the text. Raises ValueError with what was found and what is allowed."""
    allowed = (
        "loss = 0, loss <= 0.1 %, or one of p50, p90, p99, p999, mean with a duration, such as p99 <= 1ms"
    )
    if isinstance(written, str) and (what := written.strip()) in _QUANTITIES:
        limit = "loss = 0" if _QUANTITIES[what][1] == "share" else f"{what} <= 1ms"
        raise ValueError(f"invalid value {written!r}: {what} needs a limit, such as {limit}")
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
        most = float(share[1]) / (100 if share[2] else 1) if share else 1.0
        if most >= 1:
            raise ValueError(invalid(written, allowed))
    return SearchGoal(outcome, most, " ".join(str(written).split()), over)
