"""What lab and sensors do to the tail of response times where they share their CPUs with the load."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench.ratio import middle
from bench.testbed import Quiet
from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign.folder import new_folder
from iodyno.campaign.runner import run_campaign
from iodyno.formats.experiment_file import parse_experiment
from iodyno.strategies.fixed import Fixed

TEXT = """
name: tails
hosts: {client: {access: netns}, server: {access: netns}}
workload: {kind: request_response, sender: client, receiver: server, connections: 64, size: 64B, response_size: 64B,
           rate: 20000/s, arrivals: poisson, engine: epoll}
profile: false
windows: {warm_up: 500ms, measured: 4s}
design: {replicates: 1}
limits: {background_window: 500ms}
"""
PERCENTILES = ("p50", "p90", "p99")


async def run(pairs: int) -> list[dict[str, object]]:
    """Percentiles of 20 000 requests a second between two namespaces, from when each was due, in ms: with all sensors, and
    with none, by turns. Nothing is asked of them; the first is to come near to the second.
    """
    whole = parse_experiment(TEXT, file="bench tails", environment={})
    bare = replace(whole, sensors="off")
    found: dict[str, list[dict[str, float]]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as place:
        for _ in range(2 * pairs):
            for name, experiment in (("with", whole), ("without", bare)):
                folder = new_folder(Path(place), name)
                design = designs.plan(experiment)
                await run_campaign(experiment, design, folder, [Fixed(design)], resume=False, watcher=Quiet())
                found[name].append(await asyncio.to_thread(dict, _times_ms(folder)))
    return [
        {
            "percentile": percentile,
            **{
                f"{name}_ms": round(statistics.median(one[percentile] for one in of), 3)
                for name, of in found.items()
            },
            **_interval(
                [one[percentile] for one in found["with"]], [one[percentile] for one in found["without"]]
            ),
        }
        for percentile in PERCENTILES
    ]


def _times_ms(folder: Path) -> Iterator[tuple[str, float]]:
    outcomes = analyse(read_dataset(folder)).points[0].outcomes
    for percentile in PERCENTILES:
        value = outcomes[f"latency_from_schedule_{percentile}_ns"].estimate
        assert value is not None
        yield percentile, value / 1e6


def _interval(ours: list[float], theirs: list[float]) -> dict[str, object]:
    typical, low, high = middle(ours, theirs)
    return {"ratio": round(typical, 2), "low": round(low, 2), "high": round(high, 2)}
