"""120 random networks, solved once by the package `queueing` of GNU Octave (`queueing/generate.m`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iodyno.analysis.queueing.networks.solve import solve
from iodyno.core.network import Class, ClosedClass, Demand, Network, OpenClass, Station

MODELS = json.loads((Path(__file__).parent / "queueing" / "networks.json").read_text(encoding="utf-8"))


def listed(value: Any) -> list[Any]:
    """Octave writes a list of one as its element."""
    return value if isinstance(value, list) else [value]


def rows(value: Any, stations: int) -> list[list[float]]:
    """Class x station, also where one of them is one."""
    found = [listed(row) for row in listed(value)]
    return found if all(len(row) == stations for row in found) else [[cell for row in found for cell in row]]


def network_of(model: dict[str, Any]) -> Network:
    servers = listed(model["m"])
    stations = tuple(
        Station(f"s{k}", "delay" if m == 0 else "queue", max(m, 1), "ps") for k, m in enumerate(servers)
    )
    service, visits = rows(model["S"], len(servers)), rows(model["V"], len(servers))
    jobs, rates = listed(model.get("N", [0] * len(service))), listed(model.get("lambda", [0] * len(service)))
    think = listed(model.get("Z", [0] * len(service)))
    classes: list[Class] = [
        OpenClass(f"c{c}", rates[c]) if not jobs[c] else ClosedClass(f"c{c}", jobs[c], think[c])
        for c in range(len(service))
    ]
    demands = {
        f"c{c}": {f"s{k}": Demand(service[c][k], visits[c][k]) for k in range(len(servers))}
        for c in range(len(service))
    }
    return Network(stations, tuple(classes), demands)


def test_there_are_models_of_every_kind() -> None:
    networks = [network_of(model) for model in MODELS]
    assert len(networks) >= 120
    assert sum(not n.open_classes for n in networks) >= 60
    assert sum(not n.closed_classes for n in networks) >= 30
    assert sum(bool(n.open_classes and n.closed_classes) for n in networks) >= 20
    assert sum(any(s.servers > 1 for s in n.stations) for n in networks) >= 30


@pytest.mark.parametrize("block", range(6))
def test_octave_and_we_agree(block: int) -> None:
    for model in MODELS[block::6]:
        network = network_of(model)
        solution = solve(network, "exact")
        assert solution.method.exact
        kinds = len(network.stations)
        for c, (xs, rs, qs) in enumerate(
            zip(rows(model["X"], kinds), rows(model["R"], kinds), rows(model["Q"], kinds), strict=True)
        ):
            found = solution.classes[c]
            for k, station in enumerate(network.stations):
                share = found.at[station.name]
                visits = network.demands[found.name][station.name].visits
                # A millionth is the bar; ours and theirs differ by rounding only.
                assert found.throughput_per_s == pytest.approx(xs[k], rel=1e-9)
                assert share.residence_time_s / visits == pytest.approx(rs[k], rel=1e-9)
                assert share.queue_length == pytest.approx(qs[k], rel=1e-9)
