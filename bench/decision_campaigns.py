"""Simulated campaigns with a known truth, for how soon and how rightly they are decided: many at once, numbers only.

The truth is the published regression of a study of two storage protocols (2^5 points, 20 runs each): CPU in per cent of
8 cores, factors coded -1 and +1. Each block is half of the 32 points (resolution V), the two halves in turn.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iodyno.analysis.decisions.contrast import Estimator, estimator, indicator
from iodyno.analysis.decisions.sequence import ALPHA, log_evidence, tuned
from iodyno.analysis.decisions.stopping import CONFIRM_BELOW, LEAST_FREEDOM

Array = NDArray[np.float64]
NAMES = ("read", "rand", "block", "protocol", "iops")
COEFFICIENTS = {
    "": 3.256812,
    "read": -0.074656,
    "rand": -0.001125,
    "block": 0.040906,
    "protocol": 0.608219,
    "iops": 1.032375,
    "read:rand": -0.016969,
    "read:block": -0.018875,
    "read:protocol": -0.006219,
    "read:iops": -0.110219,
    "rand:block": -0.017750,
    "rand:protocol": -0.002937,
    "rand:iops": 0.005656,
    "block:protocol": 0.062063,
    "block:iops": 0.026219,
    "protocol:iops": 0.369719,
}
RESIDUAL_SD = 0.4587
BLOCK = 16
COSTLIER = {"protocol:iops": 1.0}
"""Whether the CPU per operation differs between the protocols: their slopes over iops."""
RATIO = {"iops": -0.5, "protocol:iops": 2.5}
"""Slope of the costlier protocol less 1.5 times that of the other: above 0 where their ratio at 50 % reads is more than 1.5."""
SLOPE = COEFFICIENTS["protocol:iops"]
HALF_WIDTH = 0.0355
"""Half the 95 % interval of the slopes' difference that 640 runs give."""


@dataclass(frozen=True)
class Noise:
    """How trials vary. `drift`: share of the variance that is a slow wave (first-order autoregressive, correlation time
    40 trials); `proportional`: the spread grows with the mean; `wide`: how far apart the levels of iops are, against 1000
    and 4000.
    """

    drift: float = 0.0
    proportional: bool = False
    wide: float = 1.0


MODELS = (
    ("even", Noise(), 52, True),
    ("spread grows with the mean", Noise(proportional=True), 60, True),
    ("drift 50 %", Noise(drift=0.5), 34, True),
    ("drift 70 %", Noise(drift=0.7), 24, True),
    ("drift 90 %", Noise(drift=0.9), 20, True),
    ("drift 70 %, no blocks", Noise(drift=0.7), 52, False),
    ("wide levels", Noise(wide=2.5), 14, True),
    ("wide levels, spread grows", Noise(proportional=True, wide=2.5), 30, True),
    ("wide levels, drift 70 %", Noise(drift=0.7, wide=2.5), 10, True),
)
"""Noise models, each with the blocks that are simulated at most, and whether blocks are fitted."""
WANTED = {"drift 70 %": "<= 256", "wide levels, drift 70 %": "<= 64"}
"""Median trials to the interval that 640 give."""


class Campaigns:
    """`repeats` campaigns of up to `blocks` blocks, with this truth and noise."""

    def __init__(self, repeats: int, blocks: int, noise: Noise, seed: int, **truth: float) -> None:
        source = np.random.default_rng(seed)
        coefficients = COEFFICIENTS | truth
        n = blocks * BLOCK
        corners = np.array(list(itertools.product((-1.0, 1.0), repeat=5)))
        halves = [corners[corners.prod(axis=1) == sign] for sign in (1, -1)]
        self.blocks = np.repeat(np.arange(blocks), BLOCK)
        # One order for all campaigns: what it is does not matter to a campaign whose noise is its own.
        self.points = np.vstack([source.permutation(halves[block % 2]) for block in range(blocks)])
        self.columns = model(self.points)
        scaled = self.columns * np.array([noise.wide if "iops" in name else 1.0 for name in coefficients])
        mean = scaled @ np.array(list(coefficients.values()))
        white = source.standard_normal((repeats, n)) * np.sqrt(1 - noise.drift)
        if noise.drift:
            white += np.sqrt(noise.drift) * _wave(source, repeats, n, 40)
        spread = RESIDUAL_SD * (np.abs(mean) / np.abs(mean).mean() if noise.proportional else 1.0)
        self.values = mean + spread * white
        self.wide = noise.wide

    def estimator(self, contrast: dict[str, float], blocks: int, *, blocked: bool = True) -> Estimator | None:
        """Of a combination of coefficients in units of the published coding, after so many blocks."""
        n = blocks * BLOCK
        more = indicator(self.blocks[:n].tolist())[0][:, 1:] if blocked else np.zeros((n, 0))
        scales = [self.wide if "iops" in name else 1.0 for name in COEFFICIENTS]
        weights = [contrast.get(name, 0.0) / scale for name, scale in zip(COEFFICIENTS, scales, strict=True)]
        return estimator(np.hstack([self.columns[:n], more]), [*weights, *[0.0] * more.shape[1]])

    def fits(
        self, contrast: dict[str, float], blocks: int, *, blocked: bool = True
    ) -> tuple[Array, Array, Estimator] | None:
        """Estimates and standard errors of all campaigns after so many blocks; None while there is no spread."""
        how = self.estimator(contrast, blocks, blocked=blocked)
        if how is None or how.freedom < 1:
            return None
        y = self.values[:, : blocks * BLOCK]
        sigma = np.sqrt(((y @ how.residual) ** 2).sum(axis=1) / how.freedom)
        return y @ how.row, sigma / np.sqrt(how.weight), how

    def decided(
        self, contrast: dict[str, float], null: float, *, tuned_blocks: int, most: int
    ) -> tuple[Array, Array]:
        """Of each campaign: trials until the sequence leaves out `null` (infinite: it does not), and on which side."""
        at_tuning = self.estimator(contrast, tuned_blocks)
        assert at_tuning is not None
        mixture = tuned(at_tuning.weight, at_tuning.freedom)
        trials, side = np.full(len(self.values), np.inf), np.zeros(len(self.values))
        for blocks in range(1, most + 1):
            how = self.estimator(contrast, blocks)
            if how is None or how.freedom < 1:
                continue
            y = self.values[:, : blocks * BLOCK]
            estimate, rest = y @ how.row, y @ how.residual
            off = (how.row * rest).reshape(len(y), blocks, BLOCK).sum(axis=2) * blocks
            off += (estimate - null)[:, None]
            logs = log_evidence(off, (rest**2).sum(axis=1), how.weight, how.freedom, mixture)
            out = np.isinf(trials) & (logs > -np.log(ALPHA))
            trials[out], side[out] = blocks * BLOCK, np.sign(estimate - null)[out]
        return trials, side

    def peeked(self, contrast: dict[str, float], most: int) -> float:
        """Share of the campaigns in which an ordinary t interval leaves out 0 at any of the looks."""
        from scipy.stats import t

        ever = np.zeros(len(self.values), dtype=bool)
        for blocks in range(1, most + 1):
            if found := self.fits(contrast, blocks):
                estimate, error, how = found
                ever |= np.abs(estimate) > t.ppf(0.975, how.freedom) * error
        return float(ever.mean())

    def stopped_by_width(
        self, contrast: dict[str, float], truth: float, half_width: float, most: int, *, blocked: bool = True
    ) -> tuple[Array, Array]:
        """Of each campaign: trials until it is narrow enough by the product's rule, and whether the interval holds the truth."""
        from scipy.stats import t

        trials, covers = np.full(len(self.values), np.inf), np.zeros(len(self.values))
        before = np.zeros(len(self.values), dtype=bool)
        for blocks in range(1, most + 1):
            found = self.fits(contrast, blocks, blocked=blocked)
            if found is None:
                continue
            estimate, error, how = found
            half = t.ppf(0.975, how.freedom) * error
            narrow = half <= half_width
            stop = (
                np.isinf(trials)
                & narrow
                & (before | (how.freedom >= CONFIRM_BELOW))
                & (how.freedom >= LEAST_FREEDOM)
            )
            trials[stop], covers[stop] = blocks * BLOCK, (np.abs(estimate - truth) <= half)[stop]
            before = narrow
        return trials, covers


async def run(pairs: int) -> list[dict[str, object]]:
    """Runs until a decision, false alarms and coverage in simulated campaigns, 200 for each of `pairs`."""
    repeats, rows = 200 * pairs, []

    def row(figure: str, value: float, wanted: str) -> None:
        rows.append({"figure": figure, "value": round(float(value), 3), "wanted": wanted})

    plain = Campaigns(repeats, 14, Noise(), 1)
    for name, contrast, most in (("costlier", COSTLIER, 32), ("ratio > 1.5", RATIO, 160)):
        trials, side = plain.decided(contrast, 0, tuned_blocks=3, most=14)
        row(f"{name}: median trials", np.median(trials), f"<= {most}")
        row(f"{name}: wrong answers", (side < 0).mean(), "<= 0.05")
    null = Campaigns(repeats, 20, Noise(), 2, **{"protocol:iops": 0.0})
    trials, _ = null.decided(COSTLIER, 0, tuned_blocks=3, most=20)
    row("nothing there, 20 looks: false alarms", np.isfinite(trials).mean(), "<= 0.05")
    row("the same, looking at t intervals", null.peeked(COSTLIER, 20), "about 0.24")
    for name, noise, most, blocked in MODELS:
        made = Campaigns(min(repeats, 1000), most, noise, 3)
        trials, covers = made.stopped_by_width(COSTLIER, SLOPE, HALF_WIDTH, most, blocked=blocked)
        ended = np.isfinite(trials)
        row(f"{name}: median trials to the interval of 640", np.median(trials), WANTED.get(name, ""))
        row(f"{name}: coverage", covers[ended].mean(), "0.93 to 0.97 where blocked")
    return rows


def model(points: Array) -> Array:
    """Mean, main effects and interactions of two factors, in the order of the coefficients."""
    column = {name: points[:, position] for position, name in enumerate(NAMES)}
    return np.stack(
        [
            np.prod([column[part] for part in name.split(":")], axis=0) if name else np.ones(len(points))
            for name in COEFFICIENTS
        ],
        axis=1,
    )


def _wave(source: np.random.Generator, repeats: int, n: int, correlation: float) -> Array:
    keep = np.exp(-1 / correlation)
    steps = source.standard_normal((repeats, n))
    wave = np.empty_like(steps)
    wave[:, 0] = steps[:, 0]
    for trial in range(1, n):
        wave[:, trial] = keep * wave[:, trial - 1] + np.sqrt(1 - keep**2) * steps[:, trial]
    return wave
