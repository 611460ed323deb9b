"""Approximate mean value analysis of closed and mixed networks: Schweitzer-Bard and Linearizer.

A station of m servers is taken as one server with the demand D/m and, before it, a delay of D (m-1)/m
(Seidmann, Schweitzer and Shalev-Oren, Computerized closed queueing network models, 1987). Iteration is over
all classes at once and ends when the queues of every class have come to rest, so that the order in which
classes are declared is of no account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from iodyno.analysis.queueing.networks.solution import Method, Solution, composed
from iodyno.core.errors import ExperimentError
from iodyno.core.network import Network, checked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SCHWEITZER = Method(
    "Schweitzer-Bard", False, "Schweitzer 1979; Bard 1979; multi-server stations by Seidmann 1987"
)
LINEARIZER = Method("Linearizer", False, "Chandy and Neuse 1982; multi-server stations by Seidmann 1987")

TOLERANCE = 1e-11
"""Largest change of a queue, relative to its class's population, at which it is at rest (chosen: near rounding)."""
MAX_ROUNDS = 200_000
"""Chosen: some ten times what 10 000 jobs at ten stations take."""
LINEARIZER_ROUNDS = 3
"""Of the outer iteration (Chandy and Neuse, Linearizer, CACM 25, 1982: more bring nothing)."""


def solve_schweitzer(network: Network) -> Solution:
    """Solves closed and mixed networks approximately: one job less takes 1/N of its class from every queue.

    Raises ExperimentError where no class is closed.
    """
    return _solve(network, SCHWEITZER, _schweitzer)


def solve_linearizer(network: Network) -> Solution:
    """As `solve_schweitzer`, with the change of queue shares from N to N-1 estimated too: a tenth of the error."""
    return _solve(network, LINEARIZER, _linearizer)


class _Problem:
    """Demands (class x station) on one server, think times with all delays, populations."""

    def __init__(self, demands_s: Array, think_s: Array, jobs: Array) -> None:
        self.demands_s, self.think_s, self.jobs = demands_s, think_s, jobs

    def core(self, jobs: Array, queue: Array, change: Array | None) -> tuple[Array, Array, Array]:
        """Queue lengths, throughputs and residence times at `jobs`, from a first guess of the queues.

        `change[c, k, d]` is how the share of class c at k changes when a job of d leaves (Linearizer's D).
        """
        classes = len(jobs)
        safe = np.maximum(jobs, 1.0)
        some = jobs > 0
        one_less = np.minimum(np.eye(classes), jobs)
        for _ in range(MAX_ROUNDS):
            share = queue / safe[:, None]
            # seen[d, k]: jobs at k that an arriving job of d finds, when d has one job less.
            left = np.maximum(jobs[None, :] - one_less, 0.0)
            seen = left @ share
            if change is not None:
                seen = np.maximum(seen + np.einsum("dc,ckd->dk", left, change), 0.0)
            residence = self.demands_s * (1.0 + seen)
            throughput = np.where(some, jobs / (self.think_s + residence.sum(axis=1)), 0.0)
            new = throughput[:, None] * residence
            moved = float(np.max(np.abs(new - queue) / safe[:, None], initial=0.0))
            queue = new
            if moved <= TOLERANCE:
                return queue, throughput, residence
        raise ExperimentError(
            f"the approximation did not come to rest in {MAX_ROUNDS} rounds",
            where="--method",
            advice="--method exact",
        )

    def spread(self, jobs: Array) -> Array:
        """A first guess: every class in proportion to its demands."""
        weights = self.demands_s / (self.demands_s.sum(axis=1) + self.think_s)[:, None]
        guess: Array = weights * jobs[:, None]
        return guess


def _schweitzer(problem: _Problem) -> tuple[Array, Array]:
    _, throughput, residence = problem.core(problem.jobs, problem.spread(problem.jobs), None)
    return throughput, residence


def _linearizer(problem: _Problem) -> tuple[Array, Array]:
    jobs = problem.jobs
    classes, stations = problem.demands_s.shape
    change = np.zeros((classes, stations, classes))
    queue = problem.spread(jobs)
    fewer = [np.maximum(jobs - np.eye(classes)[d], 0.0) for d in range(classes)]
    queues = [problem.spread(n) for n in fewer]
    for _ in range(LINEARIZER_ROUNDS):
        queue, _, _ = problem.core(jobs, queue, change)
        queues = [problem.core(n, q, change)[0] for n, q in zip(fewer, queues, strict=True)]
        share = queue / np.maximum(jobs, 1.0)[:, None]
        for d, (n, q) in enumerate(zip(fewer, queues, strict=True)):
            there = q / np.maximum(n, 1.0)[:, None]
            # A class that has no job left has no shares to speak of.
            change[:, :, d] = np.where((n > 0)[:, None], there - share, 0.0)
    _, throughput, residence = problem.core(jobs, queue, change)
    return throughput, residence


def _solve(network: Network, method: Method, solver: Callable[[_Problem], tuple[Array, Array]]) -> Solution:
    checked(network)
    closed = network.closed_classes
    if not closed:
        raise ExperimentError(
            "the approximation takes one closed class or more",
            where="--method",
            advice="--method exact: open classes have a closed form",
        )
    queued = [k for k, s in enumerate(network.stations) if s.kind == "queue"]
    servers = np.array([s.servers for s in network.stations], dtype=np.float64)
    free = np.array(
        [1.0 if s.kind == "delay" else 1.0 - network.open_load(s) / s.servers for s in network.stations]
    )
    whole = np.array([[network.demand_s(c.name, s.name) for s in network.stations] for c in closed])
    delay = np.array([[s.kind == "delay" for s in network.stations]])
    on_one = np.where(delay, 0.0, whole / servers / free)
    waiting_less = np.where(delay, whole, whole * (servers - 1) / servers)
    think = np.array([c.think_time_s for c in closed]) + waiting_less.sum(axis=1)
    jobs = np.array([c.population for c in closed], dtype=np.float64)
    throughput, residence = solver(_Problem(on_one[:, queued], think, jobs))
    complete = waiting_less.copy()
    complete[:, queued] += residence
    lengths = np.zeros(len(network.stations))
    lengths[queued] = (throughput[:, None] * residence).sum(axis=0)
    xs = {c.name: float(x) for c, x in zip(closed, throughput, strict=True)}
    rs = {c.name: [float(r) for r in row] for c, row in zip(closed, complete, strict=True)}
    for o in network.open_classes:
        xs[o.name] = o.rate_per_s
        rs[o.name] = [
            d
            if s.kind == "delay"
            else d * (s.servers - 1) / s.servers + d / s.servers * (1.0 + float(lengths[k])) / float(free[k])
            for k, s in enumerate(network.stations)
            for d in [network.demand_s(o.name, s.name)]
        ]
    return composed(network, method, xs, rs)
