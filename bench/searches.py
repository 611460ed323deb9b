"""Searches for the largest load, beside the library MLRsearch 1.2.1 by the authors of RFC 9971: trials, and how right they are.

Loads are simulated, as only then the truth is known, and one is real: datagrams through a link of a known rate between two
network namespaces of this machine (`real_searches`). The library comes from PyPI: `pip install MLRsearch==1.2.1`.
"""

from __future__ import annotations

import math
import queue
import random
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

from iodyno.campaign.watcher import Watcher
from iodyno.core.design import Point
from iodyno.core.search import LoadTrial, SearchGoal, SearchSpec, parse_goal
from iodyno.designs.load_classification import relevant_bounds, sums_of
from iodyno.designs.load_selection import next_of, standings
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.strategies.search import Search

SECOND = 10**9
MIN_LOAD, MAX_LOAD = 10_000, 200_000_000
USUAL_S = 21
"""Goal duration sum of the library where none is asked for."""
MOST = 400
"""Trials after which a search is given up."""
Loss = Callable[[float, random.Random], float]
Measure = Callable[[int, int], LoadTrial]


def sharp(at: float, load: float, source: random.Random) -> float:
    """Everything above the wall is lost."""
    return max(0.0, 1 - at / load)


def wide(scale: float, at: float, load: float, source: random.Random) -> float:
    """The share of trials with a small loss rises with the load, a logistic curve of its logarithm; half of them at the wall."""
    chance = 1 / (1 + math.exp(-max(-500.0, min(500.0, math.log(load / at) / scale))))
    small = source.choice((2e-5, 1e-4, 1e-3, 1e-2)) if source.random() < chance else 0.0
    return max(small, 1 - 1.2 * at / load)


def noisy(at: float, load: float, source: random.Random) -> float:
    """A wall that moves by 0.3 % from trial to trial; one trial in 20 is disturbed."""
    lost = max(0.0, 1 - at * math.exp(source.gauss(0, 0.003)) / load)
    return max(lost, source.uniform(0.001, 0.02)) if source.random() < 0.05 else lost


LOADS: dict[str, Callable[[float, float, random.Random], float]] = {
    "sharp": sharp,
    "noisy": noisy,
    "wide, 1 %": partial(wide, 0.01),
    "wide, 4 %": partial(wide, 0.04),
}


def goals(
    texts: Sequence[str], width: float, sum_s: int, final_s: int = 1, exceed: float = 0.5
) -> tuple[SearchGoal, ...]:
    """Goals that differ by their loss ratio."""
    return tuple(
        replace(
            parse_goal(text), width=width, exceed_ratio=exceed, initial_trial_duration_ns=SECOND,
            final_trial_duration_ns=final_s * SECOND, duration_sum_ns=sum_s * SECOND,
        )
        for text in texts
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Goals of a search, as their texts and what all of them have."""

    name: str
    texts: tuple[str, ...] = ("loss = 0",)
    width: float = 0.005
    final_s: int = 1
    exceed: float = 0.5
    sums_s: tuple[int, int] = (USUAL_S, 5)
    """Of the library where none is asked for, and of this program."""

    def of(self, sum_s: int) -> tuple[SearchGoal, ...]:
        """The goals with this duration sum."""
        return goals(self.texts, self.width, sum_s, self.final_s, self.exceed)


CASES = (
    Case("loss 0, width 0.5 %"),
    Case("loss 0 and 0.5 %, width 0.5 %", ("loss = 0", "loss <= 0.5 %")),
    Case("loss 0, width 5 %", width=0.05),
    Case("RFC 2544: 60 s, width 0.5 %", final_s=60, exceed=0.0, sums_s=(60, 60)),
)


@dataclass(frozen=True)
class Searched:
    """Trials of a search, their time, and the relevant lower bound of each goal (None: there is none)."""

    trials: int
    seconds: float
    lower: tuple[float | None, ...]


def ours(spec: SearchSpec, measure: Measure) -> Searched:
    """The search of this program."""
    trials: list[LoadTrial] = []
    while len(trials) < MOST and (now := next_of(standings(trials, spec), len(trials))):
        assert now.next_load is not None
        trials.append(measure(now.next_load, now.next_duration_ns))
    return _searched(trials, spec)


def library(spec: SearchSpec, measure: Measure) -> Searched:
    """The search of MLRsearch, at the same loads' limits and for the same goals."""
    try:
        mlr = import_module("MLRsearch")
    except ImportError:
        raise SystemExit("the peer is missing: pip install MLRsearch==1.2.1") from None
    trials: list[LoadTrial] = []

    class Measurer(mlr.AbstractMeasurer):
        def measure(self, intended_duration: float, intended_load: float) -> object:
            trial = measure(round(intended_load), round(intended_duration * SECOND))
            trials.append(trial)
            return mlr.MeasurementResult(
                intended_duration=intended_duration, intended_load=intended_load, offered_count=10**9,
                loss_count=round(trial.loss_ratios[0] * 10**9), duration_with_overheads=intended_duration,
            )  # fmt: skip

    config = mlr.Config()
    config.goals = tuple(
        mlr.SearchGoal(
            loss_ratio=goal.loss_ratio, exceed_ratio=goal.exceed_ratio, relative_width=goal.width,
            initial_trial_duration=goal.initial_trial_duration_ns / SECOND,
            final_trial_duration=goal.final_trial_duration_ns / SECOND,
            duration_sum=goal.duration_sum_ns / SECOND, fail_fast=False,
        )
        for goal in spec.goals
    )  # fmt: skip
    config.min_load, config.max_load = float(spec.min_load), float(spec.max_load)
    config.search_duration_max, config.warmup_duration = 1e9, None
    mlr.MultipleLossRatioSearch(config).search(Measurer(), debug=lambda _: None)
    return _searched(trials, spec)


def _searched(trials: Sequence[LoadTrial], spec: SearchSpec) -> Searched:
    lower = []
    for place, goal in enumerate(spec.goals):
        sums = sums_of(trials, goal, place)
        lower.append(relevant_bounds((load, its.classified(goal)) for load, its in sums.items())[0])
    return Searched(len(trials), sum(trial.duration_ns for trial in trials) / SECOND, tuple(lower))


def simulated(kind: str, at: float, seed: int, of: int) -> Measure:
    """Trials at a simulated load; `of`: goals."""
    source = random.Random(seed)

    def measure(load: int, duration_ns: int) -> LoadTrial:
        lost = LOADS[kind](at, load, source)
        return LoadTrial(load, duration_ns, (lost,) * of, load * (1 - lost))

    return measure


async def run(pairs: int) -> list[dict[str, object]]:
    """Trials of a search, and how far its answer is from the library's by default (the same: within the goal width)."""
    rows = []
    for case in CASES:
        for kind in LOADS:
            rows += _rows(case, kind, 2 * pairs)
    return rows


def _rows(case: Case, kind: str, searches: int) -> list[dict[str, object]]:
    walls = [math.exp(random.Random(seed).uniform(math.log(1e5), math.log(1e8))) for seed in range(searches)]
    usual_s, own_s = case.sums_s
    whose = {
        f"MLRsearch, {usual_s} s": (library, usual_s, 0),
        f"MLRsearch, {own_s} s": (library, own_s, 0),
        f"iodyno, {usual_s} s": (ours, usual_s, 0),
        f"iodyno, {own_s} s": (ours, own_s, 0),
        "again": (library, usual_s, 1000),
    }
    found: dict[str, list[Searched]] = {}
    for name, (how, sum_s, other) in whose.items():
        spec = SearchSpec(case.of(sum_s), min_load=MIN_LOAD, max_load=MAX_LOAD)
        found[name] = [
            how(spec, simulated(kind, at, seed + other, len(spec.goals))) for seed, at in enumerate(walls)
        ]
    peer = found[f"MLRsearch, {usual_s} s"]
    trials = statistics.median(one.trials for one in peer)
    seconds = statistics.median(one.seconds for one in peer)
    rows = []
    for name, each in found.items():
        if name == "again":
            continue
        beside = found["again"] if each is peer else peer
        apart = [
            abs(a / b - 1) if a and b else math.inf
            for one, other in zip(each, beside, strict=True)
            for a, b in zip(one.lower, other.lower, strict=True)
        ]
        errors = [abs((one.lower[0] or math.inf) / at - 1) for one, at in zip(each, walls, strict=True)]
        mine, took = [one.trials for one in each], [one.seconds for one in each]
        rows.append({
            "goals": case.name,
            "load": kind,
            "search, duration sum": name,
            "trials": f"{statistics.median(mine):g} ({max(mine)})",
            "of the peer's": f"{statistics.median(mine) / trials:.2f}",
            "trial time, s": f"{statistics.median(took):g}",
            "of its time": f"{statistics.median(took) / seconds:.2f}",
            "same answer": f"{sum(one <= 1.001 * case.width for one in apart) / len(apart):.0%}",
            "off the truth": f"{statistics.median(errors):.2%} ({max(errors):.2%})",
        })  # fmt: skip
    return list({row["search, duration sum"]: row for row in rows}.values())


class _Library(Search):
    """Asks for the trials that the library asks for, so that both measure by the same means."""

    def begin(self, spec: SearchSpec) -> None:
        """Start the library, which waits for the result of each trial."""
        self._wanted: queue.Queue[tuple[int, int] | None] = queue.Queue()
        self._results: queue.Queue[LoadTrial] = queue.Queue()
        self._known = {self._points[0].id: []}

        def measure(load: int, duration_ns: int) -> LoadTrial:
            self._wanted.put((load, duration_ns))
            return self._results.get()

        def search() -> None:
            try:
                library(spec, measure)
            finally:
                self._wanted.put(None)

        threading.Thread(target=search, daemon=True).start()

    def ask(self) -> Sequence[Point]:
        """The load that the library wants next."""
        history = self._history[self._points[0].id]
        if history.stuck:
            raise SystemExit(f"a trial told nothing: {history.stuck}")
        if history.trials:
            self._results.put(history.trials[-1])
        wanted = self._wanted.get()
        if wanted is None:
            return ()
        load, duration_ns = wanted
        return [Point(f"p-{load}-{duration_ns}", {self._spec.factor: load}, duration_ns)]

    def answer(self) -> None:
        """Nothing beside the trials."""
        return


class _Silent(Watcher):
    """Says nothing."""


REAL = {
    "name": "link",
    "hosts": {"client": {"access": "netns"}, "server": {"access": "netns"}},
    "workload": {
        "kind": "stream", "sender": "client", "receiver": "server", "transport": "udp", "size": "1000B",
        "connections": 1, "arrivals": "constant", "link_rate": "2Mbit/s", "link_queue": "4KiB",
    },
    "search": {"goals": ["loss = 0"], "min_load": 20, "max_load": 2000, "search_duration": "600s"},
    "windows": {"warm_up": "200ms", "measured": "1s", "drain": "100ms", "interval": "1s"},
    "limits": {"background_window": "100ms"},
    "outcomes": ["loss_ratio"],
}  # fmt: skip
"""Datagrams of 1000 bytes through a link of 2 Mbit/s: what is offered beyond it fills its queue, and is lost."""


async def real(pairs: int) -> list[dict[str, object]]:
    """The same of datagrams through a link of 2 Mbit/s between two network namespaces, by the same trials."""
    rows = []
    for name, sum_s in (("MLRsearch", USUAL_S), ("iodyno", USUAL_S), ("MLRsearch", 5), ("iodyno", 5)):
        for _ in range(max(1, pairs // 5)):
            found = await _real(name, sum_s)
            print(f"  {name}, {sum_s} s: {found}", file=sys.stderr)
            rows.append({
                "search": name, "duration sum, s": sum_s, "trials": found.trials,
                "trial time, s": f"{found.seconds:g}", "relevant lower bound, 1/s": found.lower[0],
            })  # fmt: skip
    return rows


async def _real(name: str, sum_s: int) -> Searched:
    from iodyno import designs
    from iodyno.campaign.runner import run_campaign

    keys = {**REAL, "search": {**REAL["search"], "duration_sum": f"{sum_s}s", "width": 0.02}}
    experiment = parse_experiment(experiment_text(keys), environment={})
    assert experiment.search is not None
    design = designs.plan(experiment)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "campaign"
        strategy = (_Library if name == "MLRsearch" else Search)(experiment.search, design, place)
        if isinstance(strategy, _Library):
            strategy.begin(experiment.search)
        place.mkdir()
        await run_campaign(experiment, design, place, [strategy], resume=False, watcher=_Silent())
        return _searched(strategy._history[design.points[0].id].trials, experiment.search)
