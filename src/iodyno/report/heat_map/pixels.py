"""A PNG of one pixel a cell, written with zlib alone (PNG Specification, third edition, W3C 2025: colour type 3, palette
with alpha)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence

from iodyno.report.heat_map.colour import Colour


def png(width: int, height: int, levels: Mapping[tuple[int, int], int], ramp: Sequence[Colour]) -> bytes:
    """The image: pixel (x, y) from the top left has colour `ramp[level]`; those that `levels` does not name are transparent."""
    rows = [bytearray(width + 1) for _ in range(height)]  # a filter byte (0: none) before each row
    for (x, y), level in levels.items():
        rows[y][x + 1] = level + 1
    palette = b"".join(bytes(each) for each in ((0, 0, 0), *ramp))
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
        + _chunk(b"PLTE", palette)
        + _chunk(b"tRNS", b"\x00")
        + _chunk(b"IDAT", zlib.compress(b"".join(rows), 9))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
