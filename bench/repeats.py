"""Intervals of single trials against the spread of independent repeats of the same load, which they are to tell beforehand.

A load runs in repeats of one second each; each repeat alone gives an interval, all of them their spread. An interval that is
right holds the middle of the other repeats as often as it says, where nothing but chance differs between trials; how much
more trials differ than an interval of one knows is the ratio of the two.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

import iodyno
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse

LOADS = ("tcp", "rr", "disk")


def _measured(load: str, repeats: int, folder: Path) -> iodyno.Campaign:
    if load == "tcp":
        return iodyno.tcp(connections=4, seconds=1, repeat=repeats, into=folder)
    if load == "rr":
        return iodyno.rr(connections=4, seconds=1, repeat=repeats, into=folder)
    return iodyno.disk(
        folder / "file",
        size="256MiB",
        seconds=1,
        repeat=repeats,
        into=folder,
        read="70%",
        queue_depth=8,
        direct=True,
    )


def _rows(load: str, repeats: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        campaign = _measured(load, repeats, Path(folder))
        rows: list[dict[str, object]] = []
        dataset = read_dataset(campaign.folder)
        alone = [
            analyse(replace(dataset, trials=[trial])).points[0].outcomes
            for trial in dataset.trials
            if trial.finished
        ]
        for name in campaign.summary.asked:
            known = [e for each in alone if None not in ((e := each[name]).estimate, e.low, e.high)]
            if len(known) < 3:
                continue
            values = [float(e.estimate or 0) for e in known]
            held = 0
            for place, one in enumerate(known):
                others = statistics.median(values[:place] + values[place + 1 :])
                held += (one.low or 0) <= others <= (one.high or 0)
            half = statistics.median(((e.high or 0) - (e.low or 0)) / 2 for e in known)
            spread = statistics.stdev(values)
            rows.append(
                {
                    "load": load,
                    "outcome": name,
                    "repeats": len(known),
                    "spread_percent": round(100 * spread / abs(statistics.fmean(values)), 2),
                    "half_interval_percent": round(100 * half / abs(statistics.fmean(values)), 2),
                    "half_interval_to_1.96_spreads": round(half / (1.96 * spread), 2) if spread else None,
                    "holds_the_others": f"{held}/{len(known)}",
                }
            )
        return rows


async def run(pairs: int) -> list[dict[str, object]]:
    """Twenty repeats of each load for each pair asked for, and what one of them told of the others."""
    return [row for load in LOADS for row in await asyncio.to_thread(_rows, load, 20 * pairs)]
