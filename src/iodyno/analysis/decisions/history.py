"""Which campaign of a history brought a change (`change_points.OrderTest`).

The false-alarm rate is that of the whole history of one outcome at one point: 0.04 + 0.01.

Campaigns differ also when nothing was changed. So whole campaigns are permuted, and what they differ by is the yardstick. With
fewer than 8 there are too few orders (of 7 campaigns, 288 in 5040 tell 3 from 4 as well), and no change is told: trials, permuted
instead, would show what sessions differ by as a change in most histories. A change that went back is seen from 16 campaigns on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iodyno.analysis.change_points import OrderTest, change_points

ALPHA = (0.04, 0.01)
"""Chance of one change, and of one that went back, that is none (chosen: 8 campaigns can show the first, 0.036)."""
LEAST_CAMPAIGNS = 8
"""Fewer tell no change: 3 of 8 can be told from 5 with p = 2 * 3! * 5! / 8! = 0.036."""


@dataclass(frozen=True)
class ChangePoint:
    """A change between two neighbouring campaigns: `at` is the place of the first one after it.

    `ratio`: geometric mean of the part after it over that of the part before it, each until its next change.
    """

    at: int
    ratio: float
    p_value: float


@dataclass(frozen=True)
class History:
    """Changes in the history of one outcome at one point; or the reason why it shows nothing."""

    changes: tuple[ChangePoint, ...]
    missing: str = ""


def history(campaigns: Sequence[Sequence[float]], *, seed: int) -> History:
    """The changes in a series of campaigns, each with the values of its trials. Values must be above 0.

    A campaign without trials is passed over. The seed makes the permutations.
    """
    places = [place for place, values in enumerate(campaigns) if len(values)]
    if len(places) < LEAST_CAMPAIGNS:
        return History(
            (),
            f"fewer than {LEAST_CAMPAIGNS} campaigns have it, and what campaigns differ by with nothing changed is not known",
        )
    values = [np.asarray(campaigns[place], dtype=float) for place in places]
    if min(float(each.min()) for each in values) <= 0:
        return History((), "0 or less in a trial, of which there is no ratio")
    logs = [np.log(each) for each in values]
    if max(float(each.max()) for each in logs) - min(float(each.min()) for each in logs) < 1e-12:
        return History((), "every trial gave the same value")
    means = np.array([each.mean() for each in logs])
    found = change_points(len(means), OrderTest(means, ALPHA, seed))
    edges = [0, *(at for at, _ in found), len(logs)]
    changes = []
    for number, (at, p_value) in enumerate(found, start=1):
        before = np.concatenate(logs[edges[number - 1] : at]).mean()
        after = np.concatenate(logs[at : edges[number + 1]]).mean()
        changes.append(ChangePoint(places[at], math.exp(float(after - before)), p_value))
    return History(tuple(changes))
