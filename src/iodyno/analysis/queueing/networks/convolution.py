"""Exact solution of closed and mixed networks with multi-server stations, by convolution of logarithms.

The product form's normalising constants G are built station by station (Buzen, Computational algorithms for
closed queueing networks with exponential servers, CACM 16, 1973). How a station enters is derived here:

A station of m servers contributes sum_n y^n / beta(n), with y = sum of D_c z_c over the closed classes, z_c
marking a job of class c, and beta(n) = n! up to m and m! m^(n-m) beyond. As the terms are geometric from m on,
the sum is A(y) / (1 - y/m) with the polynomial A(y) = sum over j < m of (1 - j/m) y^j / j!. Open classes that
offer the load a replace y by y + a, which gives B(y) / (1 - y/(m-a)) with B(y) = A(y + a). Every coefficient
is positive: G needs sums of positive terms only, nothing cancels, and no probability is had as 1 - sum, which
is what ruins load-dependent mean value analysis. A station costs m steps over the table of G (Horner's scheme)
instead of a full convolution.

With F(y) for a station and L = F'(y) times the G of all the others: throughput X_c = G(N - 1_c) / G(N), number
of a closed class at the station D_c L(N - 1_c) / G(N), of an open class its load times L(N) / G(N).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iodyno.analysis.queueing.networks.solution import Method, Solution, composed
from iodyno.core.errors import ExperimentError
from iodyno.core.network import ClosedClass, Network, Station, checked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Table = NDArray[np.float64]
    """Logarithms, one axis a closed class, from 0 jobs to its population."""

METHOD = Method("convolution", True, "Buzen 1973, logarithms, geometric tails")
MAX_STEPS = 100_000_000
"""Additions of logarithms (chosen: a few seconds)."""
MAX_CELLS = 50_000_000
"""Numbers that are kept at a time (chosen: 400 MB)."""


@dataclass(frozen=True)
class _Server:
    """A queue as it enters: log-coefficients of B, the ratio of its tail, and log demands of the closed classes."""

    coefficients: Table
    log_ratio: float
    log_demands: tuple[float, ...]


def solve_convolution(network: Network) -> Solution:
    """Solves any network that has closed classes, exactly. Raises ExperimentError where it would take minutes."""
    return solve_populations(network, [tuple(c.population for c in network.closed_classes)])[0]


def steps(network: Network, populations: Sequence[int]) -> int:
    """Additions of logarithms that `solve_populations` makes: what decides whether it can be afforded."""
    queues = [s for s in network.stations if s.kind == "queue"]
    cells = math.prod(n + 1 for n in populations)
    # A row costs as much as some hundred cells of it, whatever its length.
    rows = 100 * (cells // (max(populations) + 1))
    several = [s.servers for s in queues if s.servers > 1]
    polynomials = sum(s.servers for s in queues) + len(several) * sum(several)
    tails = 2 * len(queues) + len(several) ** 2
    return len(populations) * (cells * polynomials + (cells + rows) * tails)


def affordable(network: Network, populations: Sequence[int]) -> bool:
    """Tell whether the exact solution takes seconds, and has room in memory."""
    return steps(network, populations) <= MAX_STEPS and _cells(network, populations) <= MAX_CELLS


def _cells(network: Network, populations: Sequence[int]) -> int:
    return math.prod(n + 1 for n in populations) * (len(network.stations) + 3)


def solve_populations(network: Network, populations: Sequence[tuple[int, ...]]) -> list[Solution]:
    """The network at several populations of its closed classes, from one table of constants."""
    checked(network)
    closed = network.closed_classes
    if not closed:
        raise ExperimentError("convolution takes one closed class or more", where="classes")
    largest = tuple(max(p[c] for p in populations) for c in range(len(closed)))
    if not affordable(network, largest):
        needed, kept = steps(network, largest), _cells(network, largest)
        raise ExperimentError(
            f"the exact solution takes {needed:.2g} steps and {kept:.2g} numbers; expected "
            f"{MAX_STEPS:.2g} and {MAX_CELLS:.2g} at most",
            where="--method",
            advice="--method approximate, or smaller populations",
        )
    return _Convolution(network, largest).solutions(populations)


class _Convolution:
    """The tables of one network; demands are scaled so that the constants grow slowly."""

    def __init__(self, network: Network, largest: tuple[int, ...]) -> None:
        self.network = network
        # The longest axis is the last: that one is gone through at once (`_tail`).
        self.order = sorted(range(len(largest)), key=largest.__getitem__)
        self.closed = [network.closed_classes[at] for at in self.order]
        largest = tuple(largest[at] for at in self.order)
        self.queues = [s for s in network.stations if s.kind == "queue"]
        self.scale_s = [self._scale(c.name, c.think_time_s) for c in self.closed]
        self.servers = [self._server(s) for s in self.queues]
        self.start = self._delays(largest)
        base = self.start
        for server in self.servers:
            if len(server.coefficients) == 1:
                base = self._with(base, server)
        self.single = base
        for server in self.servers:
            if len(server.coefficients) > 1:
                base = self._with(base, server)
        self.total = base

    def solutions(self, populations: Sequence[tuple[int, ...]]) -> list[Solution]:
        """One solution a population."""
        derived = [self._derived(k) for k in range(len(self.queues))]
        return [self._solution(tuple(p[at] for at in self.order), derived) for p in populations]

    def _scale(self, name: str, think_s: float) -> float:
        """The largest demand on one server, or what is spent in delays where there is no other."""
        at_queues = [
            self.network.demand_s(name, s.name) / (s.servers - self.network.open_load(s)) for s in self.queues
        ]
        return max(at_queues, default=0.0) or self._delay_s(name) + think_s

    def _delay_s(self, name: str) -> float:
        return math.fsum(
            self.network.demand_s(name, s.name) for s in self.network.stations if s.kind == "delay"
        )

    def _server(self, station: Station) -> _Server:
        demands = tuple(
            _log(self.network.demand_s(c.name, station.name) / scale)
            for c, scale in zip(self.closed, self.scale_s, strict=True)
        )
        load = self.network.open_load(station)
        return _Server(_coefficients(station.servers, load), -math.log(station.servers - load), demands)

    def _delays(self, largest: tuple[int, ...]) -> Table:
        """All delays and think times together: product of Z_c^n / n!."""
        table = np.zeros([n + 1 for n in largest])
        for axis, (entry, scale, most) in enumerate(zip(self.closed, self.scale_s, largest, strict=True)):
            whole = (entry.think_time_s + self._delay_s(entry.name)) / scale
            n = np.arange(most + 1)
            logs = np.full(most + 1, -np.inf)
            logs[0] = 0.0
            if whole > 0:
                # A sum of logarithms, for it is nearer the truth than a difference of large ones.
                logs[1:] = np.cumsum(math.log(whole) - np.log(n[1:]))
            shape = [1] * len(largest)
            shape[axis] = most + 1
            table = table + logs.reshape(shape)
        return table

    def _with(self, table: Table, server: _Server) -> Table:
        """The table with one more station: B(y) times it, over 1 - y/(m-a)."""
        return _tail(_polynomial(server.coefficients, table, server.log_demands), server)

    def _derived(self, k: int) -> Table:
        """L of a station: (B'(y) times the others' table + all / (m-a)) over 1 - y/(m-a)."""
        server = self.servers[k]
        part = self.total + server.log_ratio
        if len(server.coefficients) > 1:
            others = self.single
            for at, other in enumerate(self.servers):
                if at != k and len(other.coefficients) > 1:
                    others = self._with(others, other)
            j = np.arange(1, len(server.coefficients))
            slope = server.coefficients[1:] + np.log(j)
            part = np.logaddexp(part, _polynomial(slope, others, server.log_demands))
        return _tail(part, server)

    def _solution(self, population: tuple[int, ...], derived: Sequence[Table]) -> Solution:
        network = self.network
        whole = self.total[population]
        throughput: dict[str, float] = {c.name: c.rate_per_s for c in network.open_classes}
        at_queues: dict[str, list[float]] = {}
        for axis, entry in enumerate(self.closed):
            less = tuple(n - (at == axis) for at, n in enumerate(population))
            throughput[entry.name] = _exp(self.total[less] - whole) / self.scale_s[axis]
            # Number there over throughput, in which G(N) cancels.
            at_queues[entry.name] = [
                _exp(server.log_demands[axis] + table[less] - self.total[less]) * self.scale_s[axis]
                for server, table in zip(self.servers, derived, strict=True)
            ]
        residence: dict[str, list[float]] = {}
        for c in network.classes:
            queues = iter(range(len(self.queues)))
            row = []
            for station in network.stations:
                demand = network.demand_s(c.name, station.name)
                if station.kind == "delay":
                    row.append(demand)
                    continue
                k = next(queues)
                closed = at_queues.get(c.name)
                row.append(demand * _exp(derived[k][population] - whole) if closed is None else closed[k])
            residence[c.name] = row
        at_population = dict(zip(self.closed, population, strict=True))
        solved = replace(
            network,
            classes=tuple(
                replace(c, population=at_population[c]) if isinstance(c, ClosedClass) else c
                for c in network.classes
            ),
        )
        return composed(solved, METHOD, throughput, residence)


def _coefficients(servers: int, load: float) -> Table:
    """Logarithms of the coefficients of B(y) = A(y + a); A's are (1 - j/m) / j!."""
    j = np.arange(servers)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(j[1:])))) if servers > 1 else np.zeros(1)
    a = np.log1p(-j / servers) - log_factorial
    if load <= 0:
        return a
    log_load = math.log(load)
    shifted = np.empty(servers)
    for low in range(servers):
        i = np.arange(low, servers)
        terms = (
            a[low:] + log_factorial[low:] - log_factorial[low] - log_factorial[i - low] + (i - low) * log_load
        )
        shifted[low] = np.logaddexp.reduce(terms)
    return shifted


def _polynomial(coefficients: Table, table: Table, log_demands: Sequence[float]) -> Table:
    """A polynomial in y times the table, by Horner's scheme."""
    result: Table = table + coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        result = np.logaddexp(table + coefficient, _times_y(result, log_demands))
    return result


def _times_y(table: Table, log_demands: Sequence[float]) -> Table:
    """y times the table: the sum over classes of D_c times the table with one job of c less."""
    result = np.full_like(table, -np.inf)
    for axis, log_demand in enumerate(log_demands):
        if log_demand == -math.inf:
            continue
        to: list[slice] = [slice(None)] * table.ndim
        of: list[slice] = [slice(None)] * table.ndim
        to[axis], of[axis] = slice(1, None), slice(None, -1)
        result[tuple(to)] = np.logaddexp(result[tuple(to)], table[tuple(of)] + log_demand)
    return result


def _tail(table: Table, server: _Server) -> Table:
    """The table over 1 - y/(m-a): H(n) = T(n) + sum over classes of D_c/(m-a) H(n - 1_c).

    Along the last axis that is a running sum; the other axes are gone through row by row.
    """
    result = table.copy()
    *outer, last = (d + server.log_ratio for d in server.log_demands)
    powers = last * np.arange(table.shape[-1]) if last != -math.inf else None
    for row in itertools.product(*(range(n) for n in table.shape[:-1])):
        for axis, log_demand in enumerate(outer):
            if row[axis] > 0 and log_demand != -math.inf:
                before = (*row[:axis], row[axis] - 1, *row[axis + 1 :])
                result[row] = np.logaddexp(result[row], result[before] + log_demand)
        if powers is not None:
            result[row] = powers + np.logaddexp.accumulate(result[row] - powers)
    return result


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _exp(value: float) -> float:
    return math.exp(value) if value > -math.inf else 0.0
