"""Open loops: what was offered and achieved, response times, and how late the generator was.

A response counts from when its operation was to begin. What waits at the end of the measured window has no response
yet; to leave it out would omit the longest ones (coordinated omission). It counts with what it has waited so far, which
is less than what it will have: quantiles are then lower bounds, and say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from iodyno.analysis.histogram import Histogram, bucket_of, merge
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.script.analysis.bytes import operations_of
from iodyno.loads.script.analysis.time import worked

if TYPE_CHECKING:
    from iodyno.analysis.host_data import HostData
    from iodyno.analysis.trial import Trial

SENSOR = "arrivals"
CLOSED = "the loop is closed: operations begin when others end, and nobody says when they were to"
LATE_GAPS = 0.10
LATE_LEAST_NS = 100_000
"""A generator whose median lateness is above both, this part of the mean time between arrivals and this time, fell behind:
its arrivals are not those that were asked for (chosen: below a tenth of the gap, the law is kept; below 0.1 ms, twice what
a guest takes to wake up, response times are hardly changed)."""
LATE_SHARE = 0.10
"""Part of all the time before operations began, up to which lateness is what a load in excess makes of it: an agent's
lateness adds up as long as connections are never free (chosen: response times are at most this part the generator's)."""
CENSORED_LEAST = 0.01
"""Share of the arrivals that still waited from which on it is said (chosen: what changes a 99th percentile)."""
SPUN_LEAST = 0.02
"""Share of a CPU that was spent looking at the clock from which on it is said (chosen: as for the observer)."""
_STEPS = 100
"""Values that stand for the arrivals still waiting (chosen: one per cent of the longest wait apart)."""


def is_open(trial: Trial) -> bool:
    """Tell whether operations of the trial begin at arrivals."""
    sender = trial.end("send")
    return sender is not None and SENSOR in sender.readings


def offered(trial: Trial) -> Measured:
    """Operations per second that were to begin in the measured window."""
    return _per_second(trial, "arrivals.due")


def achieved(trial: Trial) -> Measured:
    """Operations per second that were completed in the measured window of an open loop."""
    return operations(trial) if is_open(trial) else missing(CLOSED)


def operations(trial: Trial) -> Measured:
    """Operations per second that the sender completed; of a stream, messages whose last byte its kernel accepted."""
    sender = trial.end("send")
    if sender is None:
        return missing("the trial has no sender")
    done = worked(trial, sender, transfers=False)
    # A script is counted from its first to its last operation: nothing is cut off.
    at_once = 0 if operations_of(sender.manifest) else _burst(sender)
    return total_ratio([(record.operations, span_ns) for record, span_ns in done], scale=1e9, at_once=at_once)


def messages_per_call(trial: Trial) -> Measured:
    """Messages that one call of who writes a stream handed over, on average: a batch; in an open loop, those due by then."""
    sender = trial.end("receive" if trial.direction == "reverse" else "send")
    if sender is None:
        return missing("the trial has no sender")
    handed = [found for record in sender.measured if (found := sender.batches.get(record.index))]
    if not handed:
        return missing("a call of this sender takes one message")
    # The histogram of messages a call has their number where others have nanoseconds.
    return total_ratio([(float(h.sum_ns), float(h.count)) for h in handed])


def missed_ratio(trial: Trial) -> Measured:
    """Of the arrivals that were due in the measured window, the share that was never begun.

    Arrivals begin in order, so that those that never did are the last ones: first what was due in the drain window, then in the
    measured one, and what is left was due in the warm-up.
    """
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing(CLOSED)
    due = sender.growth(SENSOR, "arrivals.due") or 0
    later = [record.index for record in sender.records if record.window == "drain"]
    readings = sender.readings[SENSOR]
    missed = sum(reading.values.get(("arrivals.missed", ""), 0) for reading in readings.values())
    after = sum(readings[i].values.get(("arrivals.due", ""), 0) for i in later if i in readings)
    return total_ratio(
        [(min(max(0, missed - after), due), due)], nothing="no arrival was due in the measured window"
    )


def response_time_mean(trial: Trial) -> Measured:
    """Mean response time in ns: from when an operation was to begin to its end."""
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing(CLOSED)
    parts = [(float(h.sum_ns), float(h.count)) for h in _with_waiting(sender)]
    return total_ratio(parts, nothing=_NOTHING, note=_note(sender))


def response_time_quantile(trial: Trial, q: float) -> Measured:
    """The q-quantile of the response time in ns."""
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing(CLOSED)
    return _quantile(sender, _with_waiting(sender), q, _note(sender))


def lateness_quantile(trial: Trial, q: float) -> Measured:
    """The q-quantile of how late operations were begun, in ns, without the time that they waited for a connection."""
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing(CLOSED)
    return _quantile(sender, _times(sender, "lateness"), q, "")


def fell_behind(trial: Trial) -> str | None:
    """Why a trial is void: its generator began operations late although connections were free. None: it did not."""
    if _asked_closed(trial):
        return None
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return None
    times = merge(_times(sender, "lateness"))
    late, due = times.quantile(0.5), sender.growth(SENSOR, "arrivals.due")
    if late is None or not due:
        return None
    waited_ns = sum(histogram.sum_ns for histogram in _times(sender, "waiting"))
    if times.sum_ns <= LATE_SHARE * (times.sum_ns + waited_ns):
        return None
    gap_ns = sender.measured_ns / due
    if late <= max(LATE_GAPS * gap_ns, LATE_LEAST_NS):
        return None
    return (
        f"the generator fell behind: half of its operations began more than {late / 1e9:.3g} s late, with a connection free"
        f" and {1e9 / gap_ns:.0f} due a second; the trial counts as failed, because its load is not the one"
        " that was asked for"
    )


def _asked_closed(trial: Trial) -> bool:
    """Tell whether the trial's jobs say that nothing arrives: then no row has to be read for it."""
    jobs = [host.job for host in trial.hosts.values()]
    return bool(jobs) and all(
        "arrivals" in job and job["arrivals"] is None and not job.get("script") for job in jobs
    )


def voided(trials: Iterable[Trial]) -> list[Trial]:
    """The trials; those whose generator fell behind are void, and do not count."""
    found = []
    for trial in trials:
        why = fell_behind(trial) if trial.finished else None
        for name, beside in trial.bystanders.items() if trial.finished else ():
            if why is None and (theirs := fell_behind(beside)):
                why = f"the {name}: {theirs}"
        if why is None:
            found.append(trial)
        else:
            warning = Warning(WarningCode.GENERATOR_BEHIND, why, trial.name)
            found.append(replace(trial, status="void", reason=why, warnings=(*trial.warnings, warning)))
    return found


def later_ratio(trial: Trial, most_ns: float) -> Measured:
    """Share of the operations whose response took longer than `most_ns`, those that waited still among them."""
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing("the loop is closed: there is no time at which operations were due")
    times = sender.all_times("response_time")
    waiting, oldest_ns = _left(sender)
    late = times.count_above(most_ns) + (waiting if oldest_ns > most_ns else 0)
    if not times.count + waiting:
        return missing("nothing was due in the measured window")
    return Measured(late / (times.count + waiting))


def longest_response_ns(trial: Trial) -> float:
    """Longest response of an open loop in the measured window, or the wait so far of what had none; 0: nothing was due."""
    sender = trial.end("send")
    if sender is None:
        return 0.0
    return max(sender.all_times("response_time").quantile(1.0) or 0.0, _left(sender)[1])


def check(trial: Trial) -> Iterator[Warning]:
    """Warnings about an open loop that does not void its trial."""
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return
    waiting, oldest_ns = _left(sender)
    complete = sum(h.count for h in _times(sender, "response_time"))
    due = sender.growth(SENSOR, "arrivals.due") or 1
    # Who became due just before the end waits for nobody: of more than was taken, the oldest waited while others became due.
    if waiting > CENSORED_LEAST * (complete + waiting) and oldest_ns > sender.measured_ns / due:
        count = f"{waiting} arrival{'s' if waiting != 1 else ''}"
        text = (
            f"{count} still waited when the measured window ended, the oldest for {oldest_ns / 1e6:.1f} ms:"
            " more was offered than the path took, and response times are lower bounds"
        )
        yield Warning(WarningCode.RESPONSE_CENSORED, text, trial.name)
    spun = (sender.growth(SENSOR, "arrivals.spun_ns") or 0) / sender.measured_ns if sender.measured_ns else 0
    if spun > SPUN_LEAST:
        text = (
            f"{sender.name}: {spun:.0%} of a CPU was spent looking at the clock, to begin operations on time;"
            " it is in that host's cost"
        )
        yield Warning(WarningCode.SPIN_IN_COST, text, trial.name)


_NOTHING = "no operation was completed in the measured window"


def _per_second(trial: Trial, metric: str) -> Measured:
    sender = trial.end("send")
    if sender is None or not is_open(trial):
        return missing(CLOSED)
    burst = _burst(sender)
    readings = sender.readings[SENSOR]
    parts = [
        (burst * readings[record.index].values.get((metric, ""), 0), record.span_ns)
        for record in sender.measured
        if record.index in readings
    ]
    return total_ratio(parts, scale=1e9, at_once=burst)


def _burst(sender: HostData) -> int:
    """Operations that begin together."""
    return int(sender.job.get("burst") or 1)


def _times(sender: HostData, kind: str) -> list[Histogram]:
    return sender.measured_times(kind)


def _left(sender: HostData) -> tuple[int, int]:
    """Arrivals that were due and not begun at the end of the measured window, and the wait of the oldest in ns.

    At the stop of the load, where no drain window follows, they are those that were missed.
    """
    readings = sender.measured_readings(SENSOR)
    if not readings:
        return 0, 0
    last = readings[-1].values
    waiting = last.get(("arrivals.backlog", ""), 0) + last.get(("arrivals.missed", ""), 0)
    return waiting, last.get(("arrivals.oldest_wait_ns", ""), 0)


def _with_waiting(sender: HostData) -> tuple[Histogram, ...]:
    """Response times of each interval; the last has those that still wait, spread evenly up to the oldest."""
    batches = _times(sender, "response_time")
    waiting, oldest_ns = _left(sender)
    if not waiting or not oldest_ns or not batches:
        return tuple(batches)
    shares = [waiting * (step + 1) // _STEPS - waiting * step // _STEPS for step in range(_STEPS)]
    so_far = (
        Histogram(count, count * value, (bucket_of(value),), (count,))
        for step, count in enumerate(shares)
        if count
        for value in (oldest_ns * (2 * step + 1) // (2 * _STEPS),)
    )
    return (*batches[:-1], merge([batches[-1], *so_far]))


def _note(sender: HostData) -> str:
    waiting, oldest_ns = _left(sender)
    if not waiting or not oldest_ns:
        return ""
    return f"at least: {waiting} arrivals that still waited count with their wait so far"


def _quantile(
    sender: HostData, batches: tuple[Histogram, ...] | list[Histogram], q: float, note: str
) -> Measured:
    filled = tuple(h for h in batches if h.count)
    merged = sender.together(filled)
    value = merged.quantile(q)
    if value is None:
        return missing(_NOTHING)
    # A quantile needs some values beyond it, or it is just the largest one seen. Chosen: 10 of them.
    if (1 - q) * merged.count < 10:
        return missing(f"only {merged.count} operations: too few for the {100 * q:g} % quantile")
    return Measured(value, batches=filled, quantile=q, note=note)
