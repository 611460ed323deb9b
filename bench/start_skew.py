"""How far apart eighteen clients start that are armed for one instant, in namespaces of their own on this machine."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bench.coverage import Silent
from iodyno import designs
from iodyno.analysis.dataset import read_dataset
from iodyno.campaign.runner import run_campaign
from iodyno.formats.experiment_file import parse_experiment
from iodyno.session.locate import find_agent
from iodyno.strategies.fixed import Fixed

CLIENTS = 18
TRIALS = 20
"""For each pair asked for: with five of them, 100 trials, the 99 % quantile is the last but one."""
ALLOWED_US = 1_000.0
_LOADS = {"closed, direct": "direct: on", "closed, page cache": 'direct: off, cached: "yes"'}
"""From the page cache no client ever waits: on fewer cores than clients the last one begins when others were pushed aside."""


async def run(pairs: int) -> list[dict[str, object]]:
    """Microseconds from the first client's first operation to the last one's, over trials, by load."""
    return [await _row(name, keys, max(2, pairs * TRIALS)) for name, keys in _LOADS.items()]


async def _row(name: str, keys: str, trials: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        text = (
            f"name: start-skew\nhosts: {{client: {{access: netns, count: {CLIENTS}}}}}\n"
            f"workload: {{kind: disk, hosts: client, target: {folder}/work.dat, working_set: 16MiB, {keys}}}\n"
            f"design: {{kind: full_factorial, replicates: {trials}}}\n"
            "windows: {warm_up: 50ms, measured: 200ms, drain: 50ms, interval: 100ms}\n"
            "limits: {background_window: 100ms}\nprofile: off\n"
        )
        experiment = parse_experiment(text, file="start-skew", environment={})
        into = Path(folder, "campaign")
        into.mkdir()
        design = designs.plan(experiment)
        await run_campaign(
            experiment, design, into, [Fixed(design)], resume=False, watcher=Silent(), program=find_agent()
        )
        starts = [trial.manifest.get("start") or {} for trial in read_dataset(into).trials]
    known = [
        (one["skew_ns"] / 1e3, one["skew_error_ns"] / 1e3) for one in starts if one.get("skew_ns") is not None
    ]
    skews = sorted(skew for skew, _ in known)
    if len(skews) < 2:
        return {
            "load": name,
            "clients": CLIENTS,
            "trials": trials,
            "known": len(skews),
            "verdict": "not known",
        }
    p99 = statistics.quantiles(skews, n=100, method="inclusive")[98]
    return {
        "load": name,
        "clients": CLIENTS,
        "trials": trials,
        "known": len(skews),
        "p50_us": round(statistics.median(skews)),
        "p99_us": round(p99),
        "greatest_us": round(skews[-1]),
        "clock_error_us": round(max(error for _, error in known), 1),
        "allowed_us": ALLOWED_US,
        "verdict": "met" if p99 <= ALLOWED_US else "missed",
    }
