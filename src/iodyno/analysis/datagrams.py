"""Loads of datagrams, each of which may be lost: how many came, how many did not, and how the server got at them.

From the load's own counters (`agent/cli/src/datagrams.rs`, `server.rs`). What was lost is known to the end that waits for
it: of requests and answers the sender, of a stream the receiver, to which the numbers show gaps.
"""

from __future__ import annotations

from collections.abc import Iterator

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.warnings import Warning, WarningCode

SENSOR = "datagram"
"""Name of the load's own counters of datagrams."""
_SERVER = "server"
_OVERFLOWS = ("counter=Udp.RcvbufErrors", "counter=Udp6RcvbufErrors")
"""Counters of datagrams that the kernel dropped because a socket's receive buffer was full (RFC 4113 has no name for it)."""
UNPACED_LEAST = 1.1
"""Times the pacing rate from which on it is said that nothing paces (chosen: bursts at the ends of the window are less)."""
FOREIGN_LEAST = 1
"""Foreign datagrams that are said: any, as they take the server's time."""


def datagrams_per_s(trial: Trial) -> Measured:
    """Datagrams that the receiver got per second, each once."""
    receiver = trial.end("receive")
    if receiver is None:
        return missing("the trial has no receiver")
    return _rate(receiver, SENSOR, "datagram.received", at_once=1)


def loss_ratio(trial: Trial) -> Measured:
    """Lost share of the requests, or of the datagrams of a stream."""
    end = who_waits(trial)
    if end is None:
        return missing("the trial lacks an end")
    keys = (("datagram.lost", ""), ("datagram.received", ""))
    readings = [r for r in end.measured_readings(SENSOR) if all(key in r.values for key in keys)]
    if not readings:
        return missing("nothing is lost where nothing goes by datagrams")
    parts = [(r.values[keys[0]], r.values[keys[0]] + r.values[keys[1]]) for r in readings]
    nothing = "nothing was lost or received in the measured window"
    return total_ratio(parts, nothing=nothing, counted="datagrams")


def server_polls_per_s(trial: Trial) -> Measured:
    """Times a second that the server had nothing to take and fell back to waiting."""
    return _of_server(trial, "server.polls")


def server_wakeups_per_s(trial: Trial) -> Measured:
    """Times a second that something came while the server waited, and woke it."""
    return _of_server(trial, "server.wakeups")


def polls_per_s(trial: Trial, host: str) -> Measured:
    """The same of a host, by its name."""
    return _rate(trial.hosts[host], _SERVER, "server.polls", at_once=1)


def server_batch_mean(trial: Trial) -> Measured:
    """Messages that one call or one look at a ring gave the server, on average."""
    receiver = trial.end("receive")
    if receiver is None:
        return missing("the trial has no receiver")
    taken = [found for r in receiver.measured if (found := receiver.batches.get(r.index))]
    if not taken:
        return missing("a call of this server takes one message")
    # The histogram of messages a call has their number where others have nanoseconds.
    return total_ratio([(float(h.sum_ns), float(h.count)) for h in taken])


def check(trial: Trial) -> list[Warning]:
    """Every warning that the datagrams of a trial raise."""
    return [*_lost(trial), *_disordered(trial), *_foreign(trial), *_fragments(trial), *_unpaced(trial)]


def who_waits(trial: Trial) -> HostData | None:
    """The end that knows what was lost."""
    sender = trial.end("send")
    if sender is not None and not sender.one_way:
        return sender
    return trial.end("receive")


def given_up_ns(host: HostData) -> int:
    """Return the time that requests of this host without an answer were in flight in the measured window: each until given up."""
    job = host.job
    if host.role != "send" or host.one_way:
        return 0
    each_ns = int(job.get("response_timeout_ns") or 0) * (1 + int(job.get("retries") or 0))
    return (host.growth(SENSOR, "datagram.lost") or 0) * each_ns


def _of_server(trial: Trial, metric: str) -> Measured:
    receiver = trial.end("receive")
    if receiver is None:
        return missing("the trial has no receiver")
    return _rate(receiver, _SERVER, metric, at_once=1)


def _rate(host: HostData, sensor: str, metric: str, *, at_once: float) -> Measured:
    readings = [r for r in host.measured_readings(sensor) if (metric, "") in r.values]
    if not readings:
        return missing(host.why_missing(sensor))
    return total_ratio([(r.values[metric, ""], r.span_ns) for r in readings], scale=1e9, at_once=at_once)


def _lost(trial: Trial) -> Iterator[Warning]:
    end = who_waits(trial)
    lost = end.growth(SENSOR, "datagram.lost") if end else None
    if end is None or not lost:
        return
    received = end.growth(SENSOR, "datagram.received") or 0
    late = end.growth(SENSOR, "datagram.late") or 0
    text = f"{lost} of {lost + received} datagrams were lost ({lost / (lost + received):.2%})"
    if late:
        text += f"; {late} came after they were counted as lost"
    full = {
        host.name: dropped
        for host in trial.hosts.values()
        if (dropped := sum(host.growth("tcp_ip", "tcp_ip.count", label) or 0 for label in _OVERFLOWS))
    }
    for name, dropped in full.items():
        text += f"; a full socket buffer on {name} cost {dropped}: try a larger `window`"
    yield Warning(WarningCode.DATAGRAMS_LOST, text, trial.name)


def _disordered(trial: Trial) -> Iterator[Warning]:
    end = who_waits(trial)
    if end is None:
        return
    phrases = {"duplicates": "came twice", "reordered": "came after a later one"}
    counts = {words: end.growth(SENSOR, f"datagram.{metric}") or 0 for metric, words in phrases.items()}
    if any(counts.values()):
        what = " and ".join(f"{count} {words}" for words, count in counts.items() if count)
        received = end.growth(SENSOR, "datagram.received") or 0
        yield Warning(
            WarningCode.DATAGRAMS_DISORDERED, f"of {received} datagrams that were received {what}", trial.name
        )


def _foreign(trial: Trial) -> Iterator[Warning]:
    for host in trial.hosts.values():
        foreign = host.growth(SENSOR, "datagram.foreign") or 0
        if foreign >= FOREIGN_LEAST:
            text = f"{foreign} datagrams that were none of the trial's were ignored"
            yield Warning(WarningCode.FOREIGN_CONNECTION, text, f"{trial.name}, host {host.name}")


def _unpaced(trial: Trial) -> Iterator[Warning]:
    """A rate that was asked for of sockets whose datagrams nothing paces: TCP does it itself, for others a qdisc."""
    sender = trial.end("send")
    if sender is None or not sender.measured_ns or not sender.measured_readings(SENSOR):
        return
    numbers = ((sender.manifest.get("ready") or {}).get("socket") or {}).get("numbers") or {}
    sockets = max((record.connections_active for record in sender.measured), default=0)
    may = (numbers.get("pacing_rate") or 0) * sockets
    sent = 8e9 * sender.measured_bytes / sender.measured_ns
    if may and sent > UNPACED_LEAST * may:
        text = (
            f"{sender.name}: the pacing rate was not kept, {sent / 1e6:.3g} of {may / 1e6:.3g} Mbit/s: of datagrams only the"
            " qdisc fq keeps it (`tc qdisc replace dev DEVICE root fq`)"
        )
        yield Warning(WarningCode.PHYSICS, text, trial.name)


def _fragments(trial: Trial) -> Iterator[Warning]:
    """Messages longer than the path takes whole are cut into fragments, and one lost fragment is the loss of all."""
    sender = trial.end("send")
    if sender is None or not sender.measured_readings(SENSOR):
        return
    ready, job = sender.manifest.get("ready") or {}, sender.job
    whole = (ready.get("socket") or {}).get("segment_bytes")
    ways = {"message_bytes": "messages"}
    if not sender.one_way:
        ways["response_bytes"] = "answers"
    for key, name in ways.items():
        size = job.get(key)
        if whole and size and size > whole:
            text = f"{name} of {size} bytes are cut into fragments: the path takes {whole} bytes whole"
            yield Warning(WarningCode.FRAGMENTS, text, trial.name)
