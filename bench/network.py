"""Bulk TCP and TCP requests beside the tools that people use, between the same two namespaces with the same pinning.

Every cell alternates: each of ours, then each of the peers, again and again. Bulk is metered from outside both
(`bench.meter`). Exchanges are counted by whoever makes them, because no counter outside sees an exchange; ours are those
of the measured window.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence

from bench import peers
from bench.iperf3 import Pair
from bench.meter import Metered, measure
from bench.ratio import paired
from bench.rig import open_rig, trial
from iodyno.campaign.rig import Rig
from iodyno.core.workload import Level

SIZES = (1024, 8192, 65536)
CONNECTIONS = (1, 4, 32, 100, 1000)
FLOWS = (1, 16, 64)
SECONDS = 2.5
EXCHANGE_BYTES = 64

_BULK: Mapping[str, Mapping[str, Level]] = {
    "threads": {"driver": "threads"},
    "epoll": {"driver": "epoll"},
    "io_uring": {"driver": "io_uring"},
    "splice": {"driver": "epoll", "interface": "splice"},
    "cork": {"driver": "epoll", "cork": True},
}
"""Ours. The first two make the peers' own calls; with the others, it is what iodyno can do besides."""
_SAME = ("threads", "epoll")
_EXCHANGES: Mapping[str, Mapping[str, Level]] = {
    name: {"driver": name, "nagle": False} for name in ("threads", "epoll", "io_uring")
}

Rows = list[dict[str, object]]


def cells() -> list[str]:
    """The name of every cell: `bulk-SIZExCONNECTIONS`, `rr-FLOWS`."""
    bulk = [f"bulk-{size}x{connections}" for size in SIZES for connections in CONNECTIONS]
    return [*bulk, *(f"rr-{flows}" for flows in FLOWS)]


async def _peer_bulk(pair: Pair, load: peers.Bulk, connections: int, size: int) -> Metered:
    with load(pair, connections, size, SECONDS + 0.6):
        await asyncio.sleep(0.5)
        return await asyncio.to_thread(measure, pair.server, pair.device, SECONDS * 0.8)


def _best(
    values: Mapping[str, Sequence[float]], names: Sequence[str], better: Callable[..., str] = max
) -> str:
    """Who of `names` has the best median."""
    return better(names, key=lambda name: statistics.median(values[name]))


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*paired(ours, theirs))


async def _bulk(rig: Rig, pair: Pair, size: int, connections: int, pairs: int) -> Rows:
    found: dict[str, list[Metered]] = {}
    there = {
        name: peer
        for name, peer in peers.BULK.items()
        if peer.found() and connections <= peer.most_connections
    }
    for _ in range(pairs):
        for name, how in _BULK.items():
            settings = {"connections": connections, "size": size, **how}
            found.setdefault(name, []).append((await trial(rig, pair, settings, SECONDS)).metered)
        for name, peer in there.items():
            found.setdefault(name, []).append(await _peer_bulk(pair, peer.load, connections, size))
    rates = {name: [m.gbit_per_s for m in metered] for name, metered in found.items()}
    costs = {name: [m.cpu_s_per_gb for m in metered] for name, metered in found.items()}
    medians = {name: round(statistics.median(rates[name]), 1) for name in rates}
    row: dict[str, object] = {"cell": f"bulk-{size}x{connections}", "unit": "Gbit/s", **medians}
    if there:
        peer, same, best = _best(rates, list(there)), _best(rates, _SAME), _best(rates, list(_BULK))
        cheap = _best(costs, list(there), min)
        row |= {
            "peer": peer,
            "same_calls": f"{same} {_ratio(rates[same], rates[peer])}",
            "cpu_s_per_gb": _ratio(costs[same], costs[cheap]),
            "best": f"{best} {_ratio(rates[best], rates[peer])}",
        }
    return [row]


async def _exchanges(rig: Rig, pair: Pair, flows: int, pairs: int) -> Rows:
    found: dict[str, list[float]] = {}
    there = {
        name: peer for name, peer in peers.EXCHANGES.items() if peer.found() and flows <= peer.most_flows
    }
    for _ in range(pairs):
        for name, how in _EXCHANGES.items():
            settings = {"connections": flows, "size": EXCHANGE_BYTES, "answer": EXCHANGE_BYTES, **how}
            done = await trial(rig, pair, settings, SECONDS)
            measured = [r for r in done.records["client"] if r["window"] == "measured"]
            span_ns = measured[-1]["end_ns"] - measured[0]["begin_ns"]
            found.setdefault(name, []).append(sum(r["load"]["operations"] for r in measured) / span_ns * 1e9)
        for name, peer in list(there.items()):
            try:
                rate = await asyncio.to_thread(peer.rate, pair, flows, EXCHANGE_BYTES, SECONDS)
            except RuntimeError as problem:
                # A peer that cannot do this cell is left out of it, and said to be.
                print(f"{name} is left out of rr-{flows}: {str(problem).splitlines()[-1]}", file=sys.stderr)
                del there[name]
                found.pop(name, None)
                continue
            found.setdefault(name, []).append(rate)
    row: dict[str, object] = {"cell": f"rr-{flows}", "unit": "1/s"}
    row |= {name: round(statistics.median(rates)) for name, rates in found.items()}
    if there:
        peer, same, best = _best(found, list(there)), _best(found, _SAME), _best(found, list(_EXCHANGES))
        row |= {
            "peer": peer,
            "same_calls": f"{same} {_ratio(found[same], found[peer])}",
            "best": f"{best} {_ratio(found[best], found[peer])}",
        }
    return [row]


async def run(pairs: int, chosen: Sequence[str] = ()) -> Rows:
    """Goodput, CPU and exchanges a second beside the best peer of each cell; `--cells` takes a part."""
    names = list(chosen) or cells()
    if unknown := [name for name in names if name not in cells()]:
        raise SystemExit(f"bench: no cell is called {unknown[0]}; there are {', '.join(cells())}")
    rows: Rows = []
    for kind, workload in (("bulk", "stream"), ("rr", "request_response")):
        mine = [name for name in names if name.startswith(kind)]
        if not mine:
            continue
        async with open_rig(workload) as (rig, pair):
            for name in mine:
                if kind == "bulk":
                    size, connections = (int(part) for part in name.removeprefix("bulk-").split("x"))
                    rows += await _bulk(rig, pair, size, connections, pairs)
                else:
                    rows += await _exchanges(rig, pair, int(name.removeprefix("rr-")), pairs)
                # It takes minutes: each cell is shown when it is known.
                print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), file=sys.stderr)
    return _even(rows)


def _even(rows: Rows) -> Rows:
    """Every row with every column."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name, "") for name in columns} for row in rows]
