"""Laws of times between arrivals and of service times, for simulation: each with its mean and its variability.

The squared coefficient of variation (SCV) is variance over squared mean: 0 constant, 1 exponential, above 1 where few
times are very long. Two laws of one mean and one SCV give about the same queue (Whitt, Bell System Technical Journal 62:9, 1983).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid

Times = NDArray[np.float64]
FORMS = "constant, exponential, erlang(4), hyperexponential(4), lognormal(2)"
"""Notation of laws; the number is the stages of an Erlang law, and the SCV of the others."""


@dataclass(frozen=True)
class Law:
    """A law of times in s: how it is written, its mean and SCV, and what draws from it."""

    name: str
    mean_s: float
    scv: float
    draw: Callable[[np.random.Generator, int], Times]


def constant(mean_s: float) -> Law:
    """Always `mean_s`. Raises ExperimentError."""
    mean_s = _positive(mean_s)
    return Law("constant", mean_s, 0.0, lambda _random, count: np.full(count, mean_s))


def exponential(mean_s: float) -> Law:
    """Without memory; as times between arrivals, a Poisson process. Raises ExperimentError."""
    mean_s = _positive(mean_s)
    return Law("exponential", mean_s, 1.0, lambda random, count: random.exponential(mean_s, count))


def erlang(mean_s: float, stages: int) -> Law:
    """The sum of `stages` exponential times, SCV 1 / stages (Kleinrock, Queueing Systems 1, 1975, 4.2).

    Raises ExperimentError.
    """
    mean_s = _positive(mean_s)
    if stages < 1:
        raise ExperimentError(
            f"invalid value: {stages} stages; expected 1 or more", where="erlang", advice="erlang(4)"
        )
    return Law(
        f"erlang({stages})",
        mean_s,
        1 / stages,
        lambda random, count: random.gamma(stages, mean_s / stages, count),
    )


def hyperexponential(mean_s: float, scv: float) -> Law:
    """Of two exponential times either, with balanced means: p1 m1 = p2 m2; `scv` is 1 or more.

    p1 = (1 + sqrt((c - 1) / (c + 1))) / 2 (Whitt, Operations Research 30:1, 1982, section 3). Raises ExperimentError.
    """
    mean_s = _positive(mean_s)
    if not (math.isfinite(scv) and scv >= 1):
        raise ExperimentError(
            f"invalid value: an SCV of {scv:g}; expected 1 or more",
            where="hyperexponential",
            advice="below 1, take erlang(stages), with an SCV of 1 / stages",
        )
    first = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2

    def draw(random: np.random.Generator, count: int) -> Times:
        share = np.where(random.random(count) < first, first, 1 - first)
        return random.exponential(1.0, count) * (mean_s / (2 * share))

    return Law(f"hyperexponential({scv:g})", mean_s, scv, draw)


def lognormal(mean_s: float, scv: float) -> Law:
    """The logarithm is normal, with variance ln(1 + SCV) (Johnson, Kotz, Balakrishnan 1994, ch. 14). Raises ExperimentError."""
    mean_s = _positive(mean_s)
    if not (math.isfinite(scv) and scv > 0):
        raise ExperimentError(
            f"invalid value: an SCV of {scv:g}; expected above 0",
            where="lognormal",
            advice="take `constant` for 0",
        )
    variance = math.log1p(scv)
    middle = math.log(mean_s) - variance / 2
    return Law(
        f"lognormal({scv:g})",
        mean_s,
        scv,
        lambda random, count: random.lognormal(middle, math.sqrt(variance), count),
    )


def measured(times_s: Sequence[float]) -> Law:
    """Drawn with replacement from measured times, in s: no order is kept. Raises ExperimentError."""
    values = np.asarray(times_s, dtype=np.float64)
    if values.size < 2 or not np.all(np.isfinite(values)) or values.min() < 0 or values.mean() <= 0:
        raise ExperimentError(
            "measured times are at least two numbers, none below 0 and not all 0",
            where="times",
            advice="give a time in seconds for each arrival or operation",
        )
    mean_s = float(values.mean())
    return Law(
        "measured", mean_s, float(values.var()) / mean_s**2, lambda random, n: random.choice(values, n)
    )


def law(written: str, mean_s: float) -> Law:
    """The law that `written` names (`FORMS`), with that mean in s. Raises ExperimentError."""
    made = re.fullmatch(r"\s*([a-z]+)\s*(?:\(\s*([0-9.eE+-]+)\s*\))?\s*", written)
    name, number = (made[1], made[2]) if made else ("", None)
    if name in ("poisson", "exponential") and number is None:
        return exponential(mean_s)
    if name == "constant" and number is None:
        return constant(mean_s)
    try:
        if name == "erlang" and number is not None:
            return erlang(mean_s, int(number))
        if name in ("hyperexponential", "lognormal") and number is not None:
            return (hyperexponential if name == "hyperexponential" else lognormal)(mean_s, float(number))
    except ValueError:
        pass
    raise ExperimentError(invalid(written, FORMS), where="law", advice="exponential")


def _positive(mean_s: float) -> float:
    if not (math.isfinite(mean_s) and mean_s > 0):
        raise ExperimentError(
            f"invalid value: a mean of {mean_s:g} s; expected above 0",
            where="law",
            advice="give a time such as 1ms",
        )
    return float(mean_s)
