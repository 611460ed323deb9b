"""Chooses how a network is solved: exactly wherever that can be afforded, and says so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from iodyno.analysis.queueing.networks.mva import MAX_CELLS, affordable_mva, solve_mva, solve_one_class
from iodyno.analysis.queueing.networks.open_network import solve_open
from iodyno.analysis.queueing.networks.solution import Solution
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.network import Network, checked

How = Literal["auto", "exact", "approximate", "schweitzer", "linearizer"]
METHODS: tuple[How, ...] = ("auto", "exact", "approximate", "schweitzer", "linearizer")


def solve(network: Network, how: How = "auto") -> Solution:
    """Solves the network.

    `exact`: open networks in closed form; one class by MVA or, with multi-server stations, by convolution.
    `approximate` is Linearizer. `auto` is exact while that takes seconds, and approximate beyond.
    Raises ExperimentError for a network that makes no sense, or a method that it has not.
    """
    checked(network)
    closed = network.closed_classes
    if how not in METHODS:
        raise ExperimentError(invalid(how, ", ".join(METHODS)), where="--method")
    if not closed and how in ("auto", "exact"):
        return solve_open(network)
    if how == "auto":
        how = "exact" if _affordable(network) else "linearizer"
    if how == "exact":
        if _multi_server(network):
            from iodyno.analysis.queueing.networks.convolution import solve_convolution

            return solve_convolution(network)
        return solve_mva(network)
    from iodyno.analysis.queueing.networks.approximate import solve_linearizer, solve_schweitzer

    solver: Callable[[Network], Solution] = solve_schweitzer if how == "schweitzer" else solve_linearizer
    return solver(network)


def solve_sweep(networks: Sequence[Network], how: How = "auto") -> list[Solution]:
    """Solves networks that differ in the populations or the rates of their classes only, in their order.

    Where populations change, one pass gives all of them. Raises ExperimentError as `solve` does.
    """
    first = networks[0]
    one_pass = (
        len(networks) > 1
        and first.closed_classes
        and all(n.open_classes == first.open_classes and n.demands == first.demands for n in networks)
    )
    if how in ("auto", "exact") and one_pass:
        for network in networks:
            checked(network)
        if len(first.classes) == 1 and not _multi_server(first):
            return solve_one_class(first, [n.closed_classes[0].population for n in networks])
        from iodyno.analysis.queueing.networks.convolution import affordable, solve_populations

        populations = [tuple(c.population for c in n.closed_classes) for n in networks]
        largest = [max(at) for at in zip(*populations, strict=True)]
        if how == "exact" or affordable(first, largest):
            return solve_populations(first, populations)
    return [solve(network, how) for network in networks]


def _multi_server(network: Network) -> bool:
    return any(s.kind == "queue" and s.servers > 1 for s in network.stations)


def _affordable(network: Network) -> bool:
    populations = [c.population for c in network.closed_classes]
    if _multi_server(network):
        from iodyno.analysis.queueing.networks.convolution import affordable

        return affordable(network, populations)
    if len(populations) == 1:
        return affordable_mva(network, populations[0])
    return math.prod(n + 1 for n in populations) * len(network.stations) <= MAX_CELLS
