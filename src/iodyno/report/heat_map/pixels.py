"""PNG of one pixel a cell, written with zlib alone: the smallest form of a heat map that a browser draws without a script.

Source of the form: Portable Network Graphics (PNG) Specification, third edition, W3C 2025: colour type 3 (palette) or 0 (grey).
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence

from iodyno.report.heat_map.colour import Colour


def png(width: int, height: int, levels: Mapping[tuple[int, int], int], ramp: Sequence[Colour]) -> bytes:
    """The image: pixel (x, y) from the top left has colour `ramp[level]`; those that `levels` does not name are transparent."""
    lines = [bytearray(width) for _ in range(height)]
    for (x, y), level in levels.items():
        lines[y][x] = level + 1
    palette = b"".join(bytes(each) for each in ((0, 0, 0), *ramp))
    return _file(lines, 3, _chunk(b"PLTE", palette) + _chunk(b"tRNS", b"\x00"))


def grey_png(lines: Sequence[bytes]) -> bytes:
    """The image of one byte a pixel, from the top line down; level 0 is transparent. All lines have one length."""
    return _file(lines, 0, _chunk(b"tRNS", b"\0\0"))


def as_source(image: bytes) -> str:
    """Return the `href` of an image."""
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def _file(lines: Sequence[bytes | bytearray], kind: int, between: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, kind, 0, 0, 0)
    # Before each line the number of its filter: none.
    body = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    chunks = _chunk(b"IHDR", header) + between + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
