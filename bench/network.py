"""Bulk TCP, requests and datagrams beside the tools that people use, between the same two namespaces with the same pinning.

Every cell alternates: each of ours, then each of the peers, again and again. Bulk is metered from outside both
(`bench.meter`). Exchanges and datagrams are counted by whoever makes them, because no counter outside sees them; ours
are those of the measured window. Our agents read no sensors and take no call stacks meanwhile, as the peers do not either:
what those take is the comparison `sensors`. What was measured is kept in a file after each cell (`--keep`), so that the
next call measures only what is not there; what it comes to, against the bars, is `bench.network_figures`.
"""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench import peers
from bench.iperf3 import Pair
from bench.meter import measure
from bench.network_figures import CONNECTIONS, FLOWS, SIZES, Cell, figures
from bench.testbed import open_testbed, trial
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import IodynoError
from iodyno.core.workload import Level

SECONDS = 2.5
"""Of a load. The peers of Debian take whole seconds in part: theirs are rounded."""
EXCHANGE_BYTES = 64
ATTEMPTS = 4
"""Of a peer. Clients of nuttcp come to data ports that its server may not have opened yet, and give up."""

Settings = Mapping[str, Level]

BATCH_BYTES = 65536
"""Of one call of a batch. chosen: tried at 1 and 8 KiB, calls of 256 KiB carried less."""
_SAME: Mapping[str, Settings] = {
    "threads": {"engine": "threads"},
    "epoll": {"engine": "epoll"},
    "round robin": {"engine": "round_robin"},
}
_SMALL: Mapping[str, Settings] = {
    **_SAME,
    "batch": {"engine": "epoll", "syscalls": "batch"},
    "batch, io_uring": {"engine": "io_uring", "syscalls": "batch"},
    "batch, discard": {"engine": "epoll", "syscalls": "batch", "receive": "discard"},
}
_LARGE: Mapping[str, Settings] = {
    **_SAME,
    "io_uring": {"engine": "io_uring"},
    "discard": {"engine": "epoll", "receive": "discard"},
}


def bulk(size: int) -> Mapping[str, Settings]:
    """Ours, for messages of `size` bytes. What `bench.network_figures.SAME` names makes the peers' own calls; the others are
    what iodyno can do besides: fewer system calls, or a copy less.

    Left out is what was best in no cell that was tried: corking, sendfile, splice, a low-water mark, and io_uring with a
    call for each small message. A message of 64 KiB is a batch by itself.
    """
    chosen = _SMALL if size < BATCH_BYTES else _LARGE
    return {name: {"batch": max(1, BATCH_BYTES // size), **how} for name, how in chosen.items()}


TCP_RR: Mapping[str, Settings] = {
    **{name: {"engine": name, "nagle": False} for name in ("threads", "epoll", "io_uring")},
    "epoll, busy_wait": {"engine": "epoll", "nagle": False, "busy_wait": True},
}
UDP_RR: Mapping[str, Settings] = {
    "threads": {"engine": "threads"},
    "epoll": {"client_engine": "epoll", "server_engine": "epoll"},
    "io_uring": {"client_engine": "io_uring", "server_engine": "io_uring"},
    "epoll, busy_wait": {"client_engine": "epoll", "server_engine": "epoll", "busy_wait": True},
    "recvmmsg": {"client_engine": "recvmmsg", "server_engine": "recvmmsg", "batch": 64},
    "packet_v2": {"client_engine": "recvmmsg", "server_engine": "packet_v2", "batch": 64},
    "xdp": {"client_engine": "recvmmsg", "server_engine": "xdp", "batch": 64},
    "xdp both": {"client_engine": "xdp", "server_engine": "xdp"},
    "xdp both, busy_wait": {"client_engine": "xdp", "server_engine": "xdp", "busy_wait": True},
}
UDP_SEND: Mapping[str, Settings] = {
    "read_write": {"engine": "threads"},
    "batch": {"engine": "threads", "syscalls": "batch", "batch": 64},
    "segments": {"engine": "threads", "syscalls": "segments", "batch": 64},
    "xdp": {"client_engine": "xdp"},
}

Rows = list[dict[str, object]]


def cells() -> list[str]:
    """The name of every cell: `bulk-SIZExCONNECTIONS`, `tcp-rr-FLOWS`, `udp-rr-FLOWS`, `udp-send-64`."""
    bulk = [f"bulk-{size}x{connections}" for size in SIZES for connections in CONNECTIONS]
    exchanges = [f"{transport}-rr-{flows}" for transport in ("tcp", "udp") for flows in FLOWS]
    return [*bulk, *exchanges, "udp-send-64"]


@dataclass(frozen=True)
class _Side:
    """One who takes part in a cell: measures once, and says what came of it by quantity."""

    name: str
    once: Callable[[], Awaitable[dict[str, float]]]


def _bulk(testbed: Testbed, pair: Pair, size: int, connections: int) -> tuple[list[_Side], list[_Side]]:
    async def ours(how: Settings) -> dict[str, float]:
        done = await trial(testbed, pair, {"connections": connections, "size": size, **how}, SECONDS)
        return {"rate": done.metered.gbit_per_s, "cost": done.metered.cpu_s_per_gb}

    async def theirs(load: peers.Bulk) -> dict[str, float]:
        for attempt in range(ATTEMPTS):
            try:
                with load(pair, connections, size, SECONDS + 1.0):
                    await asyncio.sleep(0.4)
                    metered = await asyncio.to_thread(measure, pair.server, pair.device, SECONDS * 0.8)
                break
            except RuntimeError:
                if attempt + 1 == ATTEMPTS:
                    raise
        return {"rate": metered.gbit_per_s, "cost": metered.cpu_s_per_gb}

    there = {name: peer for name, peer in peers.BULK.items() if peer.found()}
    return (
        [_Side(name, lambda how=how: ours(how)) for name, how in bulk(size).items()],  # type: ignore[misc]
        [_Side(name, lambda load=peer.load: theirs(load)) for name, peer in there.items()],  # type: ignore[misc]
    )


def _counted(
    testbed: Testbed, pair: Pair, ways: Mapping[str, Settings], common: Settings
) -> tuple[list[_Side], Callable[[Settings], Awaitable[dict[str, float]]]]:
    async def ours(how: Settings) -> dict[str, float]:
        done = await trial(testbed, pair, {**common, **how}, SECONDS)
        measured = [r for r in done.records["client"] if r["window"] == "measured"]
        span_ns = measured[-1]["end_ns"] - measured[0]["begin_ns"]
        return {"rate": sum(r["load"]["operations"] for r in measured) / span_ns * 1e9}

    return [_Side(name, lambda how=how: ours(how)) for name, how in ways.items()], ours  # type: ignore[misc]


def _exchanges(testbed: Testbed, pair: Pair, transport: str, flows: int) -> tuple[list[_Side], list[_Side]]:
    common: Settings = {
        "transport": transport,
        "connections": flows,
        "size": EXCHANGE_BYTES,
        "response_size": EXCHANGE_BYTES,
    }
    mine, _ = _counted(testbed, pair, TCP_RR if transport == "tcp" else UDP_RR, common)

    async def theirs(rate: Callable[[Pair, str, int, int, float], float]) -> dict[str, float]:
        return {"rate": await asyncio.to_thread(rate, pair, transport, flows, EXCHANGE_BYTES, SECONDS)}

    there = {name: peer for name, peer in peers.EXCHANGES.items() if peer.found()}
    return mine, [_Side(name, lambda rate=peer.rate: theirs(rate)) for name, peer in there.items()]  # type: ignore[misc]


def _sending(testbed: Testbed, pair: Pair) -> tuple[list[_Side], list[_Side]]:
    mine, _ = _counted(testbed, pair, UDP_SEND, {"transport": "udp", "connections": 1, "size": 64})

    async def theirs(rate: Callable[[Pair, int, float], float]) -> dict[str, float]:
        return {"rate": await asyncio.to_thread(rate, pair, 64, SECONDS)}

    there = {name: peer for name, peer in peers.DATAGRAMS.items() if peer.found()}
    return mine, [_Side(name, lambda rate=peer.rate: theirs(rate)) for name, peer in there.items()]  # type: ignore[misc]


async def _alternate(ours: Sequence[_Side], theirs: Sequence[_Side], pairs: int) -> dict[str, Any]:
    """What each side came to, time by time. A side that cannot do the cell is left out of it, with its reason."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {"ours": {}, "peers": {}}
    refused: dict[str, str] = {}
    for _ in range(pairs):
        for kind, sides in (("ours", ours), ("peers", theirs)):
            for side in sides:
                if side.name in refused:
                    continue
                try:
                    values = await side.once()
                except (IodynoError, RuntimeError, OSError, subprocess.SubprocessError) as problem:
                    refused[side.name] = " ".join(str(problem).split())[-300:]
                    found[kind].pop(side.name, None)
                    print(f"  {side.name} is left out: {refused[side.name]}", file=sys.stderr)
                    continue
                into = found[kind].setdefault(side.name, {})
                for quantity, value in values.items():
                    into.setdefault(quantity, []).append(value)
    return {**found, "refused": refused, "pairs": pairs}


async def _cell(name: str, pairs: int) -> dict[str, Any]:
    kind, _, rest = name.partition("-")
    workload = "stream" if kind == "bulk" or name.startswith("udp-send") else "request_response"
    async with open_testbed(workload) as (testbed, pair):
        testbed.experiment = replace(testbed.experiment, profile_hz=0, sensors=())
        if kind == "bulk":
            size, connections = (int(part) for part in rest.split("x"))
            sides = _bulk(testbed, pair, size, connections)
        elif workload == "stream":
            sides = _sending(testbed, pair)
        else:
            sides = _exchanges(testbed, pair, kind, int(rest.removeprefix("rr-")))
        return await _alternate(*sides, pairs)


def _kept(keep: Path | None) -> dict[str, Any]:
    if keep is None or not keep.exists():
        return {"machine": platform.platform(), "cells": {}}
    try:
        found: dict[str, Any] = json.loads(keep.read_text())
        found["cells"].items()
    except (ValueError, KeyError, AttributeError, TypeError):
        raise SystemExit(
            f"bench: {keep} is no file of this comparison; name another one with --keep"
        ) from None
    if found.get("machine") != platform.platform():
        raise SystemExit(f"bench: {keep} is of another machine ({found.get('machine')}); name another --keep")
    return found


async def run(pairs: int, chosen: Sequence[str] = (), keep: str | None = None) -> Rows:
    """Goodput, CPU, exchanges and datagrams beside the best peer of each cell, against the bars; `--cells` takes a part."""
    names = list(chosen) or cells()
    if unknown := [name for name in names if name not in cells()]:
        raise SystemExit(f"bench: no cell is called {unknown[0]}; there are {', '.join(cells())}")
    file = Path(keep) if keep else None
    found = _kept(file)
    for name in names:
        if found["cells"].get(name, {}).get("pairs", 0) >= pairs:
            print(f"{name}: kept from before", file=sys.stderr)
            continue
        found["cells"][name] = await _cell(name, pairs)
        if file is not None:
            part = file.with_name(file.name + ".part")
            part.write_text(json.dumps(found, indent=1) + "\n")
            part.replace(file)
        # It takes minutes: each cell is shown when it is known.
        print(f"{name}: {_medians(found['cells'][name])}", file=sys.stderr)
    return figures({name: Cell.of(name, kept) for name, kept in found["cells"].items()})


def _medians(kept: Mapping[str, Any]) -> str:
    sides = {**kept["ours"], **kept["peers"]}
    return ", ".join(f"{name} {statistics.median(values['rate']):.4g}" for name, values in sides.items())
