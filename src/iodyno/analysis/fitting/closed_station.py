"""A closed loop through one station with servers, and a delay: the machine repair model as a curve that can be fitted.

N clients each spend Z outside and then need S at a station with m servers (M/M/m//N; with exponential S exact, and Z of
any distribution: Lazowska et al., Quantitative System Performance, 1984, chapter 8). With k at the station the rates of the
birth-death process are (N - k) / Z and min(k, m) / S. From k = m on they are those of a loss system with N - m servers and
a = m Z / S offered, so that Erlang's recursion B(n) = a B(n-1) / (n + a B(n-1)) sums them (Kleinrock, Queueing Systems I,
1975, sections 3.6 and 3.8); the m states below follow from detailed balance. With T_m = 1,

    T_(k-1) = T_k k Z / (S (N - k + 1))          X = (m + B sum k T_k) / (S (1 + B sum T_k)),  B = B(N - m),  k < m

All terms are positive: nothing cancels, and nothing overflows, whatever N. Up to N = m nobody waits: X = N / (S + Z).
"""

from __future__ import annotations

import numpy as np

from iodyno.analysis.fitting.curve import Model, Parameter
from iodyno.analysis.fitting.least_squares import Numbers


def closed_rate(theta: Numbers, loads: Numbers, servers: int = 1) -> Numbers:
    """Rates per second; `theta` has rows of S and Z in seconds, `loads` numbers of clients. Rows by loads.

    Between whole numbers of clients it is a line: a picture wants one, no theory.
    """
    service, delay = theta[:, 0], theta[:, 1]
    low, high = np.floor(loads).astype(int), np.ceil(loads).astype(int)
    clients = np.unique(np.concatenate([low, high]))
    each = np.zeros((len(theta), len(clients)))
    offered, loss, reached = servers * delay / service, np.ones(len(theta)), 0
    for column, n in enumerate(clients):
        if n <= servers:
            each[:, column] = n / (service + delay)
            continue
        for step in range(reached + 1, n - servers + 1):
            part = offered * loss
            loss = part / (step + part)
        reached = n - servers
        term, terms, busy = np.ones(len(theta)), np.zeros(len(theta)), np.zeros(len(theta))
        for k in range(servers, 0, -1):
            term = term * (k * delay / (service * (n - k + 1)))
            terms, busy = terms + term, busy + (k - 1) * term
        each[:, column] = (servers + loss * busy) / (service * (1 + loss * terms))
    part = loads - low
    return np.asarray(
        each[:, np.searchsorted(clients, low)] * (1 - part) + each[:, np.searchsorted(clients, high)] * part
    )


def closed_queue(servers: int = 1) -> Model:
    """The closed loop with `servers`: S and Z in seconds where rates are per second."""

    def starts(loads: Numbers, values: Numbers) -> Numbers:
        most, first = float(values.max()), float(loads[0] / values[0])
        rows = []
        for share in (0.9, 0.6, 0.3):
            service = min(servers / most, first) * share
            rows.append([service, max(first - service, 0.05 * first)])
        rows.append([servers / most, max(first - servers / most, 1e-3 * first)])
        return np.array(rows)

    name = "closed_queue" if servers == 1 else f"closed_queue_{servers}"
    title = f"a closed loop with {servers} server{'s' if servers > 1 else ''} and a delay"
    parameters = (Parameter("service_s", "s", 1e-15), Parameter("delay_s", "s"))
    return Model(name, title, parameters, lambda t, n: closed_rate(t, n, servers), starts)


def closed_general(variance_s2: float) -> Model:
    """One server in order of arrival whose service times have a measured variance, and a delay.

    Mean value analysis in which an arrival finds what is left of the service under way (Reiser, IEEE Transactions on
    Communications 27, 1979; Eager, Sorin and Vernon, SIGMETRICS 2000):

        R(n) = S (1 + Q(n - 1)) + U(n - 1) S (scv - 1) / 2          scv = variance / S^2

    Approximate; exact where scv is 1. `variance_s2` in s^2.
    """
    base = closed_queue()

    def values(theta: Numbers, loads: Numbers) -> Numbers:
        return _mean_values(theta, loads, variance_s2)

    title = "a closed loop with one server of measured variance and a delay"
    return Model("closed_general", title, base.parameters, values, base.starts)


def _mean_values(theta: Numbers, loads: Numbers, variance_s2: float) -> Numbers:
    service, delay = theta[:, 0], theta[:, 1]
    # What is left of a service, less a whole mean one: S (scv - 1) / 2. Never more than a server can be behind.
    rest = (variance_s2 / service - service) / 2
    queue, busy = np.zeros(len(theta)), np.zeros(len(theta))
    most = int(np.ceil(loads.max(initial=0.0)))
    rates = np.zeros((len(theta), most + 1))
    for n in range(1, most + 1):
        response = np.maximum(service * (1 + queue) + busy * rest, service)
        # A server cannot do more than one thing at a time, which the approximation does not know.
        rates[:, n] = np.minimum(n / (response + delay), 1 / service)
        busy = rates[:, n] * service
        queue = np.maximum(n - rates[:, n] * delay, busy)
    low, high = np.floor(loads).astype(int), np.ceil(loads).astype(int)
    part = loads - low
    return np.asarray(rates[:, low] * (1 - part) + rates[:, high] * part)


def closed_bounds() -> Model:
    """One server and a delay where nothing waits before the server is full, as where all times are constant.

    The asymptotic bounds themselves (Denning and Buzen, ACM Computing Surveys 10:3, 1978): X = min(N / (S + Z), 1 / S).
    """
    base = closed_queue()

    def values(theta: Numbers, loads: Numbers) -> Numbers:
        return np.asarray(np.minimum(loads[None, :] / theta.sum(axis=1)[:, None], 1 / theta[:, :1]))

    title = "a closed loop with one server and a delay, both constant"
    return Model("closed_bounds", title, base.parameters, values, base.starts)
