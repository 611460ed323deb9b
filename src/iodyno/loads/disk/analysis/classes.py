"""Rates and times of a disk, in all and by class of operation; of all clients together, or of one.

Each client counts on its own clock over its own measured window. A service time is from when an operation is handed to
the kernel to its end; what an open loop adds to it (`response_time`) is counted from when it was to begin.
"""

from __future__ import annotations

from collections.abc import Callable

from iodyno.analysis.histogram import Histogram, merge
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial

NO_CLIENT = "the host is no client of this load"
LEAST_BEYOND = 10
"""Values beyond a quantile, or it is just the largest one seen (chosen, as for writes of a network)."""
_NAMES = {"fsync": ("fsync", "fdatasync", "msync")}
"""The classes of the agent that one outcome is of, where it is not one of the same name."""
_BESIDE = ("fsync", "truncate")
"""Classes that are not among all operations of a load on blocks, which are reads and writes; of a file program every one is."""
_OF_BLOCKS = {"read", "write", "truncate", *_NAMES["fsync"]}


def of(trial: Trial, host: str | None) -> HostData | None:
    """The client of that name, or all clients together; None: there is none."""
    return trial.end("send") if host is None else trial.clients.get(host)


def operations_per_s(trial: Trial, host: str | None = None, *, name: str | None = None) -> Measured:
    """Operations per second that were completed; of a class, or reads and writes."""
    return _rate(trial, host, name, lambda _, operations: operations)


def bytes_per_s(trial: Trial, host: str | None = None, *, name: str | None = None) -> Measured:
    """Bytes per second that were moved; of a class, or in all."""
    return _rate(trial, host, name, lambda moved, _: moved)


def errors_per_s(trial: Trial, host: str | None = None) -> Measured:
    """Operations per second that failed, of all classes."""
    client = of(trial, host)
    if client is None:
        return missing(NO_CLIENT)
    parts = [
        (sum(c[r.index].errors for c in client.classes.values() if r.index in c), r.span_ns)
        for r in client.measured
    ]
    return total_ratio(parts, scale=1e9)


def service_time_mean(trial: Trial, host: str | None = None, *, name: str | None = None) -> Measured:
    """Mean service time in ns; exact, from sums and counts."""
    found = _times(trial, host, name, "io")
    return total_ratio([(float(h.sum_ns), float(h.count)) for h in found], nothing=_nothing(name))


def in_flight(trial: Trial) -> float | None:
    """Operations that the load has in flight on average (Little's law), those that make writes durable among them; None: none was
    completed."""
    client = trial.end("send")
    more = _BESIDE if client and client.classes.keys() <= _OF_BLOCKS else ()
    parts = [
        (operations_per_s(trial, name=name).value, service_time_mean(trial, name=name).value)
        for name in (None, *more)
    ]
    return sum(done * time_ns for done, time_ns in parts if done and time_ns) / 1e9 or None


def service_time_quantile(
    trial: Trial, host: str | None = None, *, q: float, name: str | None = None
) -> Measured:
    """The q-quantile of the service time in ns, from merged histograms."""
    return _quantile(of(trial, host), _times(trial, host, name, "io"), q, name)


def response_time_quantile(trial: Trial, host: str | None = None, *, q: float, name: str) -> Measured:
    """The q-quantile of the response time of a class in ns; of what was completed in the measured window."""
    found = _times(trial, host, name, "response")
    client = of(trial, host)
    if not found and client is not None and not client.job.get("arrivals"):
        return missing(
            "the loop is closed: operations begin when others end, and nobody says when they were to"
        )
    return _quantile(client, found, q, name)


def _rate(
    trial: Trial, host: str | None, name: str | None, count: Callable[[float, float], float]
) -> Measured:
    client = of(trial, host)
    if client is None:
        return missing(NO_CLIENT)
    counted: list[tuple[int, int, int]] = list(client.parts)
    # Of a load that only reads, or only writes, all that it moved is that.
    if name is not None and (name not in ("read", "write") or set(client.classes) != {name}):
        counted = []
        for record in client.measured:
            each = [
                c[record.index]
                for n in _NAMES.get(name, (name,))
                if record.index in (c := client.classes.get(n, {}))
            ]
            done = (sum(one.bytes for one in each), sum(one.operations for one in each))
            counted.append((*done, record.span_ns))
    moved, operations = (sum(one[place] for one in counted) for place in (0, 1))
    # Of a class that did nothing nobody knows whether the load has it at all.
    one = (moved / operations, 1) if operations else (0, 0) if name else (_block_bytes(trial), 1)
    parts = [(count(moved, done), span_ns) for moved, done, span_ns in counted]
    return total_ratio(parts, scale=1e9, at_once=count(*one))


def _block_bytes(trial: Trial) -> int:
    """Return the bytes that one operation moves where all move the same; else 0."""
    block = trial.settings.get("block")
    return block if isinstance(block, int) else 0


def _times(trial: Trial, host: str | None, name: str | None, kind: str) -> list[Histogram]:
    client = of(trial, host)
    if client is None:
        return []
    by_index = client.histograms
    if name is not None:
        # A job has one way to make writes durable, so that one of these names has everything.
        found = (client.more_histograms.get(f"{kind}.{one}") for one in _NAMES.get(name, (name,)))
        by_index = next((histograms for histograms in found if histograms), {})
    return [by_index[r.index] for r in client.measured if r.index in by_index]


def _quantile(client: HostData | None, found: list[Histogram], q: float, name: str | None) -> Measured:
    batches = tuple(h for h in found if h.count)
    merged = client.together(batches) if client else merge(batches)
    value = merged.quantile(q)
    if value is None:
        return missing(_nothing(name))
    if (1 - q) * merged.count < LEAST_BEYOND:
        return missing(f"only {merged.count} operations: too few for the {100 * q:g} % quantile")
    return Measured(value, batches=batches, quantile=q)


def _nothing(name: str | None) -> str:
    return f"no {name or 'operation'} was completed in the measured window"
