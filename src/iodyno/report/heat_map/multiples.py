"""Small multiples: where each of several pictures stands on one drawing, beside each other and then below."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.report.heat_map.picture import Picture

ACROSS = 2
"""Pictures in a row (chosen: of two, each is as wide as half a screen, so that its ticks and cells can still be read)."""


def places(pictures: Sequence[Picture]) -> tuple[list[tuple[float, float]], float, float]:
    """Left and top of each picture, and width and height of the whole; a row is as high as its highest picture."""
    if len(pictures) == 1:
        return [(0.0, 0.0)], pictures[0].width, pictures[0].height
    wide, found, top = max(picture.width for picture in pictures), [], 0.0
    for first in range(0, len(pictures), ACROSS):
        row = pictures[first : first + ACROSS]
        found += [(wide * column, top) for column in range(len(row))]
        top += max(picture.height for picture in row)
    return found, wide * min(ACROSS, len(pictures)), top
