"""What sampling call stacks costs: to read the samples, and to name them."""

from __future__ import annotations

from dataclasses import replace

from bench.testbed import open_testbed, trial
from iodyno.core.experiment import Experiment

SAMPLES = 7000
SETTINGS = {"connections": 8, "size": 65536}


async def naming(pairs: int) -> list[dict[str, object]]:
    """CPU time to read 7000 samples under load and to name them after it (at most 1 % of a CPU, and 1 s)."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        testbed.experiment = replace(testbed.experiment, profile_hz=Experiment.profile_hz)
        # One CPU a host.
        seconds = SAMPLES / Experiment.profile_hz + 0.2
        for _ in range(max(1, pairs // 2)):
            done = await trial(testbed, pair, SETTINGS, seconds)
            for host, facts in done.account.hosts.items():
                profile = facts["profile"]
                window_ns = profile["end_ns"] - profile["begin_ns"]
                rows.append(
                    {
                        "host": host,
                        "samples": profile["samples"] + profile["idle_samples"],
                        "lost": profile["lost"],
                        "named_in_ms": round(profile["symbolise_ns"] / 1e6, 1),
                        "allowed_ms": 1000,
                        "read_cpu_percent": round(profile["cost_ns"] / window_ns * 100, 3),
                        "allowed_percent": 1,
                    }
                )
    return rows
