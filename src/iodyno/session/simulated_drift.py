"""A simulated machine that drifts: what slow changes of temperature, neighbours or memory do to trials in a row."""

from __future__ import annotations

import math
import random
from functools import lru_cache

TRIALS = 40
"""Trials after which the wave has forgotten 63 % of where it was (a first-order autoregressive series)."""


def drift(seed: str, trial: str) -> float:
    """The wave (no unit; mean 0, variance 1) at a trial named by its place in the campaign (`00012-1`); 0 for others."""
    number = trial.partition("-")[0]
    return _wave(seed, int(number)) if number.isdecimal() else 0.0


def _wave(seed: str, place: int) -> float:
    known = _values(seed)
    kept = math.exp(-1 / TRIALS)
    while len(known) <= place:
        step = random.Random(f"{seed}/drift/{len(known)}").gauss(0.0, 1.0)
        known.append(kept * known[-1] + math.sqrt(1 - kept**2) * step if known else step)
    return known[place]


@lru_cache(maxsize=1024)
def _values(seed: str) -> list[float]:
    """The series so far."""
    return []
