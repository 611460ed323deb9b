"""Fairness of service to the clients of one trial."""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.analysis.dataset import HostData, Trial
from iodyno.analysis.measured import Measured, missing

_ONE = "there is one client: nobody to share with"


def jain(rates: Sequence[float]) -> float | None:
    """Jain's fairness index of the rates: (sum x)^2 / (n sum x^2).

    1: all the same; 1/n: one has all (Jain, Chiu and Hawe, DEC-TR-301, 1984). None: there is no rate but 0.

    >>> jain([5, 5, 5]), jain([3, 0, 0])
    (1.0, 0.3333333333333333)
    """
    squares = len(rates) * sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / squares if squares else None


def fairness(trial: Trial) -> Measured:
    """Jain's index of the operations per second of the clients that were there to the end."""
    clients = _present(trial)
    if len(clients) < 2:
        return missing(_why_one(trial))
    whole = jain([_rate(client) for client in clients])
    if whole is None:
        return missing("no operation was completed in the measured window")
    by_index = [
        {r.index: r.operations / r.span_ns for r in client.measured if r.span_ns} for client in clients
    ]
    shared = sorted(set.intersection(*(set(rates) for rates in by_index)))
    each = (jain([rates[index] for rates in by_index]) for index in shared)
    return Measured(whole, tuple(value for value in each if value is not None), note=_of_whom(trial))


def slowest_ratio(trial: Trial) -> Measured:
    """Rate of the slowest client over the mean of all that were there to the end."""
    clients = _present(trial)
    if len(clients) < 2:
        return missing(_why_one(trial))
    rates = {client.name: _rate(client) for client in clients}
    mean = sum(rates.values()) / len(rates)
    slowest = min(rates, key=lambda name: rates[name])
    if not mean:
        return missing("nothing was done")
    return Measured(rates[slowest] / mean, note=_of_whom(trial))


def slowest(trials: Sequence[Trial]) -> tuple[str, float] | None:
    """The client with the least mean rate over these trials, and that over the mean of all; None: there is one client.

    Of a trial, those that were there to its end.
    """
    rates: dict[str, list[float]] = {}
    for trial in trials:
        for client in _present(trial):
            rates.setdefault(client.name, []).append(_rate(client))
    means = {name: sum(each) / len(each) for name, each in rates.items()}
    mean = sum(means.values()) / len(means) if means else 0.0
    if len(means) < 2 or not mean:
        return None
    name = min(means, key=lambda one: means[one])
    return name, means[name] / mean


def _lost(trial: Trial) -> set[str]:
    return {loss["host"] for loss in trial.manifest.get("losses") or ()}


def _present(trial: Trial) -> list[HostData]:
    """The clients that were not lost on the way: with those, the others had another share than before."""
    lost = _lost(trial)
    return [client for name, client in trial.clients.items() if name not in lost]


def _of_whom(trial: Trial) -> str:
    lost = sorted(_lost(trial) & trial.clients.keys())
    return f"without {', '.join(lost)}, lost on the way" if lost else ""


def _why_one(trial: Trial) -> str:
    whom = _of_whom(trial)
    return f"{whom}, there is one client" if whom else _ONE


def _rate(client: HostData) -> float:
    """Operations per ns of the measured window."""
    return sum(r.operations for r in client.measured) / client.measured_ns if client.measured_ns else 0.0
