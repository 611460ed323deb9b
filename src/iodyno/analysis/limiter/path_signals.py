"""Signals of the path: how full its link is, what its queues dropped, and how much of what was sent never arrived."""

from __future__ import annotations

from statistics import fmean, stdev

from iodyno.analysis import blocks, datagrams
from iodyno.analysis.flows import DEVICES, data_device
from iodyno.analysis.limiter.flow_signals import by_datagrams, gauge
from iodyno.analysis.limiter.signals import (
    Signal,
    View,
    absent,
    all_begun,
    grown,
    nothing,
    of_window,
    over,
    total,
)
from iodyno.analysis.readings import Reading

_INTERVALS_LEAST = 4
"""Intervals that tell how a rate varies (chosen)."""
_FRAME_OVERHEAD_BYTES = 66
"""Ethernet 14, IPv4 20, TCP 20 and its time-stamp option 12: what a segment carries beside its payload."""


def block_law(view: View) -> Signal:
    """Rate over that of a ring of blocks that never get full, over the whole window: a round of the loop may be as long as an
    interval.
    """
    found = blocks.law_ratio(view.trial)
    if found.value is None:
        return absent("experiment", found.missing or "")
    return of_window(view.sender, found.value, "records")


def _wire_bits_per_s(reading: Reading) -> float | None:
    """Bits on the wire of what arrived: payload that was acknowledged, in full segments. What is sent again was lost
    before, where a queue of the sender's dropped it, and took no time on the wire.
    """
    arrived, mss = total(reading, "tcp.acked_bytes", ("",)), gauge(reading, "tcp.snd_mss_bytes")
    if arrived is None or not mss:
        return None
    return arrived * (1 + _FRAME_OVERHEAD_BYTES / mss) * 8e9 / reading.span_ns


def link_rate(view: View) -> float | None:
    """Rate in bit/s of the slowest known part of the path: the shaper, else the device that carries the data."""
    shaped = (view.trial.manifest.get("path") or {}).get("link_rate") or {}
    if shaped.get("obtained"):
        return float(shaped["obtained"])
    device = data_device(view.sender)
    speeds = [
        value
        for reading in view.sender.measured_readings("net_devices")
        if (value := reading.values.get(("net.speed_bits_per_s", device or ""))) is not None
    ]
    return float(min(speeds)) if speeds else None


def link_used(view: View) -> Signal:
    """Bits on the wire over the rate of the link. Of datagrams, which nobody acknowledges, what left the sender's device."""
    rate = link_rate(view)
    if not rate:
        return absent(DEVICES, "the path has no known rate")
    if by_datagrams(view):
        sensor, metric, label = _way_out(view)
        return grown(view.sender, sensor, lambda r: over(total(r, metric, (label,)), r.span_ns * rate / 8e9))
    return grown(view.sender, "tcp_info", lambda r: over(_wire_bits_per_s(r), rate))


def pacing_used(view: View) -> Signal:
    """Payload that arrived over what all sockets may send by the pacing rate that was asked for; 0 where none is."""
    numbers = ((view.sender.manifest.get("ready") or {}).get("socket") or {}).get("numbers") or {}
    rate = numbers.get("pacing_rate")
    if not rate:
        return nothing(view)
    may = rate * view.connections / 8e9
    return grown(view.sender, "tcp_info", lambda r: over(total(r, "tcp.acked_bytes", ("",)), r.span_ns * may))


def _way_out(view: View) -> tuple[str, str, str]:
    """Sensor, metric and label of the bytes that leave the sender: of its shaper, which counts the headers of every frame that
    it cuts a larger one into; without one of the device, which does not.
    """
    device = (view.trial.manifest.get("path") or {}).get("device")
    for label in view.sender.labels("qdisc", "qdisc.sent_bytes"):
        if device and label == f"dev={device},kind=tbf":
            return "qdisc", "qdisc.sent_bytes", label
    return DEVICES, "net.tx_bytes", f"dev={device}" if device else data_device(view.sender) or ""


def link_filled(view: View) -> Signal:
    """Bits on the wire over the rate of the link; 0 where no rate is known: nothing says that a link is full."""
    return link_used(view) if link_rate(view) else nothing(view)


def held_back(view: View) -> Signal:
    """Times that a packet had to wait in a queue of this host for the rate of a shaper, or for the device, per packet. Of queues
    on the way of the data or of what answers them, without the lab's own shaper, whose rate is known.
    """
    labels = _queues(view)
    if not labels:
        return nothing(view)

    def of(reading: Reading) -> float | None:
        waits = [total(reading, f"qdisc.{name}", labels) for name in ("overlimits", "requeues")]
        return over(sum(count or 0.0 for count in waits), total(reading, "qdisc.sent_packets", labels) or 0)

    return grown(view.host, "qdisc", of)


def waiting_packets(view: View) -> Signal:
    """Packets that wait in those queues at the end of the interval: where some always do, they never run dry."""
    labels = _queues(view)
    if not labels:
        return nothing(view)
    return grown(view.host, "qdisc", lambda r: total(r, "qdisc.backlog_packets", labels))


def unsteady(view: View) -> Signal:
    """Return the variation of the rate at which bytes left those queues: its standard deviation over the intervals, over its
    mean. A shaper that always has something to pass on lets through the same.
    """
    labels = _queues(view)
    if not labels:
        return nothing(view)
    readings = view.host.measured_readings("qdisc")
    rates = [over(total(r, "qdisc.sent_bytes", labels), r.span_ns) for r in readings]
    known = [rate for rate in rates if rate is not None]
    mean = fmean(known) if len(known) >= _INTERVALS_LEAST else 0.0
    return of_window(view.host, stdev(known) / mean if mean else None, "qdisc", "too few intervals to tell")


def _queues(view: View) -> tuple[str, ...]:
    """Labels of queues that passed something on, on the device that the host's data leave by, and on such as take in what comes
    by it (ifb).
    """
    path = view.trial.manifest.get("path") or {}
    own = f"dev={path['device']}" if view.host is view.sender and path.get("device") else None
    ways = {own or data_device(view.host)}
    if own and (path.get("link_rate") or {}).get("obtained"):
        ways = set()
    return tuple(
        label
        for label in view.host.labels("qdisc", "qdisc.overlimits")
        if (label.partition(",")[0] in ways or label.startswith("dev=ifb"))
        and view.host.growth("qdisc", "qdisc.sent_packets", label)
    )


def queue_drops(view: View) -> Signal:
    """Packets that queues on the sender's side dropped, over the data segments sent, in the whole window. Of datagrams over what
    came to the queues.

    Of the sender's own devices; without that sensor, of the shaper, which counts the whole trial.
    """
    host = view.sender
    labels = host.labels("qdisc", "qdisc.drops")
    dropped = sum(host.growth("qdisc", "qdisc.drops", label) or 0 for label in labels)
    if by_datagrams(view):
        passed = sum(host.growth("qdisc", "qdisc.sent_packets", label) or 0 for label in labels)
        sent: int | None = passed + dropped
    else:
        sent = host.growth("tcp_info", "tcp.data_segments_out")
    if labels and sent:
        return of_window(host, dropped / sent, "qdisc")
    shaper = (view.trial.manifest.get("path") or {}).get("shaper") or {}
    if shaper.get("drops") is not None and shaper.get("packets"):
        return of_window(host, shaper["drops"] / (shaper["packets"] + shaper["drops"]), "tc -s")
    return absent("qdisc", host.why_missing("qdisc"))


def lost(view: View) -> Signal:
    """Share of the datagrams that never arrived; of requests, those without an answer in time. 0 where nothing goes by datagrams,
    or nobody counted them: nothing says that any was lost. An interval in which none came or was missed is as all together.
    """
    end = datagrams.who_waits(view.trial)
    growth = {
        name: end.growth(datagrams.SENSOR, f"datagram.{name}") if end else None
        for name in ("lost", "received")
    }
    if end is None or growth["lost"] is None or growth["received"] is None:
        return nothing(view)
    both = growth["lost"] + growth["received"]
    in_all = (
        growth["lost"] / both if both else float(bool(view.sender.growth(datagrams.SENSOR, "datagram.sent")))
    )

    def of(reading: Reading) -> float | None:
        gone, came = (total(reading, f"datagram.{name}") for name in ("lost", "received"))
        if gone is None or came is None:
            return None
        return gone / (gone + came) if gone + came else in_all

    return grown(end, datagrams.SENSOR, of)


def sender_ahead(view: View) -> Signal:
    """Arrivals that were begun over those that were due, in the whole measured window, of a sender of datagrams, which nothing on
    the path holds up. 0 where no rate is offered, and where the sender waits for the path: it may be what holds the load up.
    """
    begun = all_begun(view.sender) if by_datagrams(view) else None
    return nothing(view) if begun is None else of_window(view.sender, begun, "arrivals")
