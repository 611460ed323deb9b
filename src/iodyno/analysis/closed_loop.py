"""What the laws of operational analysis say of a closed loop, where nobody sees a single operation."""

from __future__ import annotations

from iodyno.analysis.dataset import Trial
from iodyno.analysis.measured import Measured, missing


def round_trip_mean(trial: Trial) -> Measured:
    """Mean time between two requests of a place of the loop in ns, by Little's law: N / X.

    N requests are always under way, X are answered per second (Little 1961; Denning and Buzen 1978). It holds the
    client's own time between answer and request, which a client in the kernel has hardly any of.
    """
    sender = trial.end("send")
    if sender is None:
        return missing("the trial has no sender")
    job = sender.manifest.get("job") or {}
    if job.get("workload") != "request_response" or job.get("arrivals") or job.get("think_ns"):
        return missing("only a closed loop without pauses has a number of requests under way that is known")
    under_way = int(job.get("connections") or 0) * int(job.get("outstanding") or 1)
    parts = [(record.operations, under_way * record.span_ns) for record in sender.measured]
    operations = sum(count for count, _ in parts)
    if not operations:
        return missing("no request was answered in the measured window")
    return Measured(
        sum(time for _, time in parts) / operations,
        tuple(time / count for count, time in parts if count),
        assumptions=("every request was answered: what is lost is not under way",),
    )
