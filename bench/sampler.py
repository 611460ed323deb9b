"""What a machine did while a tool ran, whatever the tool says of itself: busy time of all CPUs, and bytes that devices received.

It is read every 50 ms in a thread; a span is chosen afterwards, so that a tool need not say beforehand when its load is on.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench.meter import idle_s

_EVERY_S = 0.05


class Sampler:
    """Reads until the block ends. `pids`: processes in whose network namespaces received bytes are counted; asked each time."""

    def __init__(self, pids: Callable[[], Iterable[int]] = tuple) -> None:
        self._pids = pids
        self._at: list[float] = []
        self._idle: list[float] = []
        self._received: dict[int, dict[float, int]] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._over.wait(_EVERY_S):
            now = time.monotonic()
            self._at.append(now)
            self._idle.append(idle_s())
            for pid in self._pids():
                with contextlib.suppress(OSError, ValueError):
                    self._received.setdefault(pid, {})[now] = _received_bytes(pid)

    def busy_cpus(self, begin: float, end: float) -> float:
        """CPUs that were busy on average between two instants of `time.monotonic`."""
        return (os.cpu_count() or 1) - _slope(self._at, self._idle, begin, end)

    def received_per_s(self, begin: float, end: float) -> float:
        """Bytes a second that arrived then in the namespace in which most did."""
        each = [list(read.items()) for read in self._received.values() if len(read) > 1]
        return max(
            (_slope([at for at, _ in read], [count for _, count in read], begin, end) for read in each),
            default=0.0,
        )


def _slope(at: Sequence[float], values: Sequence[float], begin: float, end: float) -> float:
    """Growth a second between the last reading before `begin` and the first one after `end`, as far as there are any.

    >>> _slope([0.0, 1.0, 2.0, 3.0], [0.0, 5.0, 15.0, 15.0], 1.0, 2.0)
    10.0
    """
    first = max(0, bisect_left(at, begin))
    last = min(len(at) - 1, bisect_left(at, end))
    if last <= first:
        raise RuntimeError("the span is too short for the readings")
    return (values[last] - values[first]) / (at[last] - at[first])


def _received_bytes(pid: int) -> int:
    """Bytes that the devices of a process's network namespace have received, without loopback (proc_net(5))."""
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    named = (line.partition(":") for line in lines)
    return sum(int(counts.split()[0]) for name, _, counts in named if name.strip() != "lo")


def descendants(pid: int) -> list[int]:
    """Processes that a process has started, and those that these have."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, children.read_text(encoding="ascii").split()):
                found += [child, *descendants(child)]
    return found
