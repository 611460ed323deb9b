"""For how long a script worked: rates are counts over the time of its transactions, from the first to the last operation of each.

The records of its trial go on until everything is closed and the link has said so, which is no part of any rate: a script of
3 ms would be divided by 20. Goodput is over the transactions that moved bytes, with what they think and wait between transfers:
connecting and closing have transactions of their own, in scripts that do them once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iodyno.loads.script.analysis.bytes import taken_bytes

if TYPE_CHECKING:
    from iodyno.analysis.host_data import HostData
    from iodyno.analysis.records import Part, Record
    from iodyno.analysis.trial import Trial

_Json = Mapping[str, Any]


def worked(trial: Trial, end: HostData, *, transfers: bool) -> list[tuple[Record | Part, int]]:
    """The measured records of an end, or their parts, each with the nanoseconds of it in which the load worked: all of them, but
    of a script those from its first to its last operation, or, with `transfers`, those of the transactions that moved bytes.

    Several hosts of one end have clocks of their own and begin at one instant, from which their times count here. The last
    record lasts for as long as what a rate owes to its last iteration.
    """
    extents = [
        found
        for host in trial.hosts.values()
        if host.role == end.role and (found := _extent(trial, host, transfers=transfers)) is not None
    ]
    measured = end.measured
    if not extents or not end.records or not measured:
        return [(part, part.span_ns) for part in end.parts]
    begun_ns = end.records[0].begin_ns
    first, last = begun_ns + min(a for a, _ in extents), begun_ns + max(b for _, b in extents)
    until_ns = [record.end_ns for record in measured[:-1]] + [max(last, measured[-1].end_ns)]
    return [
        (record, max(0, min(end_ns, last) - max(record.begin_ns, first)))
        for record, end_ns in zip(measured, until_ns, strict=True)
    ]


def extent_of(
    transactions: Sequence[_Json], paced: Sequence[_Json], threads: int, *, transfers: bool
) -> tuple[int, int] | None:
    """From the first to the last operation of a group at one end; with `transfers`, of its transactions that moved bytes.
    `paced`: as for `span_of`. None: there was none.
    """
    found = [
        (int(one["begin_ns"]), int(one["begin_ns"]) + span_of(one, keeps, threads))
        for one, keeps in zip(transactions, paced, strict=True)
        if _known(one) and (not transfers or any(operation["bytes"] for operation in one["operations"]))
    ]
    return (min(a for a, _ in found), max(b for _, b in found)) if found else None


def span_of(transaction: _Json, paced: _Json, threads: int) -> int:
    """Nanoseconds that the rates of a transaction are over: from its first to its last operation. Where its iterations begin at a
    rate, there is one time between begins fewer than iterations of each thread; each iteration has one here. `paced`: the
    account of the end that keeps the rate.
    """
    if not _known(transaction):
        return 0
    span_ns = int(transaction["end_ns"]) - int(transaction["begin_ns"])
    iterations = int(paced["iterations"])
    if not paced.get("response_time") or iterations <= threads:
        return span_ns
    service = paced["service_time"]
    # The last iteration lies behind the last of the begins.
    behind_ns = service["sum_ns"] / service["count"] if service["count"] else 0.0
    return round((span_ns - behind_ns) * iterations / (iterations - threads))


def paced_by(ends: Sequence[Sequence[_Json]]) -> list[_Json]:
    """Of each transaction the account of the end that keeps its rate; of one without a rate any. `ends`: those of each end."""
    return [
        next((one for one in each if one.get("response_time")), each[0]) for each in zip(*ends, strict=True)
    ]


def _extent(trial: Trial, host: HostData, *, transfers: bool) -> tuple[int, int] | None:
    """From the first to the last operation, counted from the begin of the host's first record; None: it carried out no script."""
    found = _extent_at(host.manifest, [one.manifest for one in trial.hosts.values()], transfers=transfers)
    if found is None or not host.records:
        return None
    begun_ns = host.records[0].begin_ns
    return found[0] - begun_ns, found[1] - begun_ns


def goodput_bits_per_s(hosts: Sequence[_Json]) -> float | None:
    """Goodput of a script, as its report will have it, by the accounts of all hosts of a trial in its manifest; None: it was no
    script, or moved nothing.
    """
    extents = [
        (begin - start_ns, end - start_ns)
        for host in hosts
        if host["role"] == "receive" and (found := _extent_at(host, hosts, transfers=True))
        for (begin, end), start_ns in [(found, host["result"]["start_ns"])]
    ]
    span_ns = max((end for _, end in extents), default=0) - min((begin for begin, _ in extents), default=0)
    return sum(taken_bytes(host) for host in hosts) * 8e9 / span_ns if span_ns else None


def _extent_at(host: _Json, hosts: Sequence[_Json], *, transfers: bool) -> tuple[int, int] | None:
    """From the first to the last operation at an end, on its clock, by the manifests of all; None: it carried out no script."""
    groups, every = _groups(host), [found for one in hosts if (found := _groups(one))]
    extents: list[tuple[int, int] | None] = []
    for number, group in enumerate(groups):
        paced = paced_by([one[number]["transactions"] for one in every])
        extents.append(extent_of(group["transactions"], paced, group["threads"], transfers=transfers))
    known = [extent for extent in extents if extent]
    return (min(a for a, _ in known), max(b for _, b in known)) if known else None


def _groups(host: _Json) -> Sequence[_Json]:
    groups: Sequence[_Json] = ((host.get("result") or {}).get("script") or {}).get("groups", ())
    return groups


def _known(transaction: _Json) -> bool:
    return bool(transaction.get("begin_ns") is not None and transaction.get("end_ns"))
