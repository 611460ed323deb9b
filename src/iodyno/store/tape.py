"""Records of a trial as they came, until the trial is over: to take one apart takes time, which a load may need meanwhile."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

HELD_BYTES = 32 << 20
"""Most bytes held in memory (chosen: some minutes of two hosts, so that most trials write nothing while their load runs)."""
_HEAD = struct.Struct("<III")


class Tape:
    """Takes records in and gives them back in their order; what memory has no room for is in a file in `folder`.

    That file has no name, so that nothing of it is left however the lab ends. All methods raise OSError when the disk cannot
    take it.
    """

    def __init__(self, folder: Path, held_bytes: int = HELD_BYTES) -> None:
        self._folder = folder
        self._room = held_bytes
        self._held: list[tuple[str, str, bytes]] = []
        self._file: IO[bytes] | None = None

    def add(self, host: str, operation: str, payload: bytes) -> None:
        """Takes a record."""
        if self._file is None and len(payload) <= self._room:
            self._room -= len(payload)
            self._held.append((host, operation, payload))
            return
        if self._file is None:
            # Unbuffered: one call of some tens of microseconds a record, none of several milliseconds.
            self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - closed by `close`
        names = host.encode(), operation.encode()
        whole = _HEAD.pack(*map(len, (*names, payload))) + b"".join((*names, payload))
        if (written := self._file.write(whole)) != len(whole):
            raise OSError(f"{written} of {len(whole)} bytes were written")

    def play(self) -> Iterator[tuple[str, str, bytes]]:
        """Gives every record back, as (host, operation, payload), and forgets it. Nothing can be added after that."""
        yield from self._held
        self._held = []
        if self._file is None:
            return
        self._file.seek(0)
        with open(self._file.fileno(), "rb", closefd=False) as file:
            while head := file.read(_HEAD.size):
                host, operation, payload = (file.read(length) for length in _HEAD.unpack(head))
                yield host.decode(), operation.decode(), payload
        self.close()

    def close(self) -> None:
        """Drops everything. May be called twice."""
        self._held = []
        if self._file is not None:
            self._file.close()
            self._file = None
