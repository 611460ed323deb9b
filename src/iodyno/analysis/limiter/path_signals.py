"""Signals of the path: how full its link is, and what its queues dropped."""

from __future__ import annotations

from iodyno.analysis.dataset import Reading
from iodyno.analysis.flows import data_device
from iodyno.analysis.limiter.signals import (
    Signal,
    View,
    absent,
    gauge,
    grown,
    nothing,
    of_window,
    over,
    total,
)

_FRAME_OVERHEAD_BYTES = 66
"""Ethernet 14, IPv4 20, TCP 20 and its time-stamp option 12: what a segment carries beside its payload."""


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
        for (metric, label), value in reading.values.items()
        if metric == "net.speed_bits_per_s" and label == device
    ]
    return float(min(speeds)) if speeds else None


def link_used(view: View) -> Signal:
    """Bits on the wire over the rate of the link."""
    rate = link_rate(view)
    if not rate:
        return absent("net_devices", "the path has no known rate")
    return grown(view.sender, "tcp_info", lambda r: over(_wire_bits_per_s(r), rate))


def link_filled(view: View) -> Signal:
    """Bits on the wire over the rate of the link; 0 where no rate is known: nothing says that a link is full."""
    return link_used(view) if link_rate(view) else nothing(view)


def queue_drops(view: View) -> Signal:
    """Packets that queues on the sender's side dropped, over the data segments sent, in the whole window.

    Of the sender's own devices; without that sensor, of the shaper, which counts the whole trial.
    """
    host = view.sender
    sent = host.growth("tcp_info", "tcp.data_segments_out")
    labels = host.labels("qdisc", "qdisc.drops")
    if labels and sent:
        return of_window(
            host, sum(host.growth("qdisc", "qdisc.drops", label) or 0 for label in labels) / sent, "qdisc"
        )
    shaper = (view.trial.manifest.get("path") or {}).get("shaper") or {}
    if shaper.get("drops") is not None and shaper.get("packets"):
        return of_window(host, shaper["drops"] / (shaper["packets"] + shaper["drops"]), "tc -s")
    return absent("qdisc", host.why_missing("qdisc"))
