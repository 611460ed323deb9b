"""Follows the feed of a running campaign from another process: new lines, in order, without waiting for any."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from iodyno.campaign.feed import EVENTS, FEED, is_alive, trial_file

_ASK_EVERY_S = 1.0
"""Time between two checks that the lab still lives (chosen: nobody waits longer to hear that it died)."""
_MOST_READ_BYTES = 8 << 20
"""Most bytes of one file taken at once (chosen: a second of 30 hosts many times over)."""


class Tail:
    """A file of lines that grows. Keeps it open, so that it can be read to its end after it was removed."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        self._rest = b""
        self.spoiled = 0

    def lines(self) -> Iterator[dict[str, Any]]:
        """The complete lines that have come since; what is no JSON object is counted in `spoiled`."""
        while data := self._file.read(_MOST_READ_BYTES):
            *whole, self._rest = (self._rest + data).split(b"\n")
            for line in whole:
                try:
                    value = json.loads(line)
                except ValueError:
                    value = None
                if isinstance(value, dict):
                    yield value
                else:
                    self.spoiled += 1

    def is_at(self, path: Path) -> bool:
        """Tell whether the file at `path` is still this one."""
        try:
            there, here = path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class Follower:
    """Events and records of the campaign in `folder`, as they come.

    It may be made before the campaign begins, and goes on when a campaign that ended is taken up again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: Tail | None = None
        self._trial: tuple[str, Tail] | None = None
        self._ended = False
        self._asked_s = 0.0

    @property
    def following(self) -> bool:
        """True where there is a feed that has not ended."""
        return self._events is not None and not self._ended

    def poll(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield what is new: (`event`, line) and (`record`, line with `trial`). A lab that died is an event `end`."""
        path = self._folder / FEED / EVENTS
        if self._events is None or (self._ended and not self._events.is_at(path)):
            self._reopen(path)
        if self._events is None or self._ended:
            return
        for line in self._events.lines():
            kind = line.get("kind")
            if kind == "trial":
                yield from self._records()
                self._open_trial(str(line.get("trial")), 0)
            elif kind == "more":
                yield from self._records()
                self._open_trial(str(line.get("trial")), int(line.get("part", 0)))
                continue
            elif kind in ("done", "end"):
                yield from self._records()
                self._close_trial()
                self._ended = kind == "end"
            yield "event", line
        yield from self._records()
        if not self._ended and self._has_died(path):
            # Its last words may have come between the reading and the asking.
            last = [line for line in self._events.lines() if line.get("kind") == "end"]
            self._close_trial()
            self._ended = True
            yield (
                "event",
                last[0] if last else {"kind": "end", "at_ns": time.time_ns(), "how": "killed", "lost": 0},
            )

    def close(self) -> None:
        """Closes the files."""
        self._close_trial()
        if self._events:
            self._events.close()
        self._events = None

    def _reopen(self, path: Path) -> None:
        try:
            fresh = Tail(path)
        except OSError:
            return
        if not is_alive(self._folder):
            fresh.close()  # left by a lab that was killed; what it measured is stored
            return
        self.close()
        self._events, self._ended = fresh, False

    def _has_died(self, path: Path) -> bool:
        now_s = time.monotonic()
        if now_s - self._asked_s < _ASK_EVERY_S:
            return False
        self._asked_s = now_s
        assert self._events is not None
        return not (self._events.is_at(path) and is_alive(self._folder))

    def _open_trial(self, name: str, part: int) -> None:
        self._close_trial()
        try:
            self._trial = (name, Tail(self._folder / FEED / trial_file(name, part)))
        except OSError:
            return  # over and stored already, or the next part has begun

    def _close_trial(self) -> None:
        if self._trial:
            self._trial[1].close()
        self._trial = None

    def _records(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        if self._trial:
            name, tail = self._trial
            for line in tail.lines():
                yield "record", {"trial": name, **line}
