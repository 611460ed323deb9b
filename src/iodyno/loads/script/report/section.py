"""Results of a script, as tables and sentences: a row for every group, transaction and flowop, both ends in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from iodyno.core.quantity import counted
from iodyno.loads.script.analysis.results import (
    EndOfOperation,
    FoundGroup,
    FoundOperation,
    FoundScript,
    FoundTransaction,
    Times,
)
from iodyno.report.estimate_json import number
from iodyno.report.numbers import quantity
from iodyno.report.tables import Cell, Column, Table

_TIMES = ("mean", "p50", "p99", "max")
_HOST = 9
"""The column that names the other end, where there are several."""
_OVERLONG = 1.1
"""Ratio of a transaction's time to the time asked above which it is mentioned (chosen: a rate by the time asked is as far off).
"""


def script_tables(scripts: tuple[FoundScript, ...]) -> list[Table]:
    """A table for each point."""
    return [_table(script) for script in scripts]


def script_sentences(scripts: tuple[FoundScript, ...]) -> list[str]:
    """State the facts in the numbers of a script that are easily overlooked: loss, failures, iterations that were missed."""
    return [sentence for script in scripts for sentence in _sentences(script)]


def script_json(script: FoundScript) -> dict[str, Any]:
    """Return the results of the script at a point, as values for JSON: an account of each end of every flowop, times in ns."""
    return {
        "labels": dict(script.labels),
        "trials": script.trials,
        "sender": script.sender,
        "receivers": list(script.receivers),
        "groups": [
            {
                "name": group.name,
                "threads": group.threads,
                "sent_bytes": group.sent_bytes,
                "taken_bytes": group.taken_bytes,
                "moving_ns": group.moving_ns,
                "bits_per_s": number(group.bits_per_s),
                "transactions": [_transaction_json(one, script.sender) for one in group.transactions],
            }
            for group in script.groups
        ],
    }


def _transaction_json(transaction: FoundTransaction, sender: str) -> dict[str, Any]:
    return {
        "number": transaction.number,
        "iterations": transaction.iterations,
        "missed_iterations": transaction.missed,
        "span_ns": transaction.span_ns,
        "rate_per_s": number(transaction.rate_per_s),
        "service_time": _times_json(transaction.service),
        "response_time": _times_json(transaction.response),
        "lateness": _times_json(transaction.lateness),
        "flowops": [
            {
                "ends": {
                    host: _end_json(end)
                    for host, end in ((sender, found.mine), (found.host, found.theirs))
                    if end is not None
                },
                "lost": found.lost,
                "loss_ratio": number(found.loss_ratio),
            }
            for found in transaction.operations
        ],
    }


def _end_json(end: EndOfOperation) -> dict[str, Any]:
    counts = (
        "call",
        "label",
        "operations",
        "bytes",
        "failures",
        "failure_reason",
        "timeouts",
        "lost",
        "late",
        "duplicates",
    )
    return {
        **{name: getattr(end, name) for name in counts},
        "rate_per_s": number(end.rate_per_s),
        "bits_per_s": number(end.bits_per_s),
        "time": _times_json(end.times),
    }


def _times_json(times: Times | None) -> dict[str, Any] | None:
    """Null where there are none of these times."""
    if times is None:
        return None
    return {name: value if name == "count" else number(value) for name, value in asdict(times).items()}


def _table(script: FoundScript) -> Table:
    levels = ", ".join(f"{name} {level}" for name, level in script.labels.items())
    title = f"Script{f', {levels}' if levels else ''}" + (
        f" ({script.trials} trials)" if script.trials > 1 else ""
    )
    several = len(script.receivers) > 1
    other = "other end" if several else script.receivers[0]
    columns = (
        Column(""),
        Column("count", script.sender),
        Column("bytes", script.sender),
        Column("/s", script.sender, "over the time from the first to the last operation of the transaction"),
        Column("bit/s", script.sender),
        *(Column(name, script.sender, "time of one operation") for name in _TIMES),
        *((Column("host", other),) if several else ()),
        Column("", other),
        Column("count", other),
        Column("bytes", other),
        Column("bit/s", other),
        Column("p99", other, "time of one operation"),
        Column("lost"),
        Column("failed"),
    )
    shown = [row for group in script.groups for row in _group(group)]
    if not several:
        shown = [[text for place, text in enumerate(row) if place != _HOST] for row in shown]
    rows = tuple(tuple(Cell(text) for text in row) for row in shown)
    return Table(title, columns, rows)


def _group(group: FoundGroup) -> Iterator[list[str]]:
    threads = f"{group.threads} thread" + ("s" if group.threads != 1 else "")
    yield [f"{group.name}, {threads}", *[""] * 16]
    for transaction in group.transactions:
        yield _transaction(transaction)
        yield from map(_operation, transaction.operations)


def _transaction(transaction: FoundTransaction) -> list[str]:
    name = f"  transaction {transaction.number}, {quantity(transaction.span_ns, 'ns')}"
    count = [str(transaction.iterations), "", quantity(transaction.rate_per_s, "1/s"), ""]
    missed = f"{transaction.missed} missed" if transaction.missed else ""
    return [name, *count, *_times(transaction.service), *[""] * 7, missed]


def _operation(found: FoundOperation) -> list[str]:
    mine, theirs = found.mine, found.theirs
    lost = str(found.lost) if found.lost else ""
    if found.loss_ratio is not None:
        lost += f" ({quantity(found.loss_ratio, '1', 'loss_ratio')})"
    failed = mine.failures + (theirs.failures if theirs else 0)
    other = [""] * 6
    if theirs is not None:
        other = [
            found.host,
            theirs.label,
            str(theirs.operations),
            _bytes(theirs),
            _bits(theirs),
            quantity(theirs.times.p99_ns, "ns"),
        ]
    return [
        f"    {mine.label}",
        str(mine.operations),
        _bytes(mine),
        quantity(mine.rate_per_s, "1/s"),
        _bits(mine),
        *_times(mine.times),
        *other,
        lost,
        str(failed) if failed else "",
    ]


def _times(times: Times) -> list[str]:
    return [quantity(ns, "ns") for ns in (times.mean_ns, times.p50_ns, times.p99_ns, times.max_ns)]


def _bytes(end: EndOfOperation) -> str:
    return quantity(end.bytes, "B") if end.bits_per_s is not None else ""


def _bits(end: EndOfOperation) -> str:
    return quantity(end.bits_per_s, "bit/s") if end.bits_per_s is not None else ""


def _sentences(script: FoundScript) -> Iterator[str]:
    for group in script.groups:
        if group.sent_bytes:
            # Which of them sent depends on the flowops: it stands in no column of one end.
            yield (
                f"{group.name}: both ends together sent {quantity(group.sent_bytes, 'B')} and got"
                f" {quantity(group.taken_bytes, 'B')}, {quantity(group.bits_per_s, 'bit/s')}."
            )
        for transaction in group.transactions:
            place = f"{group.name}, transaction {transaction.number}"
            if transaction.response is not None and transaction.lateness is not None:
                yield (
                    f"{place}: {quantity(transaction.rate_per_s, '1/s')} iterations; response time from when they were"
                    f" to begin: p50 {quantity(transaction.response.p50_ns, 'ns')},"
                    f" p99 {quantity(transaction.response.p99_ns, 'ns')}; half of them began more than"
                    f" {quantity(transaction.lateness.p50_ns, 'ns')} after that, {transaction.missed} not at all."
                )
            if transaction.asked_ns and transaction.span_ns > _OVERLONG * transaction.asked_ns:
                yield (
                    f"{place} took {quantity(transaction.span_ns, 'ns')} instead of {quantity(transaction.asked_ns, 'ns')}:"
                    " iterations that either end had begun were completed, and rates are over all of that time."
                )
            for found in transaction.operations:
                if found.cut:
                    yield (
                        f"{place}: the time of the transaction was over within {found.cut} of {found.mine.label}, which are"
                        " not counted."
                    )
                for host, end in ((script.sender, found.mine), (found.host, found.theirs)):
                    if end is not None and end.failures:
                        reason = f", the first of them: {end.failure_reason}" if end.failure_reason else ""
                        yield f"{place}: {end.failures} of {end.label} failed on {host}{reason}."
                    if end is not None and (end.duplicates or end.late):
                        yield f"{place}, {end.label} on {host}: {_set_aside(end)}; none was taken for another."
                if found.loss_ratio is not None:
                    yield (
                        f"{place}: {counted(found.lost, 'datagram')} of {found.mine.label} lost,"
                        f" {quantity(found.loss_ratio, '1', 'loss_ratio')} of those waited for."
                    )


def _set_aside(end: EndOfOperation) -> str:
    """State the number of datagrams that came but were not taken."""
    counts = ((end.duplicates, "came twice"), (end.late, "came after they had been given up"))
    return " and ".join(f"{counted(count, 'datagram')} {what}" for count, what in counts if count)
