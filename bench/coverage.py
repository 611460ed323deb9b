"""How often the intervals of cost models hold the truth, in campaigns over simulated agents whose truth is known.

The whole way is gone: the lab drives agents, stores their records, analyses the trials and fits the model. The noise models
are those of trials that vary alike, with their mean, or by a slow wave that blocks take out in part; the same on numbers alone,
with thousands of repeats, is `decisions` and `tests/truth`.
"""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

from iodyno import designs
from iodyno.analysis.cost_model.fit import fit
from iodyno.analysis.cost_model.study import campaign_data
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign.runner import run_campaign
from iodyno.formats.experiment_file import parse_experiment
from iodyno.hosts.access import AgentProgram
from iodyno.session.simulated import Truth
from iodyno.strategies.fixed import Fixed

OUTCOME = "client.cpu_ns_per_kib"
CAMPAIGNS = 40
"""For each pair asked for. Chosen: five of them, 200 campaigns, tell a share of 95 % to 1.5 points."""
TOGETHER = 40
"""Campaigns at a time: a simulated agent waits as a real one, and takes hardly any CPU."""
CONNECTIONS, SIZES = (1, 1000), (4096, 65536)
_NOISE = 0.05
MODELS = {
    "even": Truth(noise_between_trials=_NOISE, per_message_ns=0.0, per_connection_ns=0.002),
    "spread grows with the mean": Truth(
        noise_between_trials=_NOISE, per_message_ns=4000.0, goodput_bits_per_s=2e9
    ),
    **{
        f"drift {share} %": Truth(
            noise_between_trials=_NOISE * math.sqrt(1 - share / 100),
            drift_between_trials=_NOISE * math.sqrt(share / 100),
            per_message_ns=0.0,
            per_connection_ns=0.002,
        )
        for share in (50, 70, 90)
    },
}
"""Noise models, of the same variance between trials. The goodput leaves CPU over: a host that has none cannot show a costly
trial.
"""
_PROGRAM = AgentProgram(Path("/nowhere"), "0" * 64, "0123456789abcdef")


class Silent:
    """A watcher that is told everything and says nothing."""

    def __getattr__(self, _: str) -> object:
        return lambda *args, **named: None


async def run(pairs: int) -> list[dict[str, object]]:
    """Coverage of the 95 % intervals of the effects by noise model; wanted: .93 to .97."""
    rows: list[dict[str, object]] = []
    for name, truth in MODELS.items():
        held = [one for batch in _batches(pairs) for one in await _campaigns(truth, batch)]
        share = sum(held) / len(held)
        rows.append(
            {
                "noise": name,
                "campaigns": pairs * CAMPAIGNS,
                "intervals": len(held),
                "coverage": round(share, 4),
                "standard error": round(math.sqrt(share * (1 - share) / len(held)), 4),
                "wanted": ".93 to .97",
            }
        )
    return rows


def _batches(pairs: int) -> Iterator[range]:
    total = pairs * CAMPAIGNS
    for first in range(0, total, TOGETHER):
        yield range(first, min(first + TOGETHER, total))


async def _campaigns(truth: Truth, seeds: range) -> list[bool]:
    with tempfile.TemporaryDirectory() as folder:
        found = await asyncio.gather(*(_one(truth, seed, Path(folder, str(seed))) for seed in seeds))
    return [held for each in found for held in each]


async def _one(truth: Truth, seed: int, folder: Path) -> list[bool]:
    """Whether each interval of a campaign's effects holds the truth."""
    told = {
        "noise_between_trials": truth.noise_between_trials,
        "drift_between_trials": truth.drift_between_trials,
        "per_message_ns": truth.per_message_ns,
        "per_connection_ns": truth.per_connection_ns,
        "goodput_bits_per_s": truth.goodput_bits_per_s,
        "exact": True,
        "seed": seed + 1,
    }
    host = f"{{access: simulated, truth: {{{', '.join(f'{key}: {str(value).lower()}' for key, value in told.items())}}}}}"
    text = (
        f"name: coverage\nhosts: {{client: {host}, server: {host}}}\n"
        "workload: {kind: stream, sender: client, receiver: server}\n"
        f"factors: {{connections: {list(CONNECTIONS)}, size: {list(SIZES)}}}\n"
        f"design: {{kind: full_factorial, replicates: 4, blocks: true, seed: {seed + 1}}}\n"
        "windows: {warm_up: 100ms, measured: 300ms, drain: 0ms, interval: 100ms}\n"
        "limits: {background_window: 100ms}\nprofile: off\n"
    )
    experiment = parse_experiment(text, file="coverage", environment={})
    folder.mkdir()
    design = designs.plan(experiment)
    await run_campaign(
        experiment, design, folder, [Fixed(design)], resume=False, watcher=Silent(), program=_PROGRAM
    )  # type: ignore[arg-type]
    model = fit(campaign_data(analyse(read_dataset(folder)), OUTCOME), "connections * size").model
    assert model.covariance is not None
    held = []
    for place, true in enumerate(_effects(truth)):
        if place == 0:
            continue  # The mean is of these days, of which a drifting machine has many.
        row = [float(at == place) for at in range(4)]
        error = math.sqrt(float(model.covariance[place, place]))
        held.append(abs(float(model.coefficients[place]) - true) <= model.quantile(row) * error)  # type: ignore[arg-type]
    return held


def _effects(truth: Truth) -> list[float]:
    """The coefficients of a 2 x 2 design, coded -1 and +1: mean, connections, size, both."""
    costs = {(c, s): truth.cpu_ns_per_kib(c, s) for c in CONNECTIONS for s in SIZES}
    signs = {(c, s): (1, [-1, 1][c == CONNECTIONS[1]], [-1, 1][s == SIZES[1]]) for c, s in costs}
    return [
        sum(cost * product(signs[cell]) for cell, cost in costs.items()) / 4
        for product in (
            lambda x: x[0],
            lambda x: x[1],
            lambda x: x[2],
            lambda x: x[1] * x[2],
        )
    ]
