"""The wall of a closed loop: from how many clients on the rate no longer rises, and each further one only waits.

By the asymptotic bounds of operational analysis (Muntz and Wong 1974; Denning and Buzen, ACM Computing Surveys 10:3, 1978;
Lazowska et al., Quantitative System Performance, 1984, chapter 5): with D the total service demand of a request, Z the
client's own time between answer and request, and Dmax the demand on the busiest resource,

    X(N) <= min(N / (D + Z), 1 / Dmax)          R(N) >= max(D, N Dmax - Z)          N* = (D + Z) / Dmax

N* is where the two bounds meet. Both sides are measured: D + Z is the cycle N / X(N) at the least load (Little's law;
with Z = 0 it is the mean response there), 1 / Dmax is the mean rate over the plateau, the loads at which the rate no
longer rises. So N* = N0 Xmax / X(N0). Nothing is extrapolated: without a plateau there is no wall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from iodyno.analysis import chance
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import FactorLevels, labels_of
from iodyno.analysis.interval import LEVEL, t_interval
from iodyno.analysis.measured import Measured
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.core.workload import Level
from iodyno.loads.base.analysis import load_of

CLIENTS = "connections"
"""The factor that counts the clients."""
RATE, RESPONSE = "operations_per_s", "latency_mean_ns"
LOADS_LEAST = 3
"""One for the way up and two for a plateau."""
FLAT = 0.05
"""Loads whose rates lie this near to their mean share a plateau (chosen: near the wall the rate is below its bound by
more, and averaging over it would put the wall too far left).
"""
FLAT_ELASTICITY = 0.1
"""Per cent by which the rate of a plateau may rise with one per cent more clients (chosen: loads that lie close together
differ by little even where the rate is proportional to them; there it is 1).
"""
PROPORTIONAL = 0.5
"""Elasticity beyond which the interval over a plateau may be nearer to proportional than to flat."""
OWN_WAIT = 0.5
"""Share of the waiting below which the senders' own side has most of it."""


@dataclass(frozen=True)
class Load:
    """A number of clients, and over its trials the rate and the mean response.

    `in_flight`: requests that a client has in flight at a time.
    """

    clients: int
    rates_per_s: tuple[float, ...]
    responses_ns: tuple[float, ...] = ()
    in_flight: int = 1

    @property
    def rate_per_s(self) -> float:
        """Mean rate over the trials."""
        return fmean(self.rates_per_s)


@dataclass(frozen=True)
class Wall:
    """The wall of one line, in clients, with what it is made of. What cannot be had is `missing` with its reason.

    `rate`: that of the plateau. `added_wait`: ns that each further client adds to every request: 1 / rate for each that
    it has in flight.
    `response`: the mean response at the least load. `levels`: of the other factors. `notes`: what its reader must know.
    """

    clients: Estimate
    rate: Estimate
    added_wait: Estimate
    response: Estimate
    loads: tuple[int, ...]
    plateau: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def walls_of(
    dataset: Dataset,
    finished: Sequence[Trial],
    measured: Mapping[str, Mapping[str, Measured]],
    factors: Sequence[FactorLevels],
) -> tuple[Wall, ...]:
    """The wall of every line (all other factors fixed) of a closed loop of requests at three loads or more."""
    along = next((factor for factor in factors if factor.name == CLIENTS), None)
    answered = load_of(dataset.experiment.get("workload")).answered
    searches = bool(dataset.experiment.get("search"))
    if along is None or len(along.levels) < LOADS_LEAST or not answered or searches:
        return ()
    lines: dict[tuple[tuple[str, Level], ...], dict[Level, list[Trial]]] = {}
    moving = {CLIENTS, *along.together}
    for trial in finished:
        if trial.settings.get("arrivals", "closed") != "closed" or CLIENTS not in trial.levels:
            continue
        others = tuple((name, level) for name, level in trial.levels.items() if name not in moving)
        lines.setdefault(others, {}).setdefault(trial.levels[CLIENTS], []).append(trial)
    rank = {factor.name: factor.levels for factor in factors}
    found = []
    for others in sorted(lines, key=lambda key: [rank[n].index(at) for n, at in key if n in rank]):
        loads = [_load(trials, measured) for trials in lines[others].values()]
        wall = locate([load for load in loads if load.rates_per_s])
        levels = dict(others)
        found.append(
            Wall(
                wall.clients, wall.rate, wall.added_wait, wall.response, wall.loads, wall.plateau, wall.notes,
                levels, labels_of(dataset, levels),
            )
        )  # fmt: skip
    return tuple(found)


def locate(loads: Sequence[Load]) -> Wall:
    """The wall of one line."""
    ordered = sorted(loads, key=lambda load: load.clients)
    response = _response(ordered)
    noise = _Noise.of(ordered)
    if len(ordered) < LOADS_LEAST:
        why = f"only {len(ordered)} numbers of clients have a rate, and {LOADS_LEAST} are the least"
        return _refused(ordered, response, why)
    if noise is None:
        return _refused(ordered, response, "every load has one trial, which tells nothing of how rates vary")
    first, last = _plateau(ordered, noise)
    flat, least = ordered[first : last + 1], ordered[0]
    if len(flat) == 1:
        return _refused(ordered, response, _no_plateau(ordered, first, noise))
    if unsure := _not_flat(flat, noise):
        return _refused(ordered, response, unsure)
    plateau, trials = tuple(load.clients for load in flat), sum(len(load.rates_per_s) for load in flat)
    top, variance = fmean(load.rate_per_s for load in flat), noise.of_plateau(flat)
    rate_method = f"mean over {len(flat)} loads of the plateau; t interval of its logarithm, {noise.freedom} degrees of freedom"
    rate = _around(top, noise.half(variance), trials, "1/s", rate_method)
    # The logarithm of 1 / X varies as that of X.
    wait_method = "requests of a client / rate of the plateau (R >= N Dmax - Z)"
    wait = _around(1e9 * least.in_flight / top, noise.half(variance), trials, "ns", wait_method)
    if first == 0:
        why = (
            f"the rate at the least load (N = {least.clients}) cannot be told from the greatest one: the wall is"
            " at or below it, or the rates vary too much"
        )
        return _refused(ordered, response, why, rate, wait, plateau)
    spread = noise.half(variance + noise.of_load(least))
    clients = _around(
        least.clients * top / least.rate_per_s,
        spread,
        trials + len(least.rates_per_s),
        "1",
        f"asymptotic bounds, N* = N0 Xmax / X(N0) with N0 = {least.clients}; delta method on logarithms,"
        f" t interval with {noise.freedom} degrees of freedom",
        _assumptions(least),
    )
    notes = (*_beyond(ordered, last, noise), *_cheaper(ordered, top, noise), *_own_wait(flat))
    return Wall(clients, rate, wait, response, tuple(load.clients for load in ordered), plateau, notes)


@dataclass(frozen=True)
class _Noise:
    """Variation of rates from trial to trial: the variance of their logarithms, pooled over the loads of a line.

    Pooled as in a one-way analysis of variance (Montgomery, Design and Analysis of Experiments, chapter 3), as few
    trials of one load tell little. Logarithms: what varies between trials goes with the rate.
    """

    variance: float
    freedom: int

    @classmethod
    def of(cls, loads: Sequence[Load]) -> _Noise | None:
        """From the loads with two trials or more; None where there is none."""
        logs = [[math.log(rate) for rate in load.rates_per_s] for load in loads]
        freedom = sum(len(each) - 1 for each in logs)
        if freedom < 1:
            return None
        return cls(sum((x - fmean(each)) ** 2 for each in logs for x in each) / freedom, freedom)

    def half(self, variance: float) -> float:
        """Half-width of the 95 % interval of a logarithm with this variance."""
        return float(chance.t.ppf((1 + LEVEL) / 2, self.freedom)) * math.sqrt(variance)

    def of_load(self, load: Load) -> float:
        """Variance of the logarithm of a load's mean rate (law of propagation, JCGM 100:2008, 5.1.2)."""
        return self.variance / len(load.rates_per_s)

    def of_plateau(self, loads: Sequence[Load]) -> float:
        """The same of a mean over loads, which may differ by more than their trials do.

        What they differ by besides is estimated by the method of moments (Montgomery, chapter 3: random effects).
        """
        count, logs = len(loads), [math.log(load.rate_per_s) for load in loads]
        within = fmean(self.of_load(load) for load in loads)
        between = sum((x - fmean(logs)) ** 2 for x in logs) / (count - 1) if count > 1 else 0.0
        return (within + max(0.0, between - within)) / count


def _plateau(loads: Sequence[Load], noise: _Noise) -> tuple[int, int]:
    """First and last of the most adjoining loads that share the greatest rate; the greatest alone where none does."""
    peak = max(range(len(loads)), key=lambda at: loads[at].rate_per_s)
    spans = [
        (first, last)
        for first in range(peak + 1)
        for last in range(peak, len(loads))
        if first < last and _is_flat(loads[first : last + 1], noise)
    ]
    return max(spans, key=lambda span: (span[1] - span[0], span[0]), default=(peak, peak))


def _is_flat(loads: Sequence[Load], noise: _Noise) -> bool:
    """Tell whether the rates of the loads cannot be told apart, or not by much, and do not rise with the clients.

    Told apart by the F test of a one-way analysis of variance (Montgomery, chapter 3); whether the first load is below
    the others, as it is before the wall, by a contrast, which sees less.
    """
    elasticity, half = _elasticity(loads, noise)
    rise, half_of_rise, _ = _step(loads[:1], loads[1:], noise)
    if elasticity > max(FLAT_ELASTICITY, half) or rise > max(FLAT, half_of_rise):
        return False
    logs = [(len(load.rates_per_s), math.log(load.rate_per_s)) for load in loads]
    middle = sum(n * log for n, log in logs) / sum(n for n, _ in logs)
    if max(abs(log - middle) for _, log in logs) <= FLAT:
        return True
    between = sum(n * (log - middle) ** 2 for n, log in logs) / (len(loads) - 1)
    return between <= noise.variance * float(chance.f.ppf(LEVEL, len(loads) - 1, noise.freedom))


def _elasticity(loads: Sequence[Load], noise: _Noise) -> tuple[float, float]:
    """Per cent of rate per per cent of clients, by least squares over all trials, and the half-width of its interval.

    Below the wall it is 1, beyond it 0 (slope of a simple regression of logarithms: Montgomery, chapter 10).
    """
    points = [(math.log(load.clients), math.log(rate)) for load in loads for rate in load.rates_per_s]
    middle = fmean(x for x, _ in points)
    spread = sum((x - middle) ** 2 for x, _ in points)
    return sum((x - middle) * y for x, y in points) / spread, noise.half(noise.variance / spread)


def _step(fewer: Sequence[Load], more: Sequence[Load], noise: _Noise) -> tuple[float, float, float]:
    """Logarithm of the rise of the rate, the half-width of its interval, and the logarithm of that of the clients."""
    rise = math.log(fmean(load.rate_per_s for load in more) / fmean(load.rate_per_s for load in fewer))
    growth = fmean(math.log(load.clients) for load in more) - fmean(math.log(load.clients) for load in fewer)
    # Here the variation of trials alone: loads that differ by more are the question.
    within = sum(sum(map(noise.of_load, side)) / len(side) ** 2 for side in (fewer, more))
    return rise, noise.half(within), growth


def _no_plateau(loads: Sequence[Load], peak: int, noise: _Noise) -> str:
    rises = peak == len(loads) - 1
    below, above = (loads[peak - 1], loads[peak]) if rises else (loads[peak], loads[peak + 1])
    step, half, _ = _step([below], [above], noise)
    interval = f"{_percent(step)} % [{_percent(step - half)}, {_percent(step + half)}]"
    between = f"{interval} from {below.clients} to {above.clients} clients"
    if abs(step) <= half:
        # Loads that differ by more than their trials do, and of which the two in question do not.
        at = f", {'the greatest load' if rises else 'beyond the greatest rate'}"
        return f"no plateau can be told: the rate changes by {between}{at}"
    if rises:
        return f"there is no plateau: the rate still rises by {between}, the greatest load"
    return (
        f"there is no plateau: the rate peaks at {below.clients} clients and changes by {between},"
        " so that what a request costs depends on the load"
    )


def _not_flat(flat: Sequence[Load], noise: _Noise) -> str | None:
    """Why loads that look like a plateau may be none; None: they are one."""
    elasticity, half = _elasticity(flat, noise)
    if elasticity + half <= PROPORTIONAL:
        return None
    return (
        f"rates vary too much to tell a plateau: from {flat[0].clients} to {flat[-1].clients} clients, 1 % more"
        f" clients may change the rate by {elasticity - half:.2f} to {elasticity + half:.2f} %"
    )


def _beyond(loads: Sequence[Load], last: int, noise: _Noise) -> list[str]:
    """Report a rate that falls again to the right of the plateau."""
    if last + 1 == len(loads):
        return []
    step, half, _ = _step([loads[last]], [loads[-1]], noise)
    if -step <= half:
        return []
    return [
        f"beyond {loads[last].clients} clients the rate falls, by {-100 * math.expm1(step):.3g} % at {loads[-1].clients}"
    ]


def _cheaper(loads: Sequence[Load], top: float, noise: _Noise) -> list[str]:
    """Report a cycle that is shorter at some load than at the least one, which no waiting explains.

    D + Z is taken from the least load; the bound X <= N / (D + Z) is broken where it is less under load.
    """
    least = loads[0]
    best = max(loads[1:], key=lambda load: load.rate_per_s / load.clients)
    rise, half, growth = _step([least], [best], noise)
    if rise - growth <= max(half, FLAT):
        return []
    lower = f"{best.clients * top / best.rate_per_s:.2g}"
    return [
        f"a request takes less with {best.clients} clients than with {least.clients}, as where sleeping CPUs must be"
        f" woken: by the cycle there, the wall lies at {lower}"
    ]


def _own_wait(flat: Sequence[Load]) -> list[str]:
    """Report waiting of further clients that is not in the response but on the senders' own side (their Z grows)."""
    first, last = flat[0], flat[-1]
    if not (first.responses_ns and last.responses_ns):
        return []
    cycles = 1e9 * (last.clients / last.rate_per_s - first.clients / first.rate_per_s)
    share = (fmean(last.responses_ns) - fmean(first.responses_ns)) / (cycles * first.in_flight)
    if share >= OWN_WAIT:
        return []
    return [
        f"only {100 * max(share, 0.0):.0f} % of what further clients wait is in their response time: most of it is"
        " spent on the senders' side, which may be what is full"
    ]


def _assumptions(least: Load) -> tuple[str, ...]:
    found = ["what a request asks of each resource does not depend on the load"]
    if least.clients * least.in_flight > 1:
        found.append(
            f"requests do not wait for each other with {least.clients * least.in_flight} in flight, the least load;"
            " where they do, the wall lies further left"
        )
    return tuple(found)


def _load(trials: Sequence[Trial], measured: Mapping[str, Mapping[str, Measured]]) -> Load:
    at, settings = trials[0].levels[CLIENTS], trials[0].settings
    rates = [measured[trial.name][RATE].value for trial in trials]
    responses = [measured[trial.name][RESPONSE].value for trial in trials]
    return Load(
        int(at),
        tuple(rate for rate in rates if rate),
        tuple(response for response in responses if response is not None),
        int(settings.get("queue_depth", 1)),
    )


def _response(loads: Sequence[Load]) -> Estimate:
    values = loads[0].responses_ns if loads else ()
    if not values:
        missing = "no response time is known at the least load"
        return Estimate(None, None, None, 0, "ns", "none", missing=missing)
    low, high = t_interval(values) if len(values) > 1 else (None, None)
    method = f"mean response at the least load (N = {loads[0].clients}); t interval over {len(values)} trials"
    return Estimate(fmean(values), low, high, len(values), "ns", method)


def _around(
    value: float, half: float, n: int, unit: str, method: str, assumptions: tuple[str, ...] = ()
) -> Estimate:
    """An estimate with an interval that is symmetric in its logarithm."""
    return Estimate(value, value / math.exp(half), value * math.exp(half), n, unit, method, assumptions)


def _refused(
    loads: Sequence[Load],
    response: Estimate,
    why: str,
    rate: Estimate | None = None,
    wait: Estimate | None = None,
    plateau: tuple[int, ...] = (),
) -> Wall:
    def nothing(unit: str) -> Estimate:
        return Estimate(None, None, None, 0, unit, "none", missing=why)

    clients = tuple(load.clients for load in loads)
    return Wall(nothing("1"), rate or nothing("1/s"), wait or nothing("ns"), response, clients, plateau)


def _percent(logarithm: float) -> str:
    return f"{100 * math.expm1(logarithm):.3g}"
