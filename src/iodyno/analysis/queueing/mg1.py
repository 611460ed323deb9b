"""M/G/1: Poisson arrivals, one server, service times of which mean and variation are known."""

from __future__ import annotations

import math
from collections.abc import Callable

from iodyno.analysis.queueing.birth_death import poisson_mixture
from iodyno.analysis.queueing.embedded_chain import (
    Arrivals,
    GeometricTail,
    decay_root,
    infinite,
    over_of,
    with_tail,
)
from iodyno.analysis.queueing.md1 import md1
from iodyno.analysis.queueing.service import LEAST_MIXED, ErlangMixture, HyperExponential, law_of
from iodyno.analysis.queueing.station import Method, StationResult, check_open, check_squared_cv
from iodyno.analysis.queueing.times import Times, later_of_two_stages

SOURCE = "Pollaczek-Khinchine, Kleinrock 1975, 5.6"
_SETTLED = 1e-13
_MOST_PHASES = 400_000


def mg1(arrival_rate_per_s: float, service_time_s: float, squared_cv: float) -> StationResult:
    """The station M/G/1, first come first served; `squared_cv` = variance / mean^2 of the service times, as measured.

    Means are exact for every law with these two moments: W = rho s (1 + cv^2) / (2 (1 - rho)) (Pollaczek-Khinchine).
    Probabilities and quantiles are exact for one such law only, that of `service.law_of`, and say so in `time_method`.
    Raises ExperimentError for bad arguments or a utilisation of 1 or more.
    """
    busy = check_open(arrival_rate_per_s, service_time_s, 1, "M/G/1")
    check_squared_cv(squared_cv, "service times", "M/G/1")
    waiting_s = busy * service_time_s * (1 + squared_cv) / (2 * (1 - busy))
    law = law_of(service_time_s, squared_cv)
    waiting: Times | None = None
    response: Times | None = None
    states: Callable[[int], float] | None = None
    missing, name = "", "constant service"
    if law is None:
        missing = f"no quantiles: a squared coefficient of variation below {LEAST_MIXED:g} and above 0 has no law here; use md1"
    elif isinstance(law, ErlangMixture):
        name = law.name
        waiting, response = _phase_times(law, arrival_rate_per_s, busy)
        states = infinite(_arrivals(law, arrival_rate_per_s), busy).at
    elif isinstance(law, HyperExponential):
        name = law.name
        waiting, response, states = _two_rates(law, arrival_rate_per_s, busy)
    else:
        constant = md1(arrival_rate_per_s, service_time_s)
        waiting, response, states = constant.waiting, constant.response, constant.states
    return StationResult(
        model="M/G/1",
        servers=1,
        service_time_s=service_time_s,
        arrival_rate_per_s=arrival_rate_per_s,
        throughput_per_s=arrival_rate_per_s,
        utilisation=busy,
        response_time_s=service_time_s + waiting_s,
        waiting_time_s=waiting_s,
        queue_length=arrival_rate_per_s * waiting_s,
        number_in_system=busy + arrival_rate_per_s * waiting_s,
        method=Method(True, SOURCE),
        waiting=waiting,
        response=response,
        states=states,
        missing=missing,
        time_method=None
        if law is None
        else Method(False, f"exact if it is {name}: two moments leave the law open"),
    )


def _arrivals(law: ErlangMixture, rate_per_s: float) -> Arrivals:
    """Arrivals in one service: negative binomial, which is a Poisson count over an Erlang time."""
    share = rate_per_s / (rate_per_s + law.phase_per_s)
    by_phases = []
    for phases in (law.phases - 1, law.phases):
        weight, weights = math.exp(-phases * math.log1p(rate_per_s / law.phase_per_s)), []
        n = 0
        while weight > 1e-290 and n < 20_000:
            weights.append(weight)
            weight *= share * (n + phases) / (n + 1)
            n += 1
        by_phases.append(weights)
    fewer, all_of = by_phases
    longest = max(map(len, by_phases))
    mixed = [
        law.fewer_ratio * (fewer[n] if n < len(fewer) else 0.0)
        + (1 - law.fewer_ratio) * (all_of[n] if n < len(all_of) else 0.0)
        for n in range(longest)
    ]
    return over_of(mixed)


def _phase_times(law: ErlangMixture, rate_per_s: float, busy: float) -> tuple[Times, Times]:
    """Waiting and response time from the phases of work that an arrival finds, each exponential with the same rate.

    These are the states of a queue of single phases at which arrivals come in batches: phi(n) = rate / phase rate x sum over
    i < n of phi(i) P(phases >= n - i), by level crossing (Tijms 2003, 9.3). Then P(waiting > t) is the chance that fewer
    phases end in t than were found.
    """
    import numpy as np

    # weight[m - 1] is the share of flow that crosses m phases at once.
    weight = np.array([rate_per_s / law.phase_per_s * law.at_least(m) for m in range(1, law.phases + 1)])
    growth = decay_root([0.0, *weight.tolist()], 1 - busy)
    limit = math.log1p(growth)
    reversed_weight = weight[::-1]
    states = np.zeros(_MOST_PHASES)
    states[0], last, settled = 1 - busy, 0, 0
    while settled < 2 * law.phases and last + 1 < _MOST_PHASES and states[last] > 1e-290:
        last += 1
        begin = max(0, last - law.phases)
        states[last] = float(states[begin:last] @ reversed_weight[law.phases - (last - begin) :])
        near = states[last] > 0 and abs(math.log(states[last - 1] / states[last]) - limit) <= _SETTLED * max(
            1.0, limit
        )
        settled = settled + 1 if near else 0
    found = with_tail(states[: last + 1].tolist(), growth)
    stays = _with_own_phases(found, law)
    per_s, scale_s = law.phase_per_s, law.phases / law.phase_per_s
    return (
        Times(lambda t: poisson_mixture(per_s * t, found.more, growth), scale_s),
        Times(lambda t: poisson_mixture(per_s * t, stays, growth), scale_s),
    )


def _with_own_phases(found: GeometricTail, law: ErlangMixture) -> list[float]:
    """P(phases found + own phases > n), as long as that is not yet geometric."""
    length = len(found.more) + law.phases
    own = ((law.phases, 1 - law.fewer_ratio), (law.phases - 1, law.fewer_ratio))
    return [sum(part * found.above(n - phases) for phases, part in own if part) for n in range(length)]


def _two_rates(
    law: HyperExponential, rate_per_s: float, busy: float
) -> tuple[Times, Times, Callable[[int], float]]:
    """Waiting and response time, and states, which are sums of two exponential (geometric) terms.

    The transform of the wait is (1 - rho) (x + a)(x + b) / ((x + y)(x + z)) with a, b the two rates of service; y, z are the
    roots of w^2 - w (a + b - rate) + a b (1 - rho) (Kleinrock 1975, 5.7), one below the slow rate and one between both.
    """
    fast, slow = law.fast_per_s, law.slow_per_s
    total, product = fast + slow - rate_per_s, fast * slow * (1 - busy)
    larger = (total + math.sqrt(total * total - 4 * product)) / 2
    roots = (product / larger, larger)
    apart = roots[1] - roots[0]
    signs = (1 / apart, -1 / apart)
    waits = [(1 - busy) * (slow - z) * (fast - z) * sign / z for z, sign in zip(roots, signs, strict=True)]
    phases = ((law.fast_ratio, fast), (law.slow_ratio, slow))
    stays = [
        (1 - busy) * (law.fast_ratio * fast * (slow - z) + law.slow_ratio * slow * (fast - z)) * sign / z
        for z, sign in zip(roots, signs, strict=True)
    ]
    scale_s = 1 / roots[0]

    def waiting(time_s: float) -> float:
        return sum(part * math.exp(-z * time_s) for part, z in zip(waits, roots, strict=True))

    def response(time_s: float) -> float:
        both = sum(
            part * share * per_s * later_of_two_stages(z, per_s, time_s)
            for part, z in zip(waits, roots, strict=True)
            for share, per_s in phases
        )
        return min(1.0, law.exceeds(time_s) + both)

    def probability(customers: int) -> float:
        # Those left behind are those that came during one's response: Poisson over a sum of two exponential times.
        return sum(
            part * z / (rate_per_s + z) * (rate_per_s / (rate_per_s + z)) ** customers
            for part, z in zip(stays, roots, strict=True)
        )

    return Times(waiting, scale_s), Times(response, scale_s), probability
