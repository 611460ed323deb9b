"""Growth of a rate with the load: the Universal Scalability Law, and Amdahl's law as its case without coherency.

With N clients, threads or hosts (Gunther, Guerrilla Capacity Planning, 2007, chapter 4; the form with the rate of one as a
third parameter: Gunther, arXiv:0808.1431):

    X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))

`lambda` is the rate of one, `sigma` the share of the work that waits its turn (contention), `kappa` the cost that each
pair has (coherency). With kappa = 0 it is Amdahl's law (AFIPS 1967), whose rate never falls; with both 0 it is a line.

Four places are called the knee. They differ, and each function here says which one it gives: `peak`, `crossing`,
`power` and `marginal`. All take floats or numpy arrays of one shape; where a place does not exist they give infinity, which
the fits above turn into a reason.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid

Numbers = NDArray[np.float64]
Number = float | Numbers


def rate(loads: Number, lambda_per_s: Number, sigma: Number, kappa: Number) -> Numbers:
    """X(N) in the unit of `lambda_per_s` (Gunther 2007, equation 4.31, times the rate of one)."""
    n = np.asarray(loads, dtype=float)
    return np.asarray(lambda_per_s * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))


def peak(sigma: Number, kappa: Number) -> Numbers:
    """N of the greatest rate, sqrt((1 - sigma) / kappa) (Gunther 2007, equation 4.33); infinity where kappa is 0.

    It is 1 at the least: fewer clients than one there are not.
    """
    sigma, kappa = np.asarray(sigma, dtype=float), np.asarray(kappa, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.sqrt(np.maximum(1 - sigma, 0) / kappa)
    return np.where(kappa > 0, np.maximum(found, 1.0), np.inf)


def greatest_rate(lambda_per_s: Number, sigma: Number, kappa: Number) -> Numbers:
    """The rate at the peak; without one the limit lambda / sigma; infinity of a line. In the unit of `lambda_per_s`."""
    lam, sigma, kappa = (np.asarray(each, dtype=float) for each in (lambda_per_s, sigma, kappa))
    at = peak(sigma, kappa)
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = np.where(sigma > 0, lam / sigma, np.inf)
        return np.where(np.isfinite(at), rate(np.where(np.isfinite(at), at, 1.0), lam, sigma, kappa), limit)


def crossing(sigma: Number, kappa: Number) -> Numbers:
    """N* where the line of the first client, lambda N, meets the greatest rate: Xmax / lambda.

    The wall of operational analysis, N* = (D + Z) / Dmax (Denning and Buzen, ACM Computing Surveys 10:3, 1978), of this
    curve: 1 / sigma under Amdahl's law.
    """
    return greatest_rate(1.0, sigma, kappa)


def power(sigma: Number, kappa: Number) -> Numbers:
    """N of the greatest power X / R, with R = N / X (Kleinrock, ICC 1979); infinity of a line.

    d(X^2 / N) / dN = 0 gives 3 kappa N^2 + (sigma - kappa) N - (1 - sigma) = 0; (1 - sigma) / sigma without kappa.
    """
    sigma, kappa = np.asarray(sigma, dtype=float), np.asarray(kappa, dtype=float)
    half = sigma - kappa
    root = np.sqrt(half**2 + 12 * kappa * np.maximum(1 - sigma, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # 2c / (b + root) is the root that does not cancel where kappa is small.
        found = 2 * np.maximum(1 - sigma, 0) / (half + root)
    return np.maximum(np.where(np.isnan(found), np.inf, found), 1.0)


def gain(loads: Number, sigma: Number, kappa: Number) -> Numbers:
    """Return the gain of one more client at N, as a share of lambda: the derivative of X(N) / lambda. No unit."""
    n = np.asarray(loads, dtype=float)
    return np.asarray((1 - sigma - kappa * n**2) / (1 + sigma * (n - 1) + kappa * n * (n - 1)) ** 2)


def marginal(sigma: Number, kappa: Number, share: float) -> Numbers:
    """N from which on one more client adds less than `share` of lambda; infinity of a line.

    The gain falls with N, so the place is bisected. Raises ExperimentError when `share` is not between 0 and 1.
    """
    if not 0 < share < 1:
        raise ExperimentError(
            invalid(share, "more than 0 and less than 1"),
            where="share of the marginal gain",
            advice="0.1 is where a further client adds a tenth of what the first one has",
        )
    sigma, kappa = np.broadcast_arrays(np.asarray(sigma, dtype=float), np.asarray(kappa, dtype=float))
    low, high = np.ones(sigma.shape), np.full(sigma.shape, 2.0)
    for _ in range(60):
        high = np.where(gain(high, sigma, kappa) > share, 2 * high, high)
    for _ in range(100):
        middle = (low + high) / 2
        above = gain(middle, sigma, kappa) > share
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    endless = (sigma <= 0) & (kappa <= 0)
    return np.where(endless, np.inf, (low + high) / 2)
