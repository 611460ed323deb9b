"""`iodyno tcp`, `rr` and `disk` beside the tools that people use: the command against the command.

Each cell alternates: ours, as it comes, then every peer of `bench.peers`, again and again. CPU time is that of the whole
machine, read from outside in the same way for all (`bench.sampler`), over the measured window of ours and over the middle of
a peer's load. Bulk is metered by the bytes that the receiving device counts; exchanges and operations on disks are counted by
whoever makes them, as nothing outside sees them. A cell's cost is busy CPU seconds over what was done meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.peers import (
    BARE,
    BLOCK_BYTES,
    EXCHANGE_BYTES,
    PEERS,
    WORKING_SET_BYTES,
    Asked,
    Command,
    Lines,
    Peer,
)
from bench.ratio import best_by_the_others, middle
from bench.sampler import Sampler, descendants
from bench.testbed import Pair, open_testbed
from iodyno.store.reader import read_rows

SIZES = (1024, 8192, 65536)
CONNECTIONS = (1, 4, 32, 1000)
FLOWS = (1, 16, 64, 1000)
DEPTHS = (1, 32)
SHORT = ("bulk-65536x4",)
"""Cells where none is named and everything short is run."""
SECONDS = 3.0
"""Of a load. Whole, as some peers take no other."""
_SETTLE_S = 1.0
"""Of a peer's load, after all that it needs is there, which is not looked at; ours has its warm-up."""
_LOADED_BYTES_PER_S = 1e6
"""chosen: half of what the slowest load here brings, one exchange of 64 bytes after the other."""
_SPARE_S = 60.0
"""How much longer than told a tool may take before it is left out. chosen: a thousand processes on two CPUs start in 20 s."""
ATTEMPTS = 3
"""Of a peer. Clients of nuttcp come to data ports that its server may not have opened yet, and give up."""

Rows = list[dict[str, object]]
Done = dict[str, float]

MORE: Mapping[str, Mapping[str, Command]] = {
    "bulk": {
        "threads": ["--engine", "threads"],
        "epoll": ["--engine", "epoll"],
        "io_uring": ["--engine", "io_uring"],
        "batch": ["--engine", "epoll", "--syscalls", "batch"],
        "batch, discard": ["--engine", "epoll", "--syscalls", "batch", "--receive", "discard"],
    },
    "rr": {"threads": ["--engine", "threads"], "io_uring": ["--engine", "io_uring"]},
    "disk": {"io_uring": ["--syscalls", "io_uring"]},
}
"""Options of ours that are measured, too, with `--more`: other engines, and fewer system calls or a copy less."""


def cells() -> dict[str, Asked]:
    """Every cell: `bulk-SIZExCONNECTIONS`, `rr-FLOWS`, `disk-READ|WRITE-CACHED|DIRECT-DEPTH`."""
    bulk = {
        f"bulk-{size}x{count}": Asked("bulk", count, SECONDS, size=size)
        for size in SIZES
        for count in CONNECTIONS
    }
    exchanges = {f"rr-{count}": Asked("rr", count, SECONDS) for count in FLOWS}
    disk = {
        f"disk-{'read' if reads else 'write'}-{'direct' if direct else 'cached'}-{depth}": Asked(
            "disk", depth, SECONDS, size=BLOCK_BYTES, reads=reads, direct=direct
        )
        for reads in (True, False)
        for direct in (False, True)
        for depth in DEPTHS
    }
    return {**bulk, **exchanges, **disk}


def ours(asked: Asked, more: Command = ()) -> list[str]:
    """Our command for what is asked, as it comes, with other options behind it."""
    if asked.kind == "disk":
        words = [
            "disk",
            "--target",
            str(asked.target),
            "--size",
            str(WORKING_SET_BYTES),
            "--block",
            str(asked.size),
        ]
        words += ["--queue-depth", str(asked.count), *([] if asked.reads else ["--read", "0%"])]
        words += ["--direct"] if asked.direct else []
    elif asked.kind == "rr":
        sizes = ["--size", str(EXCHANGE_BYTES), "--response-size", str(EXCHANGE_BYTES)]
        words = ["rr", "--connections", str(asked.count), *sizes]
    else:
        words = ["tcp", "--connections", str(asked.count), "--size", str(asked.size)]
    return ["iodyno", *words, *more, "--seconds", f"{asked.seconds:g}", "--repeat", "1", "--json"]


def run_ours(asked: Asked, more: Command = ()) -> Done:
    """Run our command; what it did in its measured window. Raises RuntimeError with its words where it fails."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        command = [sys.executable, "-m", *ours(asked, more), "--into", place]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        found: list[int] = []

        def agents() -> list[int]:
            # Looked for until both ends are there.
            if len(found) < 2:
                found[:] = [
                    pid for pid in descendants(process.pid) if _name_of(pid).startswith("iodyno-agent")
                ]
            return found

        with Sampler(agents if asked.kind == "bulk" else tuple) as sampler:
            try:
                said, complaint = process.communicate(timeout=asked.seconds + _SPARE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise
        if process.returncode:
            raise RuntimeError(f"{shlex.join(ours(asked, more))}: {complaint[-300:]}")
        begin, end = _measured_window(Path(place))
        outcomes = json.loads(said)["points"][0]["outcomes"]
        if asked.kind == "bulk":
            rate = sampler.received_per_s(begin, end)
        else:
            rate = outcomes["iops" if asked.kind == "disk" else "operations_per_s"]["estimate"]
        if not rate:
            raise RuntimeError(f"{shlex.join(ours(asked, more))}: nothing was seen of it")
        return {"rate": rate, "cost": sampler.busy_cpus(begin, end) / rate}


def _name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    return ""


def _measured_window(place: Path) -> tuple[float, float]:
    """Begin and end of the measured window of the one trial below, on this machine's clock."""
    (trial,) = place.glob("*/trials/*-*")
    rows = read_rows(trial, ("records",))["records"]
    times = [(row["begin_ns"], row["end_ns"]) for row in rows if row["window"] == "measured"]
    return min(times)[0] / 1e9, max(end for _, end in times) / 1e9


def run_peer(asked: Asked, peer: Peer, pair: Pair | None) -> Done:
    """Run a peer's command; what it did in the middle of its load. Raises RuntimeError where it cannot do this, or fails."""
    with tempfile.TemporaryDirectory() as folder:
        lines = peer.lines(replace(asked, folder=Path(folder)))
        with contextlib.ExitStack() as stack:
            servers = stack.enter_context(
                _running(lines.servers, pair.inside("server") if pair else [], folder)
            )
            if pair is not None and lines.ports:
                _await("no server listened", lambda: _listening(pair, lines.ports) or _ended(servers))
            pids = [server.pid for server in servers]
            sampler = stack.enter_context(Sampler(lambda: pids if pair else []))
            clients = stack.enter_context(
                _running(lines.clients, pair.inside("client") if pair else [], folder)
            )
            if pair is not None:
                _await(
                    "not all connections came up",
                    lambda: _connections(pair) >= asked.count or _ended(clients),
                )
                # Some connect a second or two before they begin: they measure the clock, or agree with the other end.
                _await("no load came on", lambda: _is_on(sampler) or _ended(clients))
            time.sleep(_SETTLE_S)
            begin = time.monotonic()
            time.sleep(asked.seconds - _SETTLE_S - 0.5)
            end = time.monotonic()
            time.sleep(0.1)  # for a reading behind the span
            _failed([*servers, *clients])
            if asked.kind == "bulk" and _ended(clients):
                raise RuntimeError("a client was done before all that it was looked at for was over")
            said = [client.communicate(timeout=asked.seconds + _SPARE_S)[0] for client in clients]
        bulk = asked.kind == "bulk"
        rate = sampler.received_per_s(begin, end) if bulk else sum(peer.rate(each) for each in said)
        if not rate:
            raise RuntimeError("it did nothing")
        return {"rate": rate, "cost": sampler.busy_cpus(begin, end) / rate}


@contextlib.contextmanager
def _running(
    commands: Sequence[Command], before: Command, folder: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Programs that run in a folder; those that are left when the block ends are ended."""
    started: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            words = [*before, *command]
            started.append(
                subprocess.Popen(
                    words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder
                )
            )
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            with contextlib.suppress(ValueError):  # its output was read before
                process.communicate(timeout=20)


def _ended(running: Sequence[subprocess.Popen[str]]) -> bool:
    return any(process.poll() is not None for process in running)


def _failed(running: Sequence[subprocess.Popen[str]]) -> None:
    """Raises RuntimeError with the words of a program that has ended with a failure."""
    for process in running:
        if process.poll():
            said, _ = process.communicate()
            raise RuntimeError(f"it ended with {process.returncode}: {said[-300:]}")


def _await(what: str, done: Callable[[], bool]) -> None:
    """Waits until it is so; on a busy machine that takes seconds. Raises RuntimeError where it never is."""
    until = time.monotonic() + _SPARE_S
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"{what} within {_SPARE_S:.0f} s")
        time.sleep(0.05)


def _read(pair: Pair, *files: str) -> str:
    command = ["ip", "netns", "exec", pair.server, "cat", *files]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _ports(pair: Pair, state: str) -> list[int]:
    """Ports of the TCP sockets of the server's namespace that are in a state (proc_net(5))."""
    fields = [line.split() for line in _read(pair, "/proc/net/tcp", "/proc/net/tcp6").splitlines()]
    return [int(f[1].rpartition(":")[2], 16) for f in fields if len(f) > 3 and f[3] == state]


def _listening(pair: Pair, ports: Iterable[int]) -> bool:
    """Whether somebody in the server's namespace waits at each of these TCP ports."""
    return set(_ports(pair, "0A")).issuperset(ports)


def _connections(pair: Pair) -> int:
    """TCP connections of the server's namespace."""
    return len(_ports(pair, "01"))


def _is_on(sampler: Sampler) -> bool:
    """Whether bytes arrive as of a load, and not as of what tools say to each other before."""
    now = time.monotonic()
    with contextlib.suppress(RuntimeError):
        return sampler.received_per_s(now - 0.1, now) > _LOADED_BYTES_PER_S
    return False


async def run(
    pairs: int,
    chosen: Sequence[str] = (),
    keep: str | None = None,
    more: bool = False,
    seconds: float = SECONDS,
) -> Rows:
    """Our commands beside the best peer of each cell: rate and CPU time; `--cells` takes a part, `--more` other options."""
    every = {name: replace(asked, seconds=seconds) for name, asked in cells().items()}
    if unknown := [name for name in chosen if name not in every]:
        raise SystemExit(f"bench: no cell is called {unknown[0]}; there are {', '.join(every)}")
    file = Path(keep) if keep else None
    found = _kept(file)
    for name, peer in PEERS.items():
        if not peer.found:
            print(f"{name} is left out: {peer.program} is not in the path", file=sys.stderr)
    for name in chosen or every:
        if found["cells"].get(name, {}).get("pairs", 0) < pairs:
            found["cells"][name] = await _cell(every[name], pairs, more)
            if file is not None:
                part = file.with_name(file.name + ".part")
                part.write_text(json.dumps(found, indent=1) + "\n")
                part.replace(file)
        # It takes minutes: each cell is shown when it is known.
        print(f"{name}: {_medians(found['cells'][name])}", file=sys.stderr)
    return figures(found["cells"])


async def _cell(asked: Asked, pairs: int, more: bool) -> dict[str, Any]:
    if asked.kind == "disk":
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            # Each its own: ours is laid out by its first run, and is written by nobody else.
            theirs = Path(folder) / "peers"
            _fill(theirs)
            mine = replace(asked, target=Path(folder) / "ours")
            return await asyncio.to_thread(_alternate, mine, replace(asked, target=theirs), None, pairs, more)
    async with open_testbed() as (_, pair):
        asked = replace(asked, address=pair.address, cpus=len(pair.client_cpus))
        return await asyncio.to_thread(_alternate, asked, asked, pair, pairs, more)


def _fill(path: Path) -> None:
    with path.open("wb") as file:
        for _ in range(WORKING_SET_BYTES >> 20):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())


def _alternate(mine: Asked, theirs: Asked, pair: Pair | None, pairs: int, more: bool) -> dict[str, Any]:
    """What each side came to, time by time. A side that cannot do the cell is left out of it, with its reason."""
    ways: dict[str, Command] = {"as it comes": (), **(MORE[mine.kind] if more else {})}
    there = {name: peer for name, peer in PEERS.items() if peer.kind == mine.kind and peer.found}
    for way in ways.values():
        print(f"  {shlex.join(ours(mine, way))}", file=sys.stderr)
    for peer in there.values():
        with contextlib.suppress(RuntimeError), tempfile.TemporaryDirectory() as folder:
            _show(peer.lines(replace(theirs, folder=Path(folder))))
    sides: dict[tuple[str, str], Callable[[], Done]] = {
        **{("ours", name): lambda way=way: run_ours(mine, way) for name, way in ways.items()},  # type: ignore[misc]
        **{("peers", name): lambda peer=peer: _again(theirs, peer, pair) for name, peer in there.items()},  # type: ignore[misc]
    }
    found: dict[str, Any] = {"ours": {}, "peers": {}, "refused": {}, "pairs": pairs}
    for number in range(pairs):
        # Turned round in every other round, so that nobody always finds the machine as the same one left it.
        for kind, name in reversed(sides) if number % 2 else sides:
            if name in found["refused"]:
                continue
            try:
                values = sides[kind, name]()
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as problem:
                found["refused"][name] = " ".join(str(problem).split())[-300:]
                found[kind].pop(name, None)
                print(f"  {name} is left out: {found['refused'][name]}", file=sys.stderr)
                continue
            into = found[kind].setdefault(name, {"rate": [], "cost": []})
            for quantity, value in values.items():
                into[quantity].append(value)
    return found


def _again(asked: Asked, peer: Peer, pair: Pair | None) -> Done:
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(RuntimeError):
            return run_peer(asked, peer, pair)
    return run_peer(asked, peer, pair)


def _show(lines: Lines) -> None:
    """Print command lines, those of many alike once."""
    for what, commands in (("", lines.servers), ("", lines.clients)):
        if commands:
            many = f"   (and {len(commands) - 1} more)" if len(commands) > 1 else ""
            print(f"  {what}{shlex.join(map(str, commands[0]))}{many}", file=sys.stderr)


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


def _medians(cell: Mapping[str, Any]) -> str:
    sides = {**cell["ours"], **cell["peers"]}
    return ", ".join(f"{name} {statistics.median(values['rate']):.4g}" for name, values in sides.items())


_UNITS = {"bulk": (8e-9, "Gbit/s"), "rr": (1e-3, "k/s"), "disk": (1e-3, "k/s")}


def _shown(ratio: tuple[float, float, float]) -> str:
    return "{:.2f} [{:.2f}, {:.2f}]".format(*ratio)


def _of(peers: Mapping[str, Mapping[str, list[float]]], chosen: Sequence[str], quantity: str) -> list[float]:
    """What the peer that was chosen for each pair came to in it."""
    return [peers[name][quantity][pair] for pair, name in enumerate(chosen)]


def figures(found: Mapping[str, Mapping[str, Any]]) -> Rows:
    """A row a cell and way of ours: against the peer with the best rate, and the cost also against the least; and means last.
    The peer that a pair is held against is chosen by the other pairs; the one that is named, by all.
    """
    rows: Rows = []
    ratios: dict[str, dict[str, list[float]]] = {}
    for name, cell in found.items():
        peers = {peer: values for peer, values in cell["peers"].items() if peer != BARE}
        if not cell["ours"] or not peers:
            continue
        bare = cell["peers"].get(BARE)
        fastest = max(peers, key=lambda peer: statistics.median(peers[peer]["rate"]))
        cheapest = min(peers, key=lambda peer: statistics.median(peers[peer]["cost"]))
        fast = best_by_the_others({peer: values["rate"] for peer, values in peers.items()})
        cheap = best_by_the_others({peer: values["cost"] for peer, values in peers.items()}, min)
        kind = name.partition("-")[0]
        factor, unit = _UNITS[kind]
        for way, mine in cell["ours"].items():
            against = {
                "rate": middle(mine["rate"], _of(peers, fast, "rate")),
                "cost": middle(mine["cost"], _of(peers, fast, "cost")),
                "least cost": middle(mine["cost"], _of(peers, cheap, "cost")),
            }
            for group in (kind, "all"):
                for quantity, ratio in against.items():
                    ratios.setdefault(f"{group}, {way}", {}).setdefault(quantity, []).append(ratio[0])
            shown = {quantity: _shown(ratio) for quantity, ratio in against.items()}
            rows.append(
                {
                    "cell": name,
                    "ours": way,
                    "rate": f"{statistics.median(mine['rate']) * factor:.4g} {unit}",
                    "best peer": f"{fastest} {statistics.median(peers[fastest]['rate']) * factor:.4g}",
                    "rate ratio": shown["rate"],
                    "to a bare loop": _shown(middle(mine["rate"], bare["rate"])) if bare else "",
                    "cost ratio": shown["cost"],
                    "least cost": cheapest,
                    "cost ratio to it": shown["least cost"],
                }
            )
    for group, each in ratios.items():
        means = {
            quantity: f"{math.exp(statistics.fmean(map(math.log, values))):.3f}"
            for quantity, values in each.items()
        }
        rows.append(
            {
                "cell": f"geometric mean of {len(each['rate'])}, {group.partition(', ')[0]}",
                "ours": group.partition(", ")[2],
                "rate": "",
                "best peer": "",
                "rate ratio": means["rate"],
                "to a bare loop": "",
                "cost ratio": means["cost"],
                "least cost": "",
                "cost ratio to it": means["least cost"],
            }
        )
    return rows or [{"cell": "-", "ours": "no cell has a peer and a measurement of ours"}]
