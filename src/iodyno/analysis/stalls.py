"""Times without progress within the measured window, and which of them are stalls: no pauses that the load makes on purpose.

Progress is bytes or operations at the end that completes them: of a stream the one that receives, else the one that asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iodyno.analysis import arrivals
from iodyno.analysis.measured import Measured, missing
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.script.analysis.bytes import operations_of

if TYPE_CHECKING:
    from iodyno.analysis.host_data import HostData
    from iodyno.analysis.records import Part
    from iodyno.analysis.trial import Trial

LEAST_NS = 100_000_000
LEAST_RATIO = 0.05
"""Length of a gap, and share of the window, both of which it exceeds before it is said (chosen: what changes a rate by as much as
trials differ, and is longer than a busy machine keeps a load from a CPU)."""
OFTEN = 0.10
"""Share of the parts with progress that come after a gap half as long as the longest, beyond which a load is one that pauses
(chosen: accidents are fewer)."""
_PAUSING = ("delay", "block", "semblock", "eventlimit", "opslimit", "iopslimit", "bwlimit", "hog")
"""Calls of a file program that wait or compute."""


def longest_gap(trial: Trial) -> Measured:
    """The longest time in ns without progress in the measured window; of several clients, of the one that had the longest."""
    if any(operations_of(host.manifest) for host in trial.hosts.values()):
        return missing("a script waits when it is told to")
    found = [gap for end in _ends(trial) for gap in gaps(end.parts)]
    return Measured(float(max(found))) if found else missing("no end of the trial counts what it completes")


def check(trial: Trial) -> Iterator[Warning]:
    """Warnings about a load that stood still and was not to."""
    if longest_gap(trial).value is None:
        return
    ends = _ends(trial)
    all_bytes = sum(end.measured_bytes for end in ends)
    for end in ends:
        found, window_ns = gaps(end.parts), end.measured_ns
        gap_ns = max(found, default=0.0)
        if gap_ns <= max(LEAST_NS, LEAST_RATIO * window_ns) or _on_purpose(trial, found):
            continue
        share = end.measured_bytes / all_bytes if all_bytes else 1 / len(ends)
        more = (
            f"the rate without that would be {share * gap_ns / (window_ns - gap_ns):.0%} higher"
            if gap_ns < window_ns
            else "nothing was measured"
        )
        text = f"{end.name}: no byte and no operation for {gap_ns / 1e9:.2f} s of the {window_ns / 1e9:.2f} s measured: {more}"
        yield Warning(WarningCode.STALLED, text, trial.name)


def gaps(parts: Sequence[Part]) -> list[float]:
    """Nanoseconds without progress before each part that had some, and after the last.

    A host that is frozen does not count meanwhile: what it did before and after lies in one long part. Where such a part has
    less than half of what is usual in its time, that took as long as usual, and the rest of its time is without progress.
    """
    if not parts:
        return []
    of_bytes = any(part.bytes for part in parts)
    moved = [part.bytes if of_bytes else part.operations for part in parts]
    span_ns = sum(part.span_ns for part in parts)
    found: list[float] = []
    quiet_ns = 0.0
    for part, amount in zip(parts, moved, strict=True):
        if not (part.bytes or part.operations):
            quiet_ns += part.span_ns
            continue
        lacks_ns = part.span_ns - span_ns * amount / max(1, sum(moved))
        slept = part.span_ns > 2 * span_ns / len(parts) and lacks_ns > part.span_ns / 2
        found.append(max(quiet_ns, lacks_ns if slept else 0.0))
        quiet_ns = 0.0
    return [*found, quiet_ns]


def _ends(trial: Trial) -> list[HostData]:
    """The hosts that complete what the load does, each on its own."""
    if trial.clients:
        return list(trial.clients.values())
    sender = trial.end("send")
    if sender is not None and not sender.one_way:
        return [sender]
    if trial.direction == "both":
        return [host for host in trial.hosts.values() if host.role in ("send", "receive")]
    receiver = trial.end("receive")
    return [receiver] if receiver is not None else []


def _on_purpose(trial: Trial, found: Sequence[float]) -> bool:
    """Tell whether the longest of these gaps is one that the load makes: it pauses, or waits for an answer for as long as it
    always does; nothing was due; or there are many.
    """
    gap_ns = max(found)
    hosts = [*trial.hosts.values(), *trial.clients.values()]
    jobs = [host.job for host in hosts]
    usual_ns = max(map(_pause_ns, jobs), default=0) + max(map(_wait_ns, hosts), default=0.0)
    often = sum(2 * gap >= gap_ns for gap in found)
    return (
        2 * usual_ns >= gap_ns
        or any(map(_program_pauses, jobs))
        or (arrivals.is_open(trial) and 2 * arrivals.longest_response_ns(trial) < gap_ns)
        or (often > 1 and often > OFTEN * len(found))
    )


def _pause_ns(job: Mapping[str, Any]) -> int:
    disk = job.get("disk") or {}
    return sum(int(part.get(f"{what}_ns") or 0) for part in (job, disk) for what in ("think", "compute"))


def _wait_ns(host: HostData) -> float:
    """Return the usual time of an operation of a host, or the least round trip of its path where that is longer."""
    trips = (r.values.get(("tcp.min_rtt_ns", "of=max"), 0) for r in host.measured_readings("tcp_info"))
    return max(host.all_times().quantile(0.5) or 0.0, *trips, 0.0)


def _program_pauses(job: Mapping[str, Any]) -> bool:
    """Tell whether a file program has calls that wait, of any depth."""
    left: list[Any] = [job.get("files")]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            if one.get("call") in _PAUSING:
                return True
            left += one.values()
        elif isinstance(one, list):
            left += one
    return False
