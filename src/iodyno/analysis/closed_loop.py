"""Laws of operational analysis, applied to a closed loop where nobody sees a single operation."""

from __future__ import annotations

from iodyno.analysis.datagrams import given_up_ns
from iodyno.analysis.measured import Measured, missing
from iodyno.analysis.trial import Trial

LOST_MOST = 0.01
"""Share of the loop's time that lost requests may have waited in vain (chosen: the mean is off by no more than that)."""


def round_trip_mean(trial: Trial) -> Measured:
    """Mean time between two requests of a place of the loop in ns, by Little's law: N / X.

    N requests are always in flight, X are answered per second (Little 1961; Denning and Buzen 1978). It holds the
    client's own time between answer and request, which a client in the kernel has hardly any of. A request that was lost is
    in flight until it is given up, and that is no round trip: where such waits matter, there is no mean.
    """
    sender = trial.end("send")
    if sender is None:
        return missing("the trial has no sender")
    job = sender.job
    if not sender.answered or job.get("arrivals") or job.get("think_ns"):
        return missing("only a closed loop without pauses has a number of requests in flight that is known")
    in_flight = int(job.get("connections") or 0) * int(job.get("queue_depth") or 1)
    parts = [(record.operations, in_flight * record.span_ns) for record in sender.measured]
    operations = sum(count for count, _ in parts)
    if not operations:
        return missing("no request was answered in the measured window")
    timeout_ns = int(job.get("response_timeout_ns") or 0)
    if given_up_ns(sender) > LOST_MOST * sum(time for _, time in parts):
        return missing(
            f"requests were lost and waited for `response_timeout` ({timeout_ns / 1e6:g} ms): more than {LOST_MOST:.0%} of the"
            " time that Little's law takes for round trips"
        )
    mean_ns = sum(time for _, time in parts) / operations
    return Measured(
        mean_ns,
        tuple(time / count for count, time in parts if count),
        assumptions=("nearly every request was answered: what is lost is in flight until it is given up",),
        resolution=mean_ns / operations,
    )
