"""Results of a script: group by group, transaction by transaction, flowop by flowop, at both ends.

Rates are counts over the time in which the things counted were done: from the first to the last operation of a
transaction, not from the start of a command to its end; where iterations begin at a rate, each has the time to the next
(`time.py`). Several trials of a point are added up: counts, times and histograms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.analysis.arrivals import CENSORED_LEAST
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import labels_of
from iodyno.analysis.histogram import Histogram, merge
from iodyno.analysis.host_data import HostData
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.script.analysis.bytes import SENDS, TAKES
from iodyno.loads.script.analysis.time import extent_of, paced_by, span_of


@dataclass(frozen=True)
class Times:
    """Durations of `count` things, in ns; None where there were none."""

    count: int
    mean_ns: float | None
    p50_ns: float | None
    p99_ns: float | None
    max_ns: float | None


@dataclass(frozen=True)
class EndOfOperation:
    """One end of a flowop. `rate_per_s` and `bits_per_s`: over the time of its transaction."""

    call: str
    label: str
    operations: int
    bytes: int
    rate_per_s: float | None
    bits_per_s: float | None
    times: Times
    batches: Times | None
    failures: int
    failure_reason: str | None
    timeouts: int
    lost: int
    late: int
    duplicates: int


@dataclass(frozen=True)
class FoundOperation:
    """A flowop at the end that follows the profile, and at the other one, which is `host`. `cut`: how often it thought less than
    it was to, as the time of its transaction was over; that is in no count.
    """

    mine: EndOfOperation
    theirs: EndOfOperation | None
    host: str = ""
    cut: int = 0

    @property
    def lost(self) -> int:
        """Datagrams that one end waited for in vain: they did not come in time, or the other end never came to send them."""
        return self.mine.lost + (self.theirs.lost if self.theirs else 0)

    @property
    def loss_ratio(self) -> float | None:
        """The share of what the reading end waited for that was lost; None where nothing was lost."""
        if not self.lost or self.theirs is None:
            return None
        came = self.theirs.operations if self.mine.call in SENDS else self.mine.operations
        return self.lost / (self.lost + came)


@dataclass(frozen=True)
class FoundTransaction:
    """A transaction. `response` and `lateness`: where it has a rate, from when its iterations were to begin. `span_ns`: the time
    that its rates are over; `asked_ns`: how long it was to last, in all trials, where the script says so.
    """

    number: int
    iterations: int
    span_ns: int
    rate_per_s: float | None
    service: Times
    response: Times | None
    lateness: Times | None
    missed: int
    operations: tuple[FoundOperation, ...]
    asked_ns: int | None = None


@dataclass(frozen=True)
class FoundGroup:
    """A group. `bits_per_s`: payload that the taking ends got, over the time of the transactions that moved bytes."""

    name: str
    threads: int
    transactions: tuple[FoundTransaction, ...]
    sent_bytes: int
    taken_bytes: int
    moving_ns: int
    bits_per_s: float | None


@dataclass(frozen=True)
class FoundScript:
    """Results of the script at one point, over all its finished trials. `sender`: the host that follows the profile;
    `receivers`: those that it has to do with.
    """

    labels: Mapping[str, str]
    trials: int
    sender: str
    receivers: tuple[str, ...]
    groups: tuple[FoundGroup, ...]


def scripts_of(dataset: Dataset) -> tuple[FoundScript, ...]:
    """One for each point that has finished trials of a script."""
    points: dict[str, list[Trial]] = {}
    for trial in dataset.trials:
        ends = [*_ends(trial, "send"), *_ends(trial, "receive")]
        if trial.finished and len(ends) > 1 and all(map(_account, ends)):
            points.setdefault(trial.point, []).append(trial)
    return tuple(_script(dataset, trials) for trials in points.values())


def _ends(trial: Trial, role: str) -> list[HostData]:
    return [host for host in trial.hosts.values() if host.role == role]


def _account(host: HostData) -> Mapping[str, Any] | None:
    found = (host.manifest.get("result") or {}).get("script") or None
    return found if isinstance(found, Mapping) else None


def _script(dataset: Dataset, trials: Sequence[Trial]) -> FoundScript:
    (sender,) = _ends(trials[0], "send")
    receivers = tuple(host.name for host in _ends(trials[0], "receive"))
    sent = [account for trial in trials for host in _ends(trial, "send") if (account := _account(host))]
    taken = {
        name: [account for trial in trials if (account := _account(trial.hosts[name]))] for name in receivers
    }
    job = sender.job
    asked: Sequence[_Json] = (job.get("script") or {}).get("groups", ())
    groups = tuple(
        _group(
            asked[number]["transactions"] if asked else (),
            [a["groups"][number] for a in sent],
            {name: [a["groups"][number] for a in accounts] for name, accounts in taken.items()},
        )
        for number in range(len(sent[0]["groups"]))
    )
    labels = labels_of(dataset, trials[0].levels)
    return FoundScript(labels, len(trials), sender.name, receivers, groups)


_Json = Mapping[str, Any]
_OfHosts = Mapping[str, Sequence[_Json]]


def _group(asked: Sequence[_Json], mine: Sequence[_Json], theirs: _OfHosts) -> FoundGroup:
    transactions = tuple(
        _transaction(
            number + 1,
            asked[number] if asked else {},
            [group["transactions"][number] for group in mine],
            {host: [group["transactions"][number] for group in groups] for host, groups in theirs.items()},
            mine[0]["threads"],
        )
        for number in range(len(mine[0]["transactions"]))
    )
    every = [*mine, *(group for groups in theirs.values() for group in groups)]
    taken = sum(_moved(group, TAKES) for group in every)
    moving_ns = sum(_moving_ns(*ends) for ends in zip(mine, *theirs.values(), strict=True))
    return FoundGroup(
        mine[0]["name"],
        mine[0]["threads"],
        transactions,
        sum(_moved(group, SENDS) for group in every),
        taken,
        moving_ns,
        taken * 8e9 / moving_ns if moving_ns else None,
    )


def _moved(group: _Json, calls: Sequence[str]) -> int:
    return sum(o["bytes"] for t in group["transactions"] for o in t["operations"] if o["call"] in calls)


def _moving_ns(*ends: _Json) -> int:
    """From the first to the last operation of what moved bytes, at the end that has most to do: they have clocks of their own."""
    paced = paced_by([end["transactions"] for end in ends])
    extents = (extent_of(end["transactions"], paced, end["threads"], transfers=True) for end in ends)
    return max((last - first for first, last in filter(None, extents)), default=0)


def _transaction(
    number: int, asked: _Json, mine: Sequence[_Json], theirs: _OfHosts, threads: int
) -> FoundTransaction:
    paced = [paced_by([[end] for end in ends])[0] for ends in zip(mine, *theirs.values(), strict=True)]
    span_ns, *their_spans = (
        sum(span_of(one, keeps, threads) for one, keeps in zip(ends, paced, strict=True))
        for ends in (mine, *theirs.values())
    )
    their_ns = dict(zip(theirs, their_spans, strict=True))
    hosts = [_host_of(theirs, position) for position in range(len(mine[0]["operations"]))]
    iterations = sum(one["iterations"] for one in mine)
    return FoundTransaction(
        number,
        iterations,
        span_ns,
        _per_second(iterations, span_ns),
        _times([one["service_time"] for one in mine]),
        _optional([one.get("response_time") for one in mine]),
        _optional([one.get("lateness") for one in mine]),
        sum(one["missed_iterations"] for one in mine),
        tuple(
            FoundOperation(
                _end([one["operations"][position] for one in mine], span_ns),
                _end([one["operations"][position] for one in theirs[host]], their_ns[host]),
                host,
                _cut(asked["operations"][position], position, mine) if asked else 0,
            )
            for position, host in enumerate(hosts)
        ),
        len(mine) * duration_ns if (duration_ns := asked.get("until", {}).get("duration_ns")) else None,
    )


def _cut(asked: _Json, position: int, mine: Sequence[_Json]) -> int:
    """Count how often an operation that thinks was cut: iterations that count have all of the others."""
    if asked["call"] != "think":
        return 0
    times = asked.get("count", 1) * asked.get("repeat", 1)
    return sum(max(0, one["iterations"] * times - one["operations"][position]["operations"]) for one in mine)


def moved(trial: Trial, role: str, calls: Sequence[str]) -> int:
    """Bytes that these calls of the hosts of one end moved, from start to end."""
    groups = (g for host in _ends(trial, role) for g in (_account(host) or {}).get("groups", ()))
    return sum(_moved(group, calls) for group in groups)


def check(trial: Trial) -> Iterator[Warning]:
    """Warnings about the rates that a script asks for."""
    for host in _ends(trial, "send"):
        for group in (_account(host) or {}).get("groups", ()):
            for number, one in enumerate(group["transactions"], 1):
                missed = int(one["missed_iterations"])
                due = missed + int(one["iterations"])
                if missed > CENSORED_LEAST * due:
                    text = (
                        f"{group['name']}, transaction {number}: {missed} of {due} iterations that were due had not begun when"
                        " its time was over: a thread did not come to them before. More was asked than was done, and response"
                        " times are lower bounds"
                    )
                    yield Warning(WarningCode.RESPONSE_CENSORED, text, trial.name)


def _host_of(theirs: _OfHosts, position: int) -> str:
    """The other end of an operation: where it is something else than nothing."""
    calls = {host: ends[0]["operations"][position]["call"] for host, ends in theirs.items()}
    return next((host for host, call in calls.items() if call != "nop"), next(iter(calls)))


def _end(accounts: Sequence[_Json], span_ns: int) -> EndOfOperation:
    operations, moved = sum(a["operations"] for a in accounts), sum(a["bytes"] for a in accounts)
    greatest = [a["greatest_ns"] for a in accounts if a.get("greatest_ns") is not None]
    reasons = [a["failure_reason"] for a in accounts if a.get("failure_reason")]
    first = accounts[0]
    return EndOfOperation(
        first["call"],
        first["label"],
        operations,
        moved,
        _per_second(operations, span_ns),
        _per_second(moved * 8, span_ns) if first["call"] in (*SENDS, *TAKES) else None,
        _times([a["time"] for a in accounts], max(greatest, default=None)),
        _optional([a.get("sample_time") for a in accounts]),
        sum(a["failures"] for a in accounts),
        reasons[0] if reasons else None,
        sum(a["timeouts"] for a in accounts),
        sum(a["lost"] for a in accounts),
        sum(a["late"] for a in accounts),
        sum(a.get("duplicates", 0) for a in accounts),
    )


def _per_second(count: int, span_ns: int) -> float | None:
    return count * 1e9 / span_ns if span_ns else None


def _times(stored: Sequence[_Json], greatest_ns: float | None = None) -> Times:
    """The durations of all `stored` histograms. The greatest is that of its bucket where it is not known exactly."""
    each = [Histogram(h["count"], h["sum_ns"], tuple(h["buckets"]), tuple(h["counts"])) for h in stored]
    all_of_them = merge(each)
    last = all_of_them.quantile(1.0) if greatest_ns is None else greatest_ns
    return Times(
        all_of_them.count, all_of_them.mean, all_of_them.quantile(0.5), all_of_them.quantile(0.99), last
    )


def _optional(stored: Sequence[_Json | None]) -> Times | None:
    known = [one for one in stored if one]
    return _times(known) if known else None
