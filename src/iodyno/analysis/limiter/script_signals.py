"""Signals that a script gives in another way than a load of one kind of operation: its own account says what its threads did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from iodyno.analysis.limiter import flow_signals, signals
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.loads.script.analysis.bytes import SENDS, TAKES

PACED_LEAST = 0.8
"""Share of the threads' time that has to be at a rate for the rate to be what was offered (chosen: as of the intervals)."""
_Json = Mapping[str, Any]


def offered_reached(view: View) -> Signal:
    """Arrivals that were begun over those that were due; of a script, iterations of the transactions that have a rate."""
    if not _asked(view):
        return signals.offered_reached(view)
    done = due = paced_ns = 0.0
    for asked, found, threads in _transactions(view):
        if not (rate := asked.get("rate")):
            continue
        span_ns = threads * _span_ns(found)
        paced_ns += span_ns
        done += found["iterations"]
        # Threads begin at the rate each; what one was too late for it does later, or never.
        by_rate = span_ns * rate["iterations"] / rate["period_ns"]
        due += max(by_rate, found["iterations"] + found["missed_iterations"])
    if not due:
        return absent("experiment", "no transaction of the script has a rate")
    if paced_ns < PACED_LEAST * _whole_ns(view):
        return absent("experiment", "the script is not at a rate most of its time")
    return _every(view, done / due)


def waits_for_answers(view: View) -> Signal:
    """Share of time in which a connection waits for the answer to its one request; of a script, in which its threads are in
    exchanges: in the calls of transactions that send and take, and spend more time on taking.
    """
    if not _asked(view):
        return signals.waits_for_answers(view)
    waited = 0.0
    for _, found, _ in _transactions(view):
        sent, taken = (_in_calls(found, calls) for calls in (SENDS, TAKES))
        if sent and taken > sent:
            waited += sent + taken
    if not waited:
        return absent(
            "experiment", "no transaction of the script waits for an answer: concurrency is no limit"
        )
    return _every(view, waited / _whole_ns(view))


def blocked_in_sends(view: View) -> Signal:
    """Share of the interval in which a worker slept in calls that send at least; none where it sleeps for answers."""
    if view.sender.answered:
        return signals.nothing(view)
    blocked = signals.blocked(view)
    if not _asked(view):
        return blocked
    sending = sum(_in_calls(found, SENDS) for _, found, _ in _transactions(view)) / _whole_ns(view)
    return replace(blocked, values={i: min(value, sending) for i, value in blocked.values.items()})


def unsent_messages(view: View) -> Signal:
    """Bytes that the application wrote and the kernel has not sent yet, mean over the flows, in messages; of a script, in
    messages of their mean length.
    """
    if not _asked(view):
        return flow_signals.unsent_messages(view, int(view.trial.settings.get("size", 1)))
    calls = [
        call for _, found, _ in _transactions(view) for call in found["operations"] if call["call"] in SENDS
    ]
    count = sum(call["operations"] for call in calls)
    if not count:
        return absent("experiment", "this end of the script sends nothing")
    return flow_signals.unsent_messages(view, max(1.0, sum(call["bytes"] for call in calls) / count))


def send_buffer_used(view: View) -> Signal:
    """Congestion window over the send buffer that was asked for, else over what the experiment lets the kernel grow it to; of a
    script, where all its connections ask for the same.
    """
    grows_to = view.setting_of_sender("tcp_wmem_max")
    if not _asked(view):
        used = flow_signals.send_buffer_used(view)
        return used if used.values or not grows_to else flow_signals.window_over(view, grows_to)
    asked = {
        (operation.get("socket") or {}).get("send_buffer_bytes")
        for group in _asked(view)["groups"]
        for transaction in group["transactions"]
        for operation in transaction["operations"]
        if operation["call"] == "connect"
    }
    if len(asked) != 1:
        return absent("experiment", "connections of the script have send buffers of several sizes")
    # The kernel makes it twice as large (socket(7)), or less than that where net.core.wmem_max says so.
    size = asked.pop()
    return flow_signals.window_over(view, 2 * size if size else grows_to)


def _asked(view: View) -> _Json:
    found: _Json = view.sender.job.get("script") or {}
    return found


def _transactions(view: View) -> Iterator[tuple[_Json, _Json, int]]:
    """Of the sender: a transaction as asked and as accounted, and its threads."""
    account = (view.sender.manifest.get("result") or {}).get("script") or {"groups": ()}
    for asked, found in zip(_asked(view)["groups"], account["groups"], strict=False):
        for one, other in zip(asked["transactions"], found["transactions"], strict=True):
            if other["threads_done"]:
                yield one, other, other["threads_done"]


def _in_calls(found: _Json, calls: Sequence[str]) -> float:
    """Time of all threads in calls of these kinds. Of many a part is timed."""
    timed = [call for call in found["operations"] if call["call"] in calls and call["samples"]]
    return sum(float(call["time"]["sum_ns"] * call["operations"] / call["samples"]) for call in timed)


def _whole_ns(view: View) -> float:
    """Time of all threads in all transactions."""
    return sum(threads * _span_ns(found) for _, found, threads in _transactions(view)) or 1.0


def _span_ns(found: _Json) -> float:
    return float(max(0, found["end_ns"] - found["begin_ns"])) if found["begin_ns"] is not None else 0.0


def _every(view: View, value: float) -> Signal:
    return Signal({record.index: value for record in view.sender.measured}, "1", "script")
