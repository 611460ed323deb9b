"""Rates: what the receiving application got, and what the sender's kernel accepted.

Each end is counted on its own clock over its own measured window; the receiver's count is the goodput. Where requests are
answered, both applications receive, and goodput is what the two got.
"""

from __future__ import annotations

from iodyno.analysis.histogram import Histogram, merge
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.loads.script.analysis.bytes import operations_of
from iodyno.loads.script.analysis.time import worked

_SEGMENTS_BYTES = 65536
"""The most that segmentation offload hands over together (`GRO_LEGACY_MAX_SIZE` of Linux)."""


def goodput(trial: Trial) -> Measured:
    """Payload bits per second delivered to the receiving application; of requests and answers, to both."""
    receiver = trial.end("receive")
    if receiver is None:
        return missing("the trial has no receiver")
    carried = worked(trial, receiver, transfers=True)
    at_once = bytes_at_once(trial)
    return total_ratio([(record.bytes, span_ns) for record, span_ns in carried], scale=8e9, at_once=at_once)


def bytes_at_once(trial: Trial) -> float:
    """Bytes that are counted together where they are received; 0 where the window cuts nothing off: of a script.

    A message comes as its bytes come, which are counted as they are taken: up to as many as segmentation offload hands over
    together. An answer counts when it is whole. A disk counts whole operations.
    """
    sender, receiver = trial.end("send"), trial.end("receive")
    if sender is None or operations_of(sender.manifest):
        return 0.0
    moved = sum(record.bytes for record in (receiver or sender).measured)
    done = sum(record.operations for record in sender.measured)
    size = trial.settings.get("size")
    each = moved / done if done else size if isinstance(size, int) else 0
    if receiver is None:
        return each
    return min(max(0, each - trial.response_bytes), _SEGMENTS_BYTES) + trial.response_bytes


def messages(trial: Trial) -> Measured:
    """Messages per second delivered to the receiving application: its bytes over the message size."""
    receiver, size = trial.end("receive"), trial.settings.get("size")
    if receiver is None or not isinstance(size, int) or size < 1:
        return missing("the trial has no receiver, or its messages have no fixed size")
    if trial.response_bytes:
        receiver = trial.end_alone("receive") or receiver
    parts = [(record.bytes / size, record.span_ns) for record in receiver.measured]
    at_once = min(size, _SEGMENTS_BYTES) / size
    return total_ratio(parts, scale=1e9, at_once=0 if operations_of(receiver.manifest) else at_once)


def connection_fairness(trial: Trial) -> Measured:
    """Jain's index of what the connections or flows carried in the measured window, by the end that completes them: of a
    stream the one that receives, else the one that asks.

    Whether all carry the same over a whole window; it has no interval within a trial, as nobody counts each connection in
    each of its intervals.
    """
    sender = trial.end("send")
    end = trial.end("receive") if sender is None or sender.one_way else sender
    if end is None:
        return missing("the trial lacks an end")
    result = end.manifest.get("result") or {}
    if trial.connections < 2:
        return missing("there is one connection: nobody to share with")
    if "connection_fairness_ppb" not in result:
        return missing("the agent that carried this out did not tell it")
    found = result["connection_fairness_ppb"]
    return missing("no connection carried anything") if found is None else Measured(found / 1e9)


def write_service_time_mean(trial: Trial) -> Measured:
    """Mean service time of a write in ns; exact, from sums and counts."""
    parts = [(float(h.sum_ns), float(h.count)) for h in _write_times(trial)]
    return total_ratio(parts, nothing="no write was completed in the measured window")


def write_service_time_quantile(trial: Trial, q: float) -> Measured:
    """The q-quantile of the service time of a write in ns, from merged histograms."""
    sender = trial.end("send")
    batches = tuple(h for h in _write_times(trial) if h.count)
    merged = sender.together(batches) if sender else merge(())
    value = merged.quantile(q)
    if value is None:
        return missing("no write was completed in the measured window")
    # A quantile needs some values beyond it, or it is just the largest one seen. Chosen: 10 of them.
    if (1 - q) * merged.count < 10:
        return missing(f"only {merged.count} writes: too few for the {100 * q:g} % quantile")
    return Measured(value, batches=batches, quantile=q)


def _write_times(trial: Trial) -> list[Histogram]:
    sender = trial.end("send")
    return sender.measured_times() if sender else []
