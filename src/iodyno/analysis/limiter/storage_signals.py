"""Signals of loads on storage: what the device under the target did, and how much was under way at a time."""

from __future__ import annotations

from iodyno.analysis import arrivals
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.analysis.storage import devices


def _of_device(view: View, metric: str) -> Signal:
    label = devices.device_of(view.trial, view.host)
    if label is None:
        return absent(devices.SENSOR, "the device under the target is not known")
    values = {
        index: reading.values[metric, label] / reading.span_ns
        for index, reading in view.host.readings.get(devices.SENSOR, {}).items()
        if index in {record.index for record in view.host.measured}
        and (metric, label) in reading.values
        and reading.span_ns > 0
    }
    return Signal(values, "1", devices.SENSOR, "" if values else view.host.why_missing(devices.SENSOR))


def device_busy(view: View) -> Signal:
    """Share of the interval with an operation in flight at the device."""
    return _of_device(view, "disk.busy_ns")


def device_depth(view: View) -> Signal:
    """Operations in flight at the device on average."""
    return _of_device(view, "disk.in_flight_ns")


def device_limit_used(view: View) -> Signal:
    """Operations per second of all clients over the limit that the lab has set on the device: of reads or of writes, whichever
    is nearer. What a control group holds back waits above the device, which looks idle then.
    """
    limit = view.trial.settings.get("device_limit")
    if not isinstance(limit, int) or not limit:
        return absent("experiment", "the lab has not throttled the device")
    values = {}
    for record in view.host.measured:
        if record.span_ns > 0:
            counts = (_done(view, name, record.index) for name in ("read", "write"))
            values[record.index] = max(counts) * 1e9 / record.span_ns / limit
    return Signal(values, "1", "records", "" if values else "no interval was measured")


def _done(view: View, name: str, index: int) -> int:
    classes = (client.classes.get(name, {}) for client in view.trial.clients.values())
    return sum(found[index].operations for found in classes if index in found)


def outstanding(view: View) -> Signal:
    """Operations that a closed loop has under way at a time, of all clients: workers x depth."""
    if arrivals.is_open(view.trial):
        return absent("experiment", "the load is open: as many are under way as there are")
    settings = view.trial.settings
    if "workers" not in settings and "depth" not in settings:
        return absent("experiment", "threads of a file program do one thing after the other, of many kinds")
    count = int(settings.get("workers", 1)) * int(settings.get("depth", 1)) * max(1, len(view.trial.clients))
    return Signal({record.index: float(count) for record in view.host.measured}, "1", "experiment")


def offered_reached(view: View) -> Signal:
    """Operations that ended over those that were due, where the loop is open."""
    if not arrivals.is_open(view.trial):
        return absent("experiment", "the load is closed: no rate is offered")
    offered, achieved = arrivals.offered(view.trial), arrivals.achieved(view.trial)
    if not offered.value or achieved.value is None:
        return absent("arrivals", offered.missing or achieved.missing or "nothing was offered")
    ratio = achieved.value / offered.value
    return Signal({record.index: ratio for record in view.host.measured}, "1", "arrivals")
