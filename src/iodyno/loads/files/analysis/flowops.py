"""Results of a file program, flowop by flowop, over the trials of a point; and its summary as users of Filebench expect it.

Rates are counts over the measured window. With several trials intervals are over trials, else over the intervals of one
(`analysis.interval`). Counts are sums over the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import labels_of
from iodyno.analysis.interval import NOT_NEGATIVE, estimate
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.loads.disk.analysis import classes
from iodyno.loads.files.core.attributes import READS, WRITES

NO_OPERATION = (
    "hog", "delay", "block", "wakeup", "semblock", "sempost", "eventlimit", "opslimit", "iopslimit", "bwlimit",
    "finishoncount", "finishonbytes", "composite",
)  # fmt: skip
"""Calls that do nothing to files: they compute, wait or end."""


@dataclass(frozen=True)
class FoundFlowop:
    """A flowop in all threads that have it. Times are service times in ns; `greatest_ns` is None where it was never done."""

    process: str
    thread: str
    name: str
    call: str
    operations: int
    bytes: int
    errors: int
    first_error: str | None
    rate_per_s: Estimate
    bytes_per_s: Estimate
    mean_ns: Estimate
    p50_ns: Estimate
    p99_ns: Estimate
    greatest_ns: int | None


@dataclass(frozen=True)
class Together:
    """All flowops that do something to files: the `IO Summary` of Filebench, with intervals."""

    operations: int
    operations_per_s: Estimate
    reads_per_s: float | None
    writes_per_s: float | None
    bytes_per_s: Estimate
    mean_ns: Estimate


@dataclass(frozen=True)
class FoundProgram:
    """Results of the program at one point over all its finished trials. `threads` are those of a client; `elapsed_ns` is a mean,
    from the start to the last flowop.
    """

    labels: Mapping[str, str]
    trials: int
    threads: int
    clients: tuple[str, ...]
    ends: tuple[str, ...]
    elapsed_ns: float
    together: Together
    flowops: tuple[FoundFlowop, ...]
    notes: tuple[str, ...]
    first_error: str | None


def programs_of(dataset: Dataset) -> tuple[FoundProgram, ...]:
    """One for each point that has finished trials of a file program."""
    points: dict[str, list[Trial]] = {}
    for trial in dataset.trials:
        if trial.finished and accounts_of(trial):
            points.setdefault(trial.point, []).append(trial)
    return tuple(_program(dataset, trials) for trials in points.values())


def accounts_of(trial: Trial) -> dict[str, Mapping[str, Any]]:
    """The account of the program on each client."""
    found = {}
    for name, host in trial.clients.items():
        account = (host.manifest.get("result") or {}).get("files")
        if isinstance(account, Mapping):
            found[name] = account
    return found


def _program(dataset: Dataset, trials: Sequence[Trial]) -> FoundProgram:
    accounts = [account for trial in trials for account in accounts_of(trial).values()]
    by_class: dict[str, list[Mapping[str, Any]]] = {}
    for account in accounts:
        for flowop in account["flowops"]:
            by_class.setdefault(flowop["class"], []).append(flowop)
    flowops = tuple(_flowop(trials, name, each) for name, each in by_class.items())
    elapsed_ns = sum(account["elapsed_ns"] for account in accounts) / len(accounts)
    return FoundProgram(
        labels_of(dataset, trials[0].levels),
        len(trials),
        int(trials[0].settings.get("connections", 1)),
        tuple(accounts_of(trials[0])),
        tuple(dict.fromkeys(_end(account) for account in accounts)),
        elapsed_ns,
        _together(trials, flowops),
        flowops,
        tuple(dict.fromkeys(note for account in accounts for note in account.get("notes") or ())),
        next((a["first_error"] for a in accounts if a.get("first_error")), None),
    )


_ENDS = {
    "windows": "with its time",
    "count": "by its count",
    "no_file": "because no file was left to take",
    "all_done": "when every thread was done",
    "stopped": "because it was stopped",
}


def _end(account: Mapping[str, Any]) -> str:
    by = account.get("ended_by")
    return _ENDS.get(account["end"], str(account["end"])) + (f" ({by})" if by else "")


def _flowop(trials: Sequence[Trial], name: str, each: Sequence[Mapping[str, Any]]) -> FoundFlowop:
    first = each[0]
    greatest = [one["greatest_ns"] for one in each if one.get("greatest_ns") is not None]
    found = partial(estimate, where=f"flowop {name}", possible=NOT_NEGATIVE)
    return FoundFlowop(
        first["process"],
        first["thread"],
        first["name"],
        first["call"],
        sum(one["operations"] for one in each),
        sum(one["bytes"] for one in each),
        sum(one["errors"] for one in each),
        next((one["first_error"] for one in each if one.get("first_error")), None),
        found([classes.operations_per_s(t, name=name) for t in trials], "1/s"),
        found([classes.bytes_per_s(t, name=name) for t in trials], "B/s"),
        found([classes.service_time_mean(t, name=name) for t in trials], "ns"),
        found([classes.service_time_quantile(t, q=0.5, name=name) for t in trials], "ns"),
        found([classes.service_time_quantile(t, q=0.99, name=name) for t in trials], "ns"),
        max(greatest, default=None),
    )


def _together(trials: Sequence[Trial], flowops: Sequence[FoundFlowop]) -> Together:
    def of(calls: Sequence[str]) -> float | None:
        known = [
            f.rate_per_s.estimate for f in flowops if f.call in calls and f.rate_per_s.estimate is not None
        ]
        return sum(known) if known else None

    found = partial(estimate, where="all flowops", possible=NOT_NEGATIVE)
    return Together(
        sum(f.operations for f in flowops if f.call not in NO_OPERATION),
        found([classes.operations_per_s(t) for t in trials], "1/s"),
        of(READS),
        of(WRITES),
        found([classes.bytes_per_s(t) for t in trials], "B/s"),
        found([classes.service_time_mean(t) for t in trials], "ns"),
    )
