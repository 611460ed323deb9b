"""`python -m bench [NAME ...] [--pairs N] [--json]`: runs the comparisons and prints their tables."""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

from bench import (
    arrivals,
    block_sensor,
    cluster,
    connections,
    coverage,
    datagrams,
    decision_campaigns,
    exact,
    filebench,
    first_answer,
    heatmap,
    instrument,
    limiter,
    many_hosts,
    mva,
    own_cost,
    personalities,
    profile,
    recorder,
    repeats,
    report_page,
    scripts,
    searches,
    servers,
    start_skew,
    storage,
    storage_gaps,
    storage_metadata,
    tails,
    versus,
    watch,
)

Rows = list[dict[str, object]]

BENCHES: dict[str, Callable[[int], Awaitable[Rows]]] = {
    "first_answer": first_answer.run,
    "peers": versus.run,
    "connections": connections.run,
    "connections_most": connections.most,
    "loop": own_cost.loop,
    "arrivals": arrivals.run,
    "records": own_cost.records,
    "overhead": own_cost.overhead,
    "sensors": instrument.run,
    "sensor_levels": own_cost.levels,
    "each_sensor": own_cost.each_sensor,
    "first_record": own_cost.first_record,
    "tails": tails.run,
    "profile": profile.naming,
    "servers": servers.run,
    "limiter": limiter.run,
    "datagrams": datagrams.exchange,
    "datagrams_sent": datagrams.sending,
    "datagram_segments": datagrams.segments,
    "exact": exact.pair,
    "observer": exact.observer,
    "mva": mva.run,
    "heatmap": heatmap.run,
    "cluster": cluster.run,
    "decisions": decision_campaigns.run,
    "coverage": coverage.run,
    "searches": searches.run,
    "real_searches": searches.real,
    "storage": storage.run,
    "storage_rates": storage.rates,
    "storage_metadata": storage_metadata.run,
    "storage_gaps": storage_gaps.run,
    "start_skew": start_skew.run,
    "many_hosts": many_hosts.run,
    "personalities": personalities.run,
    "filebench": filebench.run,
    "repeats": repeats.run,
    "scripts": scripts.run,
    "block_sensor": block_sensor.run,
    "recorder": recorder.run,
    "recorder_calls": recorder.calls,
    "watch": watch.run,
    "report": report_page.first_paint,
    "report_page": report_page.many,
}
"""Every comparison, by name; a new one is one file and one line."""
LONG = frozenset(
    {
        "limiter",
        "cluster",
        "connections_most",
        "personalities",
        "filebench",
        "report_page",
        "searches",
        "real_searches",
    }
)
"""Comparisons that run only when they are named: a quarter of an hour, and more."""


def table(rows: Rows) -> str:
    """Rows as aligned text."""
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in cells
    )


def main() -> None:
    """Runs what was named, or everything."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHES)}; default: all short ones"
    )
    parser.add_argument("--pairs", type=int, default=5, help="measurements of each side (default 5)")
    parser.add_argument(
        "--cells", nargs="+", default=[], metavar="CELL", help=f"of peers: {', '.join(versus.cells())}"
    )
    parser.add_argument(
        "--keep",
        metavar="FILE",
        help="of peers: keep each cell's measurements there, and measure only what is missing",
    )
    parser.add_argument("--more", action="store_true", help="of peers: ours also with other options")
    parser.add_argument(
        "--seconds",
        type=float,
        default=versus.SECONDS,
        help=f"of peers: length of a load (default {versus.SECONDS:g})",
    )
    parser.add_argument("--peer", metavar="PATH", help="trace2heatmap.pl, for heatmap")
    parser.add_argument(
        "--lines",
        type=int,
        default=heatmap.LINES,
        help="of a trace, for heatmap and cluster; of heatmap above 20 million through a pipe",
    )
    parser.add_argument(
        "--folder",
        metavar="PATH",
        help="workloads of Filebench, for personalities; its built tree, for filebench",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHES]:
        parser.error(f"no comparison is called {unknown[0]}; there are {', '.join(BENCHES)}")
    benches = {
        **BENCHES,
        "peers": partial(
            versus.run,
            chosen=arguments.cells or (() if arguments.names else versus.SHORT),
            keep=arguments.keep,
            more=arguments.more,
            seconds=arguments.seconds,
        ),
        "heatmap": partial(heatmap.run, peer=arguments.peer, lines=arguments.lines),
        "cluster": partial(cluster.run, lines=arguments.lines),
        "personalities": partial(personalities.run, folder=arguments.folder),
        "filebench": partial(filebench.run, folder=arguments.folder),
    }
    found: dict[str, Rows] = {}
    for name in arguments.names or [name for name in BENCHES if name not in LONG]:
        began = time.monotonic()
        print(f"{name}: {(BENCHES[name].__doc__ or '').strip().splitlines()[0]}", file=sys.stderr)
        found[name] = asyncio.run(benches[name](arguments.pairs))  # type: ignore[arg-type]
        print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr)
        if not arguments.json:
            print(f"\n{name}\n{table(found[name])}\n", flush=True)
    if arguments.json:
        print(json.dumps({"machine": platform.platform(), "benches": found}, indent=2))


if __name__ == "__main__":
    main()
