"""Open loops of a simulated agent: a queue whose truth is known, simulated arrival by arrival.

Every connection is one server of exponential service time, arrivals are Poisson, and the queue is served in the order of
arrival: Kendall's M/M/c. It is walked through in virtual time (Kiefer and Wolfowitz 1955); nothing here knows a formula
for its response times.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

_offered: dict[tuple[Any, ...], Mapping[str, Any]] = {}
"""Arrivals of trials under way: an end that receives is not told of them on the wire, and gets what the other end sends."""


def offer(job: Mapping[str, Any]) -> None:
    """Notes the arrivals of a job for its other end, in this process as it is."""
    if job.get("arrivals") and job["role"] == "send":
        _offered[_trial_of(job)] = job["arrivals"]


def arrivals_of(job: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The arrivals of a job, or those that its other end has noted; None: it is a closed loop."""
    if job["role"] == "receive":
        return _offered.pop(_trial_of(job), None)
    return job.get("arrivals")


def _trial_of(job: Mapping[str, Any]) -> tuple[Any, ...]:
    # A bystander's job may be of the same trial.
    return tuple(job.get(key) for key in ("trial", "token", "workload", "connections", "message_bytes"))


class _Operation(NamedTuple):
    """One arrival in ns since the start: when it was due, begun and complete, and how late the generator was."""

    due: float
    begun: float
    done: float
    late: float


_DUE, _BEGUN, _DONE = attrgetter("due"), attrgetter("begun"), attrgetter("done")


def _between(
    ordered: Sequence[_Operation], begin: float, end: float, at: Callable[[_Operation], float]
) -> Sequence[_Operation]:
    """Those whose time `at` lies after `begin` and not after `end`; they are in the order of it."""
    return ordered[bisect_right(ordered, begin, key=at) : bisect_right(ordered, end, key=at)]


class OpenLoop:
    """The operations of a job with arrivals, for its whole load; both ends of a connection have the same ones."""

    def __init__(
        self,
        job: Mapping[str, Any],
        arrivals: Mapping[str, Any],
        service_ns: float,
        lateness_ns: float,
        seed: str,
        load_ns: int,
    ) -> None:
        draw = random.Random(seed)
        mean_ns = arrivals["period_ns"] / arrivals["operations"]
        free = [0.0] * job["connections"]
        at, self._operations = 0.0, list[_Operation]()
        self._load_ns = load_ns
        while True:
            at += draw.expovariate(1 / mean_ns)
            if at > load_ns:
                break
            in_time = max(at, heapq.heappop(free))
            begun = in_time + lateness_ns
            done = begun + draw.expovariate(1 / service_ns)
            heapq.heappush(free, done)
            self._operations.append(_Operation(at, begun, done, lateness_ns))
        # They are due and begun in the order of arrival, but not complete where there are several servers.
        self._complete = sorted(self._operations, key=_DONE)

    def interval(self, begin: int, end: int, bucket: Callable[[int], int]) -> tuple[int, dict[str, Any]]:
        """Count of the operations that ended in an interval, and the histograms of a record."""
        done = _between(self._complete, begin, end, _DONE)
        begun = _between(self._operations, begin, min(end, self._load_ns), _BEGUN)
        waits = [each.begun - each.late - each.due for each in begun]
        values = {
            "service_time": [each.done - each.begun for each in done],
            "response_time": [each.done - each.due for each in done],
            "lateness": [each.late for each in begun],
            "waiting": [wait for wait in waits if wait > 0],
        }
        return len(done), {kind: _histogram(found, bucket) for kind, found in values.items()}

    def values(self, begin: int, end: int) -> list[list[Any]]:
        """The reading `arrivals` of an interval."""
        due = len(_between(self._operations, begin, end, _DUE))
        begun = len(_between(self._operations, begin, min(end, self._load_ns), _BEGUN))
        late = bisect_right(self._operations, end, key=_BEGUN)
        waiting = [
            each.due for each in self._operations[late : bisect_right(self._operations, end, key=_DUE)]
        ]
        over = end >= self._load_ns
        return [
            ["arrivals.due", "", due],
            ["arrivals.begun", "", begun],
            ["arrivals.missed", "", len(waiting) if over else 0],
            ["arrivals.backlog", "", 0 if over else len(waiting)],
            ["arrivals.oldest_wait_ns", "", int(end - min(waiting, default=end))],
            ["arrivals.spun_ns", "", 0],
        ]


def _histogram(values: Sequence[float], bucket: Callable[[int], int]) -> dict[str, Any]:
    whole = [int(value) for value in values]
    cells = sorted(Counter(map(bucket, whole)).items())
    return {
        "count": len(whole),
        "sum_ns": sum(whole),
        "buckets": [index for index, _ in cells],
        "counts": [count for _, count in cells],
    }
