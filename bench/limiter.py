"""How often the limiter is named rightly: the labelled corpus, and its confusion matrix."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import corpus, foreign
from bench.plants import PLANTS, Half, Plant
from bench.testbed import Quiet
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.limiter.signals import Signal
from iodyno.analysis.limiter.verdict import of_signals, of_trial, signals_of
from iodyno.campaign.runner import run_campaign
from iodyno.core.design import PlannedTrial
from iodyno.core.limiter import Verdict
from iodyno.strategies.fixed import Fixed

KEEP = "IODYNO_CORPUS"
"""Names a folder in which the trials are kept; without it they are gone when the matrix is printed."""
ONLY = "IODYNO_PLANTS"
"""Words, divided by spaces: only plants with one of them in their names are looked at. `storage`: all of loads on storage."""

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "limiter" / "calibration.json"
"""Where `IODYNO_UPDATE=1` keeps the signals of the calibration half."""


@dataclass(frozen=True)
class Named:
    """A trial of the corpus and what was said of it."""

    plant: Plant
    half: Half
    strength: Mapping[str, Any]
    verdict: Verdict
    signals: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def right(self) -> bool:
        """Whether a verdict was named that is right."""
        return self.verdict.name in self.plant.accepted


class _Plants(Quiet):
    """Sets before a trial what others would have set, and tells of failures only."""

    def __init__(self, strengths: Mapping[str, Mapping[str, Any]]) -> None:
        self._strengths = strengths

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """Sets it."""
        if any(foreign.NAMES & strength.keys() for strength in self._strengths.values()):
            foreign.put(
                self._strengths[planned.point.id], corpus.children(), planned.point.levels.get("target")
            )

    def on_trial_end(self, planned: object, manifest: Mapping[str, Any]) -> None:
        """Says what a trial that failed failed of."""
        if manifest["reason"]:
            print(f"  {manifest['levels']}: {manifest['reason']['what']}", file=sys.stderr)


async def run(pairs: int) -> list[dict[str, object]]:
    """Verdicts on planted limiters and healthy runs; `pairs` trials of each strength (5: about 20 minutes)."""
    if refused := corpus.may_run():
        raise SystemExit(f"bench limiter: {refused}")
    words = os.environ.get(ONLY, "").split()
    plants = [p for p in PLANTS if not words or any(word in corpus.experiment(p).name for word in words)]
    with tempfile.TemporaryDirectory() as temporary:
        into = Path(os.environ.get(KEEP) or temporary)
        named = [
            one
            for plant in random.Random(pairs).sample(plants, len(plants))
            for one in await plant_and_look(plant, into, ("calibration", "test"), pairs)
        ]
    return told(named)


def told(named: Sequence[Named]) -> list[dict[str, object]]:
    """Says what was wrong and the confusion matrix, and gives the rows of the table; keeps what `IODYNO_UPDATE` asks for."""
    if os.environ.get("IODYNO_UPDATE"):
        keep_golden(named, GOLDEN)
    for wrong in (one for one in named if not one.right):
        print(f"  wrong: {_line(wrong)}", file=sys.stderr)
    print(matrix([one for one in named if one.half == "test"]), file=sys.stderr)
    return rows(named)


async def _favour(nice: int, others: Set[int]) -> None:
    """Puts agents before the machine's other users, from their first moment on: beside what spins they would else not come to
    say hello in time.
    """
    while True:
        for pid in set(corpus.children()) - others:
            corpus.favour(pid, nice)
        corpus.favour_groups()
        await asyncio.sleep(0.05)


async def plant_and_look(plant: Plant, into: Path, halves: Sequence[Half], replicates: int) -> list[Named]:
    """Runs a plant and gives the verdicts on its trials. Those that failed are left out, and said."""
    asked = corpus.experiment(plant)
    folder = into / asked.name
    folder.mkdir(parents=True)
    cpus = {"client": 0, "server": 1}
    allowed = sorted(os.sched_getaffinity(0))
    spins = [
        allowed[cpus[host] * (len(allowed) // 2)] for host, n in plant.spinners.items() for _ in range(n)
    ]
    with corpus.spinning(spins, plant.wander) as others, corpus.on_devices(plant) as planted:
        design = corpus.design(planted, halves, replicates, seed=1)
        # What goes from CPU to CPU takes nearly all of where it is.
        favouring = asyncio.create_task(_favour(-10 if plant.wander else -20, others))
        watcher = _Plants(corpus.strengths(plant, halves))
        try:
            await run_campaign(asked, design, folder, [Fixed(design)], resume=False, watcher=watcher)
        finally:
            favouring.cancel()
            foreign.gone()
    return look(plant, folder)


def look(plant: Plant, folder: Path) -> list[Named]:
    """The verdicts on the stored trials of a plant."""
    return [
        Named(
            plant,
            "test" if trial.point.startswith("test") else "calibration",
            trial.levels,
            of_trial(trial),
            {name: _median(signal) for name, signal in (signals_of(trial) or {}).items()},
        )
        for trial in read_dataset(folder).trials
        if trial.finished
    ]


def _median(signal: Signal) -> float | None:
    return float(f"{median(signal.values.values()):.4g}") if signal.values else None


def _of_medians(one: Named) -> str:
    signals = {
        name: Signal({} if value is None else {0: value}, "1", "kept", "not measured")
        for name, value in one.signals.items()
    }
    return of_signals(signals, {"send": "client", "receive": "server"}).name


def keep_golden(named: Sequence[Named], path: Path) -> None:
    """Keeps the signals of one trial of each strength of the calibration half, for the verdicts to be made again: those of
    networks, whose rules all ask for the same signals.
    """
    kept: dict[str, Named] = {}
    for one in named:
        # A median tells less than the intervals: what it would tell otherwise is no case. Nor is a verdict that is right
        # because its plant cannot be told from another.
        as_planted = one.plant.label in ("healthy", one.verdict.name)
        if (
            one.half == "calibration"
            and not one.plant.storage
            and one.right
            and as_planted
            and _of_medians(one) == one.verdict.name
        ):
            kept.setdefault(f"{one.plant.label} {sorted(one.strength.items())}", one)
    names = sorted({name for one in kept.values() for name in one.signals})
    rows = [
        [one.plant.label, one.verdict.name, *(one.signals.get(name) for name in names)]
        for one in kept.values()
    ]
    lines = ",\n".join(json.dumps(row) for row in [["planted", "said", *names], *rows])
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def rows(named: Sequence[Named]) -> list[dict[str, object]]:
    """Right verdicts by label and half."""
    found = []
    for half in ("calibration", "test"):
        for label in dict.fromkeys(plant.label for plant in PLANTS):
            mine = [one for one in named if one.plant.label == label and one.half == half]
            if mine:
                found.append(_row(half, label, mine))
        planted = [one for one in named if one.half == half and one.plant.label != "healthy"]
        if planted:
            found.append(_row(half, "all planted", planted))
    return found


def _row(half: str, label: str, named: Sequence[Named]) -> dict[str, object]:
    right = sum(one.right for one in named)
    said = Counter(one.verdict.name for one in named if not one.right)
    return {
        "half": half,
        "planted": label,
        "trials": len(named),
        "right": f"{right / len(named):.0%}",
        "wrong": ", ".join(f"{name} x{count}" for name, count in said.most_common()) or "-",
    }


def matrix(named: Iterable[Named]) -> str:
    """The confusion matrix: a line a label, what was said of its trials and how often."""
    counts: dict[str, Counter[str]] = {}
    for one in named:
        counts.setdefault(one.plant.label, Counter())[one.verdict.name] += 1
    columns = sorted({name for counter in counts.values() for name in counter})
    lines = ["planted \\ said", *(f"  {number}: {name}" for number, name in enumerate(columns))]
    lines.append(" " * 20 + "".join(f"{number:>5}" for number in range(len(columns))))
    for label, counter in counts.items():
        lines.append(f"{label:<20}" + "".join(f"{counter[name] or '.':>5}" for name in columns))
    return "\n".join(lines)


def _line(one: Named) -> str:
    seen = [
        f"{suspect.name} {suspect.held:.2f} "
        + " ".join(f"{e.signal}={e.value:.3g}" for e in suspect.evidence if e.value is not None)
        for suspect in one.verdict.ranked[:4]
    ]
    return f"{one.plant.label} {one.half} {dict(one.strength)}: {one.verdict.name}; " + "; ".join(seen)
