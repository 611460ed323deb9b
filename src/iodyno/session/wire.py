"""Messages on the byte stream, in the format of `agent/core/src/frame.rs`.

A frame is a header of 16 bytes and a payload of UTF-8 JSON, one message:

| bytes | content |
| --- | --- |
| 0..4 | `IODY` |
| 4..8 | length of the payload, little-endian |
| 8..12 | sequence number, little-endian: 0, 1, 2, ... in each direction |
| 12..16 | CRC-32 (IEEE) of the payload, little-endian |

Before the first frame a remote shell may print something of its own. `Decoder` keeps that apart and goes on;
after the first frame every stray byte is an error.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

WIRE_VERSION = 7
"""Version of the wire; both ends must have the same. History: `schema/VERSIONS.md`."""
MAGIC = b"IODY"
MAX_PAYLOAD_BYTES = 16 << 20
MAX_FOREIGN_BYTES = 64 << 10
"""Most bytes that may come before the first frame (chosen: more than any message of the day)."""

_HEADER = struct.Struct("<4sIII")


class FrameError(Exception):
    """The byte stream is not what an agent sends. All of it is final: nothing after it can be trusted."""


def encode(sequence: int, message: Mapping[str, Any]) -> bytes:
    """The frame number `sequence` of a direction, holding `message`."""
    return frame(sequence, json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode())


def frame(sequence: int, payload: bytes) -> bytes:
    """The frame that holds `payload`. Raises FrameError when it is too long."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise FrameError(f"a frame of {len(payload)} bytes is longer than the {MAX_PAYLOAD_BYTES} allowed")
    return _HEADER.pack(MAGIC, len(payload), sequence & 0xFFFFFFFF, zlib.crc32(payload)) + payload


class Decoder:
    """Takes a byte stream apart into payloads.

    `foreign` holds what came before the first frame, when `allow_foreign` let it.
    """

    def __init__(self, *, allow_foreign: bool = False) -> None:
        self.foreign = b""
        self._searching = allow_foreign
        self._buffer = bytearray()
        self._next_sequence = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Takes bytes in; gives the payloads that they complete. Raises FrameError."""
        self._buffer += data
        payloads = []
        while (payload := self._next_payload()) is not None:
            payloads.append(payload)
        return payloads

    def finish(self) -> None:
        """Call at the end of the stream. Raises FrameError when it ended inside a frame."""
        if self._searching:
            self.foreign += bytes(self._buffer)
            self._buffer.clear()
        if not self._buffer:
            return
        length = int.from_bytes(self._buffer[4:8], "little") if len(self._buffer) >= 8 else 0
        missing = max(0, _HEADER.size + length - len(self._buffer))
        raise FrameError(f"the stream ended {missing} bytes short of the end of a frame")

    def _next_payload(self) -> bytes | None:
        if self._searching and not self._found_magic():
            return None
        if len(self._buffer) < 4:
            return None
        if (found := bytes(self._buffer[:4])) != MAGIC:
            raise FrameError(
                f"expected a frame, found the bytes {found!r}; something else writes into the stream"
            )
        if len(self._buffer) < _HEADER.size:
            return None
        _, length, sequence, checksum = _HEADER.unpack_from(self._buffer)
        if length > MAX_PAYLOAD_BYTES:
            raise FrameError(f"a frame of {length} bytes is longer than the {MAX_PAYLOAD_BYTES} allowed")
        if sequence != self._next_sequence:
            raise FrameError(
                f"frame {sequence} came where {self._next_sequence} was due; frames were lost or repeated"
            )
        end = _HEADER.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[_HEADER.size : end])
        del self._buffer[:end]
        if zlib.crc32(payload) != checksum:
            raise FrameError(f"the checksum of frame {sequence} does not fit its content")
        self._next_sequence = (sequence + 1) & 0xFFFFFFFF
        return payload

    def _found_magic(self) -> bool:
        """Moves what stands before the first frame to `foreign`; whether that frame has begun.

        A magic counts when a header of frame 0 follows: foreign output may hold the four letters too.
        """
        while (at := self._buffer.find(MAGIC)) >= 0:
            self._set_apart(at)
            if len(self._buffer) < _HEADER.size:
                return False
            _, length, sequence, _ = _HEADER.unpack_from(self._buffer)
            if sequence == 0 and length <= MAX_PAYLOAD_BYTES:
                self._searching = False
                return True
            self._set_apart(1)
        # The last three bytes may be the first ones of a magic.
        self._set_apart(max(0, len(self._buffer) - len(MAGIC) + 1))
        return False

    def _set_apart(self, count: int) -> None:
        self.foreign += bytes(self._buffer[:count])
        del self._buffer[:count]
        if len(self.foreign) > MAX_FOREIGN_BYTES:
            raise FrameError(f"more than {MAX_FOREIGN_BYTES} bytes came, and none of them from an agent")
