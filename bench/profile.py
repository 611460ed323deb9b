"""What sampling call stacks costs: to read the samples, to name them, and in goodput."""

from __future__ import annotations

from dataclasses import replace

from bench.ratio import paired
from bench.rig import open_rig, trial
from iodyno.core.experiment import Experiment

SAMPLES = 7000
SETTINGS = {"connections": 8, "size": 65536}


async def naming(pairs: int) -> list[dict[str, object]]:
    """CPU time to read 7000 samples under load and to name them after it (at most 1 % of a CPU, and 1 s)."""
    rows: list[dict[str, object]] = []
    async with open_rig() as (rig, pair):
        rig.experiment = replace(rig.experiment, profile_hz=Experiment.profile_hz)
        # One CPU a host.
        seconds = SAMPLES / Experiment.profile_hz + 0.2
        for _ in range(max(1, pairs // 2)):
            done = await trial(rig, pair, SETTINGS, seconds)
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


async def goodput(pairs: int) -> list[dict[str, object]]:
    """Goodput and CPU time for a GB with call stacks sampled against without, alternating; and the noise of it."""
    async with open_rig() as (rig, pair):
        with_, without = [], []
        for number in range(pairs * 2):
            # Turned round in every other pair, so that a drift is on either side.
            for hz in (Experiment.profile_hz, 0) if number % 2 else (0, Experiment.profile_hz):
                rig.experiment = replace(rig.experiment, profile_hz=hz)
                done = await trial(rig, pair, SETTINGS, 3.0)
                (with_ if hz else without).append(done)
    rates = [[done.goodput_gbit_per_s for done in side] for side in (with_, without)]
    costs = [[done.metered.cpu_s_per_gb for done in side] for side in (with_, without)]
    found = {
        "profile / none": (paired(*rates), paired(*costs)),
        "none / the one before": (
            paired(rates[1][1:], rates[1][:-1]),
            paired(costs[1][1:], costs[1][:-1]),
        ),
    }
    return [
        {
            "a_over_b": name,
            "goodput_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(*rate),
            "cpu_s_per_gb_ratio": "{:.3f} [{:.3f}, {:.3f}]".format(*cost),
        }
        for name, (rate, cost) in found.items()
    ]
