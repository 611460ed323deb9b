"""Colours of heat maps: one perceptually uniform ramp, from the page's side to the far end, and how counts map onto it.

The ramp is inferno of Smith and van der Walt (2015; released as CC0 with matplotlib), every eighth of its 256 entries, and
straight lines between them. On white it is walked from orange to black, on a dark page from red to pale yellow: the first step is
where one single event has a contrast of at least 3:1 against the page (WCAG 2.2, 1.4.11), so an outlier cannot be missed.
An empty cell has no colour of the ramp at all: it is the page.

>>> round(contrast(LIGHT[0], PAPER), 1) >= 3, round(contrast(DARK[0], DARK_PAPER), 1) >= 3
(True, True)
>>> [level_of(count, (1, 10, 1000), "log") for count in (1, 10, 1000)], level_of(0, (1, 9), "log")
([0, 8, 23], None)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

Colour = tuple[int, int, int]
"""sRGB, 0 to 255."""

LEVELS = 24
"""Steps of the ramp (chosen: neighbours are just told apart side by side, and a map needs 24 shapes, not one a cell)."""
SCALES = ("log", "linear", "rank")
"""Scales by which counts become steps of the ramp."""
_INFERNO = (
    "000004 040312 0b0724 150b37 210c4a 2f0a5b 3d0965 4a0c6b 57106e 64156e 71196e 7d1e6d 8a226a 972766 a32c61 b0315b bc3754 "
    "c63d4d d04545 da4e3c e35933 eb6429 f1711f f67e14 f98c0a fb9b06 fcaa0f fbba1f f9c932 f5d949 f2e865 f3f586 fcffa4"
)
_BLUE_ORANGE = ("08306b 2166ac 4393c3 92c5de d1e5f0", "fee0b6 fdb863 e08214 b35806 7f3b08")
"""The halves of a diverging scale without red and green: blue of RdBu and orange of PuOr (ColorBrewer 2.0, Apache-2.0)."""
PAPER: Colour = (255, 255, 255)
DARK_PAPER: Colour = (0x14, 0x17, 0x1B)
"""The pages that maps stand on (the report's)."""
_LIGHT_ENDS = (0.655, 0.03)
_DARK_ENDS = (0.50, 0.98)
"""Ends of the ramps on inferno: one event at 3:1, the greatest count short of the last colour."""


def parse(text: str) -> Colour:
    """A colour from six hexadecimal digits."""
    return int(text[0:2], 16), int(text[2:4], 16), int(text[4:6], 16)


def css(colour: Colour) -> str:
    """As a style sheet has it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def inferno(place: float) -> Colour:
    """The ramp at `place`, 0 (black) to 1 (pale yellow)."""
    return _between([parse(text) for text in _INFERNO.split()], place)


def _between(stops: Sequence[Colour], place: float) -> Colour:
    at = min(max(place, 0.0), 1.0) * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    red, green, blue = (
        round(a + (b - a) * (at - low)) for a, b in zip(stops[low], stops[low + 1], strict=True)
    )
    return red, green, blue


def _ramp(ends: tuple[float, float]) -> tuple[Colour, ...]:
    first, last = ends
    return tuple(inferno(first + (last - first) * step / (LEVELS - 1)) for step in range(LEVELS))


LIGHT = _ramp(_LIGHT_ENDS)
"""Steps on a white page, one event first."""
DARK = _ramp(_DARK_ENDS)
"""Steps on a dark page."""


def difference_ramp() -> tuple[Colour, ...]:
    """Steps of a difference, most negative (blue) to most positive (orange): LEVELS of them, none in the middle for zero.

    The two steps beside zero are no paler than 3:1 against white would allow for the edge that is drawn around them; the
    scale is centred on zero, so equal amounts have equal strength.
    """
    half = LEVELS // 2
    blue = [parse(text) for text in _BLUE_ORANGE[0].split()]
    orange = [parse(text) for text in _BLUE_ORANGE[1].split()]
    # The palest fifth is left out: a difference of one event would be white on white.
    lows = [_between(blue, 0.72 * step / (half - 1)) for step in range(half)]
    highs = [_between(orange, 0.28 + 0.72 * step / (half - 1)) for step in range(half)]
    return (*lows, *highs)


def luminance(colour: Colour) -> float:
    """Relative luminance, 0 (black) to 1 (white) (WCAG 2.2, definition of relative luminance)."""
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Colour, other: Colour) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def level_of(count: int, counts: Sequence[int], scale: str) -> int | None:
    """The step of the ramp for `count`, 0 to LEVELS - 1, where `counts` are the counts of all cells, ascending.

    None for an empty cell. `linear`: in proportion from one event to the greatest count; `log`: in proportion of the logarithm;
    `rank`: by how many cells have fewer (as many as have the same count share a step). One event has the first step in
    `linear` and `log`; in `rank` the smallest count has it.
    """
    if count <= 0:
        return None
    most = counts[-1]
    if scale == "rank":
        below, same = bisect_left(counts, count), bisect_right(counts, count)
        others = len(counts) - (same - below)
        share = below / others if others else 0.0
    elif most <= 1:
        share = 0.0
    elif scale == "log":
        share = math.log(count) / math.log(most)
    else:
        share = (count - 1) / (most - 1)
    return min(LEVELS - 1, round(share * (LEVELS - 1)))


def difference_level(change: int, most: int) -> int | None:
    """The step of `difference_ramp` for a change of a count, where no change is greater than `most` either way; None for zero.

    The logarithm of one more than the change: a change of one has the step beside the middle.
    """
    if change == 0:
        return None
    half = LEVELS // 2
    share = math.log(abs(change)) / math.log(most) if most > 1 else 0.0
    step = min(half - 1, round(share * (half - 1)))
    return half + step if change > 0 else half - 1 - step
