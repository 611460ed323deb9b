"""Which campaign of a history brought a change: binary segmentation with a permutation test.

Two statistics, each the largest |t| over all places between campaigns: of one change (what lies before the place against
what lies after it), and of a change that went back (a stretch against the rest: circular binary segmentation, Olshen,
Venkatraman, Lucito and Wigler 2004, Biostatistics 5). Their chance under "nothing changes" is found by permuting, so that
it holds for any distribution and for having looked at all places. Where there is a change, all parts are searched again
(hierarchical, as E-divisive does it: Matteson and James 2014, Journal of the American Statistical Association 109).
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
from numpy.typing import NDArray

ALPHA = (0.04, 0.01)
"""Chance of one change, and of one that went back, that is none (chosen: 8 campaigns can show the first, 0.036)."""
LEAST_CAMPAIGNS = 8
"""From here on campaigns are permuted: 3 of 8 can be told from 5 with p = 2 * 3! * 5! / 8! = 0.036."""
PERMUTATIONS = 4999
"""Orders drawn, beside the one that was measured (p is then known to 0.003 at 0.05)."""


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
    source = np.random.default_rng(seed)
    series = [np.array([each.mean()]) for each in logs] if unit == "campaigns" else logs
    if unit == "trials" and all(len(each) < 2 for each in series):
        return History((), unit, "one trial a campaign, and fewer than 8 campaigns: too few to tell a change")
    found: list[tuple[int, float]] = []
    _segment(series, 0, len(series), source, found)
    found.sort()
    edges = [0, *(at for at, _ in found), len(logs)]
    changes = []
    for number, (at, p_value) in enumerate(found, start=1):
        before = np.concatenate(logs[edges[number - 1] : at]).mean()
        after = np.concatenate(logs[at : edges[number + 1]]).mean()
        changes.append(ChangePoint(places[at], math.exp(float(after - before)), p_value))
    return History(tuple(changes), unit)


def _segment(
    series: Sequence[NDArray[np.float64]],
    begin: int,
    end: int,
    source: np.random.Generator,
    found: list[tuple[int, float]],
) -> None:
    """Adds the most telling places between `begin` and `end`, where they are any, and goes on in the parts."""
    flat = np.concatenate(series[begin:end]) if end > begin else np.zeros(0)
    if end - begin < 2 or len(flat) < 4:
        return
    edges = np.concatenate([[0], np.cumsum([len(each) for each in series[begin:end]])])
    drawn = source.permuted(np.tile(flat, (PERMUTATIONS, 1)), axis=1)
    for back, alpha in zip((False, True), ALPHA, strict=True):
        if back and end - begin < 3:
            continue
        places, measured = _largest(flat[None, :], edges, back)
        _, highest = _largest(drawn, edges, back)
        # Equal up to rounding counts as reached.
        p_value = (1 + int((highest >= measured[0] * (1 - 1e-9)).sum())) / (1 + PERMUTATIONS)
        if p_value > alpha:
            continue
        new = [begin + place for place in places if 0 < place < end - begin]
        found += [(at, p_value) for at in new]
        for low, high in zip([begin, *new], [*new, end], strict=True):
            _segment(series, low, high, source, found)
        return


def _largest(
    rows: NDArray[np.float64], edges: NDArray[np.int64], back: bool
) -> tuple[tuple[int, int], NDArray[np.float64]]:
    """The largest |t| of each row, and the stretch (of campaigns) where the first row has it."""
    n, last = rows.shape[1], len(edges) - 1
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)[:, edges]
    total = sums[:, -1]
    around = (rows**2).sum(axis=1) - total**2 / n
    best, where = np.full(len(rows), -1.0), (0, 0)
    stretches = (
        [(low, high) for low in range(1, last) for high in range(low + 1, last)]
        if back
        else [(0, high) for high in range(1, last)]
    )
    for low, high in stretches:
        k = int(edges[high] - edges[low])
        inside = sums[:, high] - sums[:, low]
        between = (inside / k - (total - inside) / (n - k)) ** 2 * k * (n - k) / n
        t = np.sqrt(between * (n - 2) / np.maximum(around - between, 1e-300))
        if t[0] > best[0]:
            where = (low, high)
        best = np.maximum(best, t)
    return where, best
