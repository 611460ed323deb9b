"""Which campaign of a history brought a change (`change_points.OrderTest`).

The false-alarm rate is that of the whole history of one outcome at one point: 0.04 + 0.01.

Campaigns differ also when nothing was changed. With 8 and more, campaigns are permuted, so that this is the yardstick;
with fewer there are too few orders (of 7 campaigns, 288 in 5040 tell 3 from 4 as well), and trials are permuted instead:
what campaigns differ by of themselves then shows as a change. A change that went back is seen from 16 campaigns on.
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
"""From here on campaigns are permuted: 3 of 8 can be told from 5 with p = 2 * 3! * 5! / 8! = 0.036."""


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
    """What the history of one outcome at one point shows. `permuted`: `campaigns` or `trials`."""

    changes: tuple[ChangePoint, ...]
    permuted: str
    missing: str = ""


def history(campaigns: Sequence[Sequence[float]], *, seed: int) -> History:
    """The changes in a series of campaigns, each with the values of its trials. Values must be above 0.

    A campaign without trials is passed over. The seed makes the permutations.
    """
    places = [place for place, values in enumerate(campaigns) if len(values)]
    unit = "campaigns" if len(places) >= LEAST_CAMPAIGNS else "trials"
    if len(places) < 3:
        return History((), unit, "fewer than 3 campaigns have it")
    values = [np.asarray(campaigns[place], dtype=float) for place in places]
    if min(float(each.min()) for each in values) <= 0:
        return History((), unit, "0 or less in a trial, of which there is no ratio")
    logs = [np.log(each) for each in values]
    if max(float(each.max()) for each in logs) - min(float(each.min()) for each in logs) < 1e-12:
        return History((), unit, "every trial gave the same value")
    series = [np.array([each.mean()]) for each in logs] if unit == "campaigns" else logs
    if unit == "trials" and all(len(each) < 2 for each in series):
        return History((), unit, "one trial a campaign, and fewer than 8 campaigns: too few to tell a change")
    found = change_points(len(series), OrderTest(series, ALPHA, seed))
    edges = [0, *(at for at, _ in found), len(logs)]
    changes = []
    for number, (at, p_value) in enumerate(found, start=1):
        before = np.concatenate(logs[edges[number - 1] : at]).mean()
        after = np.concatenate(logs[at : edges[number + 1]]).mean()
        changes.append(ChangePoint(places[at], math.exp(float(after - before)), p_value))
    return History(tuple(changes), unit)
