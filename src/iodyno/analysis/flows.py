"""Flows at the sender as the kernel tells of them: retransmissions, segments, acknowledgements, limits.

From `tcp_info` summed over all connections of the trial (RFC 4898 names most of these), and from the counters
of the network device that carried most.
"""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial

_FLOWS = "tcp_info"
ANSWERS_MOST = 0.01
"""Part of what came that may have payload while all of it counts as acknowledgements (chosen: it moves the ratio as far)."""
DEVICES = "net_devices"
"""Sensor that counts what network devices carry."""
NO_DEVICE = ("unix", "vsock")
"""Transports whose bytes no network device carries: what moves on one meanwhile is not the load's."""
_CARRIES = 0.01
"""Part of what the device with most carried from which on another one carries the load too (chosen: clients that starve)."""


def retransmits_per_segment(trial: Trial) -> Measured:
    """Retransmitted share of the data segments sent."""
    return _flow_ratio(trial, "tcp.retransmitted_segments", "tcp.data_segments_out", counted="segments")


def segments_per_ack(trial: Trial) -> Measured:
    """Data segments sent per segment that came back, which in bulk transmit is an acknowledgement.

    Where payload comes back, as answers do, most segments that come are that, and acknowledge by the way.
    """
    sender = trial.end("send")
    answers = sender.growth(_FLOWS, "tcp.data_segments_in") if sender else None
    came = sender.growth(_FLOWS, "tcp.segments_in") if sender else None
    if answers and came and answers > ANSWERS_MOST * came:
        return missing(
            "payload came back, whose segments acknowledge by the way: they are no acknowledgements"
        )
    return _flow_ratio(trial, "tcp.data_segments_out", "tcp.segments_in")


def rwnd_limited_ratio(trial: Trial) -> Measured:
    """Share of the flows' busy time in which the receive window was full."""
    return _flow_ratio(trial, "tcp.rwnd_limited_ns", "tcp.busy_ns")


def sndbuf_limited_ratio(trial: Trial) -> Measured:
    """Share of the flows' busy time in which the send buffer was too small."""
    return _flow_ratio(trial, "tcp.sndbuf_limited_ns", "tcp.busy_ns")


def device_segment_bytes(trial: Trial) -> Measured:
    """Bytes per packet that the sender handed to the device which sent most: how well offloading works."""
    sender = trial.end("send")
    devices = data_devices(trial, sender) if sender else []
    if sender is None or not devices:
        if sender is not None and sender.job.get("transport") in NO_DEVICE:
            return missing(f"no network device carries {sender.job['transport']} sockets")
        return missing(sender.why_missing(DEVICES) if sender else "the trial has no sender")
    metrics, name = ("net.tx_bytes", "net.tx_packets"), named(devices)
    keys = [(metric, device) for metric in metrics for device in devices]
    readings = [r for r in sender.measured_readings(DEVICES) if all(key in r.values for key in keys)]
    others = "acknowledgements count too" if devices == ["dev=lo"] else "link headers count too"
    bytes_of, packets_of = (
        [sum(r.values[metric, device] for device in devices) for r in readings] for metric in metrics
    )
    return total_ratio(
        list(zip(bytes_of, packets_of, strict=True)),
        note=name,
        assumptions=(f"everything that {name} sent belongs to the trial; {others}",),
    )


def data_device(host: HostData, metric: str = "net.tx_bytes") -> str | None:
    """Label of the device of `host` whose `metric` grew most in the measured window; None: nothing did, or none carries it."""
    if host.job.get("transport") in NO_DEVICE:
        return None
    grown = {label: host.growth(DEVICES, metric, label) or 0 for label in host.labels(DEVICES, metric)}
    return max(grown, key=lambda label: grown[label]) if any(grown.values()) else None


def data_devices(trial: Trial, host: HostData, metric: str = "net.tx_bytes") -> list[str]:
    """Labels of the devices that carry the data of `host`: the one that carried most; of several hosts at an end, to each of
    which another device may lead, all but the loopback that carried something to speak of.
    """
    most = data_device(host, metric)
    if most is None or not trial.groups or most == "dev=lo":
        return [] if most is None else [most]
    grown = {label: host.growth(DEVICES, metric, label) or 0 for label in host.labels(DEVICES, metric)}
    return [label for label, growth in grown.items() if label != "dev=lo" and growth > _CARRIES * grown[most]]


def named(devices: Sequence[str]) -> str:
    """Name of a device, or number of several."""
    return devices[0].removeprefix("dev=") if len(devices) == 1 else f"{len(devices)} devices"


def device_packets(trial: Trial, host: HostData) -> tuple[str | None, list[tuple[int, int, int]]]:
    """The devices that carry the data, and per measured record: its index, packets sent and received, nanoseconds."""
    metric = "net.rx" if host.role == "receive" else "net.tx"
    devices = data_devices(trial, host, f"{metric}_bytes")
    if not devices:
        return None, []
    # What the loopback sends is what it receives: each packet is counted twice there.
    ways = ("net.tx",) if devices == ["dev=lo"] else ("net.tx", "net.rx")
    keys = [(f"{way}_packets", device) for way in ways for device in devices]
    readings = host.readings[DEVICES]
    known = [(r.index, readings[r.index]) for r in host.measured if r.index in readings]
    found = [
        (index, sum(reading.values[key] for key in keys), reading.span_ns)
        for index, reading in known
        if reading.span_ns > 0 and all(key in reading.values for key in keys)
    ]
    return named(devices), found


def _flow_ratio(trial: Trial, above: str, below: str, counted: str = "") -> Measured:
    sender = trial.end("send")
    if sender is None:
        return missing("the trial has no sender")
    keys = ((above, ""), (below, ""))
    readings = [r for r in sender.measured_readings(_FLOWS) if all(key in r.values for key in keys)]
    if not readings:
        return missing(sender.why_missing(_FLOWS))
    return total_ratio(
        [(r.values[keys[0]], r.values[keys[1]]) for r in readings],
        nothing=f"no {below} was counted",
        counted=counted,
    )
