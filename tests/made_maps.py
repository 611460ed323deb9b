"""Maps of a known number of modes, as sources of every resolution tell them: ticks, roundings, buckets narrow and wide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from made_grids import by_value, logarithmic
from numpy.typing import NDArray

from iodyno.core.grid import Grid

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]
Told = Callable[[Values], Values]

ONE: dict[str, Draw] = {
    "lognormal .05": lambda chance, n: chance.lognormal(np.log(130e3), 0.05, n),
    "lognormal .2": lambda chance, n: chance.lognormal(np.log(350e3), 0.2, n),
    "lognormal .6": lambda chance, n: chance.lognormal(np.log(90e3), 0.6, n),
    "lognormal 1.2": lambda chance, n: chance.lognormal(np.log(40e3), 1.2, n),
    "exponential": lambda chance, n: chance.exponential(200e3, n),
    "gamma 4": lambda chance, n: chance.gamma(4, 40e3, n),
    "uniform": lambda chance, n: chance.uniform(50e3, 500e3, n),
    "log-uniform": lambda chance, n: np.exp(chance.uniform(np.log(5e3), np.log(5e6), n)),
    "service and a tail": lambda chance, n: 80e3 + 30e3 * chance.pareto(2.5, n),
    "triangular": lambda chance, n: chance.triangular(60e3, 90e3, 400e3, n),
}


def _mixed(*parts: tuple[float, float, float]) -> Draw:
    """Of (share, place in ns, spread) each."""

    def draw(chance: np.random.Generator, n: int) -> Values:
        which = chance.choice(len(parts), n, p=[share for share, _, _ in parts])
        places = np.array([place for _, place, _ in parts])[which]
        spreads = np.array([spread for _, _, spread in parts])[which]
        return places * np.exp(spreads * chance.standard_normal(n))

    return draw


SEVERAL: dict[str, tuple[int, Draw]] = {
    "two, far apart": (2, _mixed((0.5, 40e3, 0.2), (0.5, 900e3, 0.2))),
    "two, one small": (2, _mixed((0.93, 90e3, 0.15), (0.07, 800e3, 0.1))),
    "two, near": (2, _mixed((0.5, 100e3, 0.05), (0.5, 135e3, 0.05))),
    "two, narrow and near": (2, _mixed((0.6, 200e3, 0.01), (0.4, 224e3, 0.01))),
    "two, one narrow": (2, _mixed((0.7, 60e3, 0.3), (0.3, 400e3, 0.02))),
    "three": (3, _mixed((0.4, 30e3, 0.12), (0.3, 200e3, 0.12), (0.3, 1.4e6, 0.12))),
    "three, near": (3, _mixed((0.4, 80e3, 0.06), (0.3, 130e3, 0.06), (0.3, 210e3, 0.06))),
}


def in_octaves(parts: int, place: float) -> Told:
    """Buckets of so many equal parts of an octave, told by the value at `place` (0 lower edge, 1 upper edge less 1 ns)."""

    def told(values: Values) -> Values:
        width = np.exp2(np.floor(np.log2(values))) / parts
        width = np.maximum(width, 1)
        low = np.floor(values / width) * width
        return np.asarray(np.floor(low + np.minimum(place * width, width - 1)))

    return told


def in_us(told: Told) -> Told:
    return lambda values: 1e3 * told(np.floor(values / 1e3))


def in_decades(parts: int) -> Told:
    """Buckets of equal ratios, told by their upper edges."""
    return lambda values: np.asarray(np.round(10 ** (np.ceil(np.log10(values) * parts) / parts)))


def in_steps(step: float, offset: float = 0.5) -> Told:
    return lambda values: np.asarray(np.floor(values / step + offset) * step)


def in_digits(digits: int) -> Told:
    def told(values: Values) -> Values:
        step = 10.0 ** (np.floor(np.log10(values)) - digits + 1)
        return np.asarray(np.round(values / step) * step)

    return told


TOLD: dict[str, Told] = {
    "whole ns": np.floor,
    "whole us": in_steps(1e3),
    "tens of us": in_steps(1e4),
    "4.096 us": in_steps(4096, 0),
    "a tick of 7.3 us": lambda values: np.floor(in_steps(7300.7)(values)),
    "a clock of 24 MHz": lambda values: np.floor(in_steps(1e9 / 24e6)(values)),
    "a clock of 3.58 MHz": lambda values: np.floor(in_steps(1e9 / 3579545)(values)),
    "powers of two": in_octaves(1, 0.0),
    "powers of two of us": in_us(in_octaves(1, 0.5)),
    "eight an octave of us": in_us(in_octaves(8, 1.0)),
    "powers of two, upper ends": in_octaves(1, 1.0),
    "two an octave": in_octaves(2, 0.5),
    "four an octave": in_octaves(4, 0.5),
    "eight an octave": in_octaves(8, 0.0),
    "sixteen an octave, upper ends": in_octaves(16, 1.0),
    "the block sensor": in_octaves(32, 0.5),
    "fio": in_octaves(64, 0.5),
    "128 an octave": in_octaves(128, 0.5),
    "five a decade": in_decades(5),
    "twenty a decade": in_decades(20),
    "three hundred a decade": in_decades(300),
    "one digit": in_digits(1),
    "two decimal digits": in_digits(2),
    "three decimal digits": in_digits(3),
}


def drawn_values(draw: Draw, n: int, *seed: int) -> Values:
    """Of an operation that takes a microsecond at least."""
    values = draw(np.random.default_rng(seed), n)
    return values[values > 1e3]


def by_its_values(values: Values) -> Grid:
    """A map of values as a trace tells them: their rows of 0.8 % are known, that they are coarse is not."""
    edges = logarithmic(1e3, 1e8, 100)
    counts, _ = np.histogram(values, edges)
    under, over = int((values < edges[0]).sum()), int((values > edges[-1]).sum())
    cells = tuple((0, row, int(count)) for row, count in enumerate(counts) if count)
    return Grid(
        "latency", "ns", 0, 10**9, 1, edges, "log", cells, (under,), (over,), 0, len(values), 0, (),
        by_value=by_value([float(value) for value in values]),
    )  # fmt: skip


def by_its_bins(values: Values, parts: int) -> Grid:
    """A map of values as a histogram tells them: so many equal buckets an octave, with their ends."""
    lows = in_octaves(parts, 0.0)(values)
    widths = np.maximum(np.exp2(np.floor(np.log2(lows))) / parts, 1)
    bins, counts = np.unique(np.stack([lows, lows + widths], axis=1), axis=0, return_counts=True)
    told = tuple(
        (float(low), float(high), int(count)) for (low, high), count in zip(bins, counts, strict=True)
    )
    edges = logarithmic(1e3, 1e8, 100)
    middles, under, over = lows + widths / 2, int((lows < edges[0]).sum()), int((lows > edges[-1]).sum())
    rows, _ = np.histogram(middles[(lows >= edges[0]) & (lows <= edges[-1])], edges)
    cells = tuple((0, row, int(count)) for row, count in enumerate(rows) if count)
    return Grid(
        "latency",
        "ns",
        0,
        10**9,
        1,
        edges,
        "log",
        cells,
        (under,),
        (over,),
        0,
        len(values),
        0,
        (),
        by_value=told,
    )
