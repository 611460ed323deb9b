"""For how long a script worked: rates are counts over the time from its first to its last transfer or operation.

The records of its trial go on until everything is closed and the link has said so, which is no part of any rate: a script of
3 ms would be divided by 20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iodyno.analysis.dataset import HostData, Record, Trial


def worked(trial: Trial, end: HostData, *, transfers: bool) -> list[tuple[Record, int]]:
    """The measured records of an end, each with the nanoseconds of it in which the load worked: all of them, but of a script
    those from its first to its last operation, or, with `transfers`, to the last that moved bytes.

    Several hosts of one end have clocks of their own and begin at one instant, from which their times count here.
    """
    extents = [
        found for host in _hosts(trial, end) if (found := _extent(host, transfers=transfers)) is not None
    ]
    if not extents or not end.records:
        return [(record, record.span_ns) for record in end.measured]
    begun_ns = end.records[0].begin_ns
    first, last = begun_ns + min(a for a, _ in extents), begun_ns + max(b for _, b in extents)
    return [
        (record, max(0, min(record.end_ns, last) - max(record.begin_ns, first))) for record in end.measured
    ]


def _hosts(trial: Trial, end: HostData) -> list[HostData]:
    return [host for host in trial.hosts.values() if host.role == end.role]


def _extent(host: HostData, *, transfers: bool) -> tuple[int, int] | None:
    """From the first to the last operation, counted from the begin of the host's first record; None: it carried out no script."""
    times = [
        (int(one["begin_ns"]), int(one["end_ns"]))
        for one in _operations(host)
        if one.get("begin_ns") is not None
        and one.get("end_ns") is not None
        and (one["bytes"] or not transfers)
    ]
    if not times or not host.records:
        return None
    begun_ns = host.records[0].begin_ns
    return min(a for a, _ in times) - begun_ns, max(b for _, b in times) - begun_ns


def _operations(host: HostData) -> Iterator[Mapping[str, Any]]:
    account = (host.manifest.get("result") or {}).get("script") or {}
    for group in account.get("groups", ()):
        for transaction in group["transactions"]:
            yield from transaction["operations"]
