"""A picture of grey levels as PNG: the smallest form of a heat map that a browser draws without a script."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence


def grey_png(lines: Sequence[bytes]) -> bytes:
    """A PNG of one byte a pixel, from the top line down; level 0 is transparent. All lines have one length.

    Source of the form: Portable Network Graphics (PNG) Specification, W3C, 2003: colour type 0, `tRNS` for one grey.
    """
    width = len(lines[0])
    header = struct.pack(">IIBBBBB", width, len(lines), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + line for line in lines), 9)
    parts = [_chunk(b"IHDR", header), _chunk(b"tRNS", b"\0\0"), _chunk(b"IDAT", pixels), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def as_source(png: bytes) -> str:
    """What the `href` of an image holds."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
