"""The points of a campaign as lines that a model can be fitted to: one for each combination of the other factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import FactorLevels, labels_of
from iodyno.analysis.fitting.curve import Load
from iodyno.analysis.histogram import Histogram, bounds_of, merge
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import TIMES_OF_REQUESTS, not_of
from iodyno.core.workload import Level

SATURATED = 0.98
"""Share of what was offered below which an open loop did not take it (chosen: the rate varies by some per cent of it)."""


@dataclass(frozen=True)
class Row:
    """A finished trial with its outcomes, None where missing."""

    trial: Trial
    outcomes: Mapping[str, float | None]


@dataclass(frozen=True)
class Variability:
    """Of single service times: mean in s, variance in s^2, how many, and at which load."""

    mean_s: float
    variance_s2: float
    count: int
    load: float

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        return self.variance_s2 / self.mean_s**2


@dataclass(frozen=True)
class Line:
    """A line along the load. `is_open`: loads are operations offered per second; else those in flight.

    `loads`: with the outcome of each trial; `responses`: with mean response times in s; `busy`: by host, its busy share of
    all its CPUs at each load; `cpus`: how many each host has. `arrivals`: the law of an open loop. `left_out`: loads that
    do not count, with the reason.
    """

    levels: Mapping[str, Level]
    labels: Mapping[str, str]
    is_open: bool
    loads: tuple[Load, ...]
    responses: tuple[Load, ...] = ()
    busy: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    cpus: Mapping[str, int] = field(default_factory=dict)
    variability: Variability | None = None
    arrivals: str = ""
    connections: int = 1
    left_out: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Levels of the other factors, as people write them."""
        return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in self.labels.items())


def rows_of(dataset: Dataset, outcomes: Mapping[str, Mapping[str, float | None]]) -> list[Row]:
    """Finished trials of the design with their outcomes, by the name of the trial."""
    return [
        Row(trial, outcomes[trial.name])
        for trial in dataset.trials
        if trial.finished and trial.name in outcomes
    ]


def lines_of(
    dataset: Dataset, rows: Sequence[Row], factors: Sequence[FactorLevels], along: FactorLevels, outcome: str
) -> list[Line]:
    """The lines along a factor that is a number. Where it is the connections or the requests in flight on each, the load is
    the product of both; where it is the rate of an open loop, the load is what was offered.
    """
    moving = {along.name, *along.together}
    varying = [each.name for each in factors if each.varies and each.name not in moving]
    found: dict[tuple[tuple[str, Level], ...], list[Row]] = {}
    for row in rows:
        if along.name in row.trial.levels:
            others = tuple((n, level) for n, level in row.trial.levels.items() if n not in moving)
            found.setdefault(others, []).append(row)
    rank = {factor.name: factor.levels for factor in factors}
    order = sorted(found, key=lambda key: [rank[n].index(at) for n, at in key if n in rank])
    lines = []
    for others in order:
        labels = labels_of(dataset, dict(others))
        shown = {name: labels[name] for name in varying if name in labels}
        lines.append(_line(found[others], dict(others), shown, along, outcome))
    return [line for line in lines if line.loads]


def _line(
    rows: Sequence[Row],
    levels: Mapping[str, Level],
    labels: Mapping[str, str],
    along: FactorLevels,
    outcome: str,
) -> Line:
    is_open = str(rows[0].trial.settings.get("arrivals", "closed")) != "closed"
    by_load: dict[float, list[Row]] = {}
    for row in rows:
        by_load.setdefault(_nominal(row.trial, along, is_open), []).append(row)
    loads, responses, left_out = [], [], []
    busy: dict[str, list[float | None]] = {}
    response = "response_time_mean_ns" if is_open else "write_service_time_mean_ns"
    if response in not_of(rows[0].trial.kind):
        response = TIMES_OF_REQUESTS[response]
    value = response if is_open else outcome
    first: list[Trial] = []
    for at, mine in sorted(by_load.items()):
        where = float(at)
        if is_open:
            offered = _mean(mine, "offered_operations_per_s")
            achieved = _mean(mine, "achieved_operations_per_s")
            if offered is None or achieved is None:
                left_out.append(f"{along.name} {at:g}: what was offered is not known")
                continue
            if achieved < SATURATED * offered:
                share = 100 * achieved / offered
                left_out.append(
                    f"{along.name} {at:g}: only {share:.0f} % of what was offered was done, so that response times grow"
                    " with the length of the trial"
                )
                continue
            where = offered
        scale = 1e-9 if value.endswith("_ns") else 1.0
        values = tuple(scale * x for row in mine if (x := row.outcomes.get(value)))
        if not values:
            left_out.append(f"{along.name} {at:g}: no trial has {value}")
            continue
        first = first or [row.trial for row in mine]
        loads.append(Load(where, values))
        times = tuple(1e-9 * x for row in mine if (x := row.outcomes.get(response)))
        if times:
            responses.append(Load(where, times))
        for host in mine[0].trial.hosts:
            busy.setdefault(host, []).append(_mean(mine, f"{host}.cpu_busy_ratio"))
    trial = rows[0].trial
    return Line(
        levels,
        labels,
        is_open,
        tuple(loads),
        tuple(responses),
        {host: tuple(shares) for host, shares in busy.items() if len(shares) == len(loads)},
        {host.name: len(host.cpus) for host in trial.hosts.values()},
        variability(first, loads[0].load) if loads else None,
        str(trial.settings.get("arrivals", "")) if is_open else "",
        trial.connections * int(trial.settings.get("queue_depth", 1)),
        tuple(left_out),
    )


def variability(trials: Sequence[Trial], load: float) -> Variability | None:
    """Of the service times that the senders of these trials counted; None where there are fewer than two.

    A bucket's values are taken to be spread evenly over it: its width^2 / 12 is added to the variance.
    """
    histograms: list[Histogram] = []
    for trial in trials:
        sender = trial.end("send")
        if sender is not None:
            histograms += [
                sender.histograms[each.index] for each in sender.measured if each.index in sender.histograms
            ]
    merged = merge(histograms)
    mean = merged.mean
    if merged.count < 2 or not mean:
        return None
    squares = 0.0
    for bucket, count in zip(merged.buckets, merged.counts, strict=True):
        low, high = bounds_of(bucket)
        squares += count * (((low + high - 1) / 2 - mean) ** 2 + ((high - low) ** 2 - 1) / 12)
    return Variability(mean * 1e-9, squares / (merged.count - 1) * 1e-18, merged.count, load)


def _nominal(trial: Trial, along: FactorLevels, is_open: bool) -> float:
    """The load that the trial was to have."""
    at = float(trial.levels[along.name])
    if is_open or along.name not in ("connections", "queue_depth"):
        return at
    other = "queue_depth" if along.name == "connections" else "connections"
    return at * float(trial.settings.get(other, 1))


def _mean(rows: Sequence[Row], outcome: str) -> float | None:
    known = [x for row in rows if (x := row.outcomes.get(outcome)) is not None]
    return sum(known) / len(known) if known else None
