"""Networks of open classes only, solved exactly: every station is an M/M/m queue of its own."""

from __future__ import annotations

from iodyno.analysis.queueing.erlang import erlang_c
from iodyno.analysis.queueing.networks.solution import Method, Solution, composed
from iodyno.core.errors import ExperimentError
from iodyno.core.network import Network, Station, checked

METHOD = Method(
    "open product form",
    True,
    "Jackson 1963; Baskett, Chandy, Muntz and Palacios 1975; multi-server stations by Erlang C",
)


def solve_open(network: Network) -> Solution:
    """Solves a network without closed classes. Raises ExperimentError where one is closed, or a station unstable.

    Residence at a queue with m servers and offered load a: D (1 + C(m, a) / (m - a)), with Erlang's C; classes of
    one station wait alike in proportion to their demands (BCMP theorem). A rate of 0 gives what a lone job sees.
    """
    checked(network)
    if network.closed_classes:
        name = network.closed_classes[0].name
        raise ExperimentError(f"the class {name!r} is closed; expected open classes", where="classes")
    stretch = [
        1.0 if station.kind == "delay" else _stretch(station, network.open_load(station))
        for station in network.stations
    ]
    rates = {c.name: c.rate_per_s for c in network.open_classes}
    residence = {
        name: [network.demand_s(name, s.name) * f for s, f in zip(network.stations, stretch, strict=True)]
        for name in rates
    }
    return composed(network, METHOD, rates, residence)


def _stretch(station: Station, load: float) -> float:
    """Residence time over demand in M/M/m with the offered load."""
    return 1.0 + erlang_c(station.servers, load) / (station.servers - load)
