"""Lines of JSON of a trial, until the trial is over: to take one apart takes time, which a load may need meanwhile."""

from __future__ import annotations

import os
import tempfile
from io import FileIO
from pathlib import Path
from typing import IO

HELD_BYTES = 32 << 20
"""Most bytes held in memory (chosen: some minutes of two hosts, so that most trials write nothing while their load runs)."""


class Spool:
    """Takes lines of JSON in their order; what memory has no room for is in a file in `folder`.

    Its files have no name, so that nothing of them is left however the lab ends; that of what memory had room for stays in
    memory. With `kept`, all lines are in a file of that name, so that a lab that is killed leaves them. All methods raise OSError
    when the disk cannot take it.
    """

    def __init__(self, folder: Path, held_bytes: int = HELD_BYTES, kept: str = "") -> None:
        self._folder = folder
        self._room = 0 if kept else held_bytes
        self._kept = kept
        self._held: list[bytes] = []
        self._files: list[IO[bytes]] = []

    def add(self, line: bytes) -> None:
        """Takes a line, without its end."""
        if not self._files and len(line) <= self._room:
            self._room -= len(line)
            self._held.append(line)
            return
        if not self._files:
            # Unbuffered: one call of some tens of microseconds a record, none of several milliseconds.
            self._files = [self._new()]
        _write(self._files[0], line + b"\n")

    def _new(self) -> IO[bytes]:
        if self._kept:
            return FileIO(self._folder / self._kept, "a+")
        return tempfile.TemporaryFile(dir=self._folder, buffering=0)

    def files(self) -> list[str]:
        """Paths under which this process can read all lines, file after file, until `close`. Nothing can be added after that."""
        if self._held:
            self._files.insert(0, FileIO(os.memfd_create("held"), "r+"))
            for line in self._held:
                _write(self._files[0], line + b"\n")
            self._held = []
        return [f"/proc/self/fd/{file.fileno()}" for file in self._files]

    def close(self) -> None:
        """Drops everything. May be called twice."""
        self._held = []
        for file in self._files:
            file.close()
        self._files = []


def _write(file: IO[bytes], data: bytes) -> None:
    while data:
        # A disk that is nearly full takes a part, and says with the next one why it is not all.
        data = data[file.write(data) :]
