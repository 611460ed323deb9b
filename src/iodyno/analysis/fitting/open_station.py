"""An open loop through one station with servers, behind a delay, as a curve of mean response times that can be fitted.

With arrivals at rate x, service S, m servers, a = x S and rho = a / m (Allen-Cunneen: Allen, Probability, Statistics and
Queueing Theory, 1990, section 5.2; exact for M/M/m, and by Pollaczek and Khinchine for M/G/1):

    R(x) = L + S + C(m, a) S / (m (1 - rho)) (scv_arrivals + scv_service) / 2

C is Erlang's probability of waiting, by the recursion of his loss formula, B(k) = a B(k-1) / (k + a B(k-1)). The squared
coefficient of variation of the service times is the measured one, variance / S^2, not assumed; 1 is the exponential.
"""

from __future__ import annotations

import numpy as np

from iodyno.analysis.fitting.curve import Model, Parameter
from iodyno.analysis.fitting.least_squares import Numbers


def open_response(
    theta: Numbers,
    loads: Numbers,
    servers: int = 1,
    scv_arrivals: float = 1.0,
    variance_s2: float | None = None,
) -> Numbers:
    """Mean response times in seconds; `theta` has rows of S and L in seconds, `loads` arrivals per second.

    `variance_s2`: of service times; None: exponential. Infinite where arrivals are more than the servers take.
    """
    service, delay = theta[:, :1], theta[:, 1:2]
    offered = loads[None, :] * service
    busy = offered / servers
    loss = np.ones_like(offered)
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    with np.errstate(all="ignore"):
        waits = loss / (1 - busy * (1 - loss))
        scv = 1.0 if variance_s2 is None else variance_s2 / service**2
        waiting = waits * service / (servers * (1 - busy)) * (scv_arrivals + scv) / 2
        return np.asarray(np.where(busy < 1, delay + service + waiting, np.inf))


def open_queue(servers: int = 1, scv_arrivals: float = 1.0, variance_s2: float | None = None) -> Model:
    """The open loop with `servers`: S and L in seconds where loads are per second.

    `variance_s2`: measured variance of service times in s^2; None: they are exponential.
    """
    kendall = ("M" if scv_arrivals == 1 else "G") + ("M" if variance_s2 is None else "G")

    def starts(loads: Numbers, values: Numbers) -> Numbers:
        most, least = float(loads.max()), float(values.min())
        rows = []
        for busy in (0.3, 0.6, 0.9, 0.99):
            service = min(busy * servers / most, least)
            rows.append([service, max(least - service, 1e-3 * least)])
        return np.array(rows)

    return Model(
        f"{kendall[0]}/{kendall[1]}/{servers}",
        f"an open loop with {servers} server{'s' if servers > 1 else ''} and a delay",
        (Parameter("service_s", "s", 1e-15), Parameter("delay_s", "s")),
        lambda theta, loads: open_response(theta, loads, servers, scv_arrivals, variance_s2),
        starts,
    )
