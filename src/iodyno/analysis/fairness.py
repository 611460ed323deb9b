"""Fairness of service to the clients of one trial: of a load that needs no other end, or of the end of a network that has several
hosts; where both have, of the senders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial

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
    """Jain's index of the rates of the clients that were there to the end."""
    clients = _present(trial)
    if len(clients) < 2:
        return missing(_why_one(trial))
    whole = jain([_rate(client) for client in clients])
    if whole is None:
        return missing("no operation was completed in the measured window")
    by_index = [
        {r.index: _done(client, r) / r.span_ns for r in client.measured if r.span_ns} for client in clients
    ]
    shared = sorted(set.intersection(*(set(rates) for rates in by_index)))
    each = (jain([rates[index] for rates in by_index]) for index in shared)
    return Measured(whole, tuple(value for value in each if value is not None), note=_of_whom(trial))


def slowest_ratio(trial: Trial) -> Measured:
    """Rate of the slowest client over the mean of all that were there to the end."""
    return _over_mean(trial, min)


def fastest_ratio(trial: Trial) -> Measured:
    """Rate of the fastest client over the mean of all that were there to the end."""
    return _over_mean(trial, max)


def _over_mean(trial: Trial, pick: Callable[[Sequence[float]], float]) -> Measured:
    clients = _present(trial)
    if len(clients) < 2:
        return missing(_why_one(trial))
    rates = [_rate(client) for client in clients]
    mean = sum(rates) / len(rates)
    return Measured(pick(rates) / mean, note=_of_whom(trial)) if mean else missing("nothing was done")


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
    return [client for name, client in _clients(trial).items() if name not in lost]


def _clients(trial: Trial) -> Mapping[str, HostData]:
    """All that are served alike."""
    if trial.clients:
        return trial.clients
    ends: dict[str, dict[str, HostData]] = {"send": {}, "receive": {}}
    for name, host in trial.members.items():
        ends[host.role][name] = host
    return ends["send"] or ends["receive"]


def _of_whom(trial: Trial) -> str:
    lost = sorted(_lost(trial) & _clients(trial).keys())
    return f"without {', '.join(lost)}, lost on the way" if lost else ""


def _why_one(trial: Trial) -> str:
    whom = _of_whom(trial)
    return f"{whom}, there is one client" if whom else _ONE


def _rate(client: HostData) -> float:
    """Operations, or bytes of a stream, per ns of the measured window."""
    return sum(_done(client, r) for r in client.measured) / client.measured_ns if client.measured_ns else 0.0


def _done(client: HostData, record: Record) -> int:
    # Of a stream, the two ends do not count the same operations: who reads takes what has come.
    return record.bytes if client.one_way else record.operations
