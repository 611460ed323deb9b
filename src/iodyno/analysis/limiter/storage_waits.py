"""Signals of where operations of a load on storage wait, above the device: a control group's limit, the disk's queue and its
scheduler, dirty pages, slots of the NFS client, a bucket of tokens; and how many of those that a closed loop allows are there.
"""

from __future__ import annotations

import math

from iodyno.analysis.limiter import signals, storage_signals
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.analysis.readings import Reading
from iodyno.analysis.token_bucket import token_bucket
from iodyno.loads.disk.analysis import block_times, classes, devices

_LIMITS = "cgroup_disk"
_WRITEBACK = "writeback"
_SLOTS = "nfs_slots"


def allowed_in_flight(view: View) -> Signal:
    """Operations in flight over those that its closed loops may have: what is missing is in no call, but in the application."""
    if not view.trial.clients:
        return absent("experiment", "no load on storage")
    allowed = storage_signals.queue_depth(view)
    if not allowed.values:
        return allowed
    found, each = classes.in_flight(view.trial), next(iter(allowed.values.values()))
    ratio = found / each / len(view.trial.clients) if found else None
    return signals.of_window(view.host, ratio, "records", "no operation was completed")


def group_limit_used(view: View) -> Signal:
    """What the load does over what a control group allows it on the device, of operations or bytes, reads or writes, the nearest
    of them; over the whole measured window, as the kernel lets operations through in slices.
    """
    label = devices.device_of(view.trial, view.host)
    if label is None:
        return absent(devices.SENSOR, "the device under the target is not known")
    used = []
    for reading in view.host.measured_readings(_LIMITS):
        for way in ("read", "write"):
            at = f"{label},way={way}"
            for metric, rate in (("operations", classes.operations_per_s), ("bytes", classes.bytes_per_s)):
                limit = reading.values.get((f"cgroup.disk_{metric}_per_s", at))
                done = rate(view.trial, view.host.name, name=way).value if limit else None
                used += [done / limit] if limit and done is not None else []
    if not used:
        if not view.host.measured_readings(_LIMITS):
            return absent(_LIMITS, view.host.why_missing(_LIMITS))
        return absent("experiment", "no control group holds the load's disk")
    return signals.of_window(view.host, max(used), f"{_LIMITS}, records")


def _gauge(view: View, metric: str) -> float | None:
    """A gauge of the device under the target, as it was last seen."""
    label = devices.device_of(view.trial, view.host)
    seen = [
        reading.values.get((metric, label or "")) for reading in view.host.measured_readings(devices.SENSOR)
    ]
    return next((float(value) for value in reversed(seen) if value is not None), None)


def _room(view: View, metric: str) -> float | None:
    """Room in the queues of the device that the load's threads reach: each submits to the one of its CPU."""
    each, queues = _gauge(view, metric), _gauge(view, "disk.hardware_queues")
    return each * max(1.0, min(queues, view.workers)) if each and queues else None


_NO_ROOM = "the room of the disk's queue is not known"


def queue_filled(view: View) -> Signal:
    """Operations at the disk over the room of its queue, nr_requests of each, in the whole measured window."""
    room, depth = _room(view, "disk.queue_limit"), storage_signals.device_depth(view)
    if room is None:
        return absent(devices.SENSOR, _NO_ROOM)
    filled = {index: value / room for index, value in depth.values.items()}
    return storage_signals.mean(Signal(filled, "1", depth.source, depth.missing))


def queue_short(view: View) -> Signal:
    """Room of the disk's queue over what the load has in flight."""
    room, found = _room(view, "disk.queue_limit"), classes.in_flight(view.trial)
    ratio = room / found if room and found else None
    return signals.of_window(view.host, ratio, devices.SENSOR, _NO_ROOM)


def queue_room(view: View) -> Signal:
    """Room of the disk's queue, in operations."""
    return signals.of_window(view.host, _room(view, "disk.queue_limit"), devices.SENSOR, _NO_ROOM)


def _held(view: View, metric: str) -> float | None:
    """Operations that are in the scheduler (`block.queue_time_ns`) or at the device (`block.service_time_ns`), on average."""
    times = block_times.times_of(view.trial, view.host, metric)
    span_ns = view.host.measured_ns
    found = [times[record.index].sum_ns for record in view.host.measured if record.index in times]
    return sum(found) / span_ns if found and span_ns else None


def in_scheduler(view: View) -> Signal:
    """Of the operations that the block layer has, the share that waits in the disk's scheduler."""
    queued, served = _held(view, block_times.QUEUE), _held(view, block_times.SERVICE)
    ratio = queued / (queued + served) if queued is not None and served else None
    return signals.of_window(view.host, ratio, block_times.SENSOR)


def driver_filled(view: View) -> Signal:
    """Operations at the device over those that its driver takes at a time."""
    served, room = _held(view, block_times.SERVICE), _room(view, "disk.device_limit")
    if room is None:
        return absent(devices.SENSOR, "what the driver takes at a time is not known")
    return signals.of_window(view.host, served / room if served is not None else None, block_times.SENSOR)


def dirty(view: View) -> Signal:
    """Pages that are dirty or being written back, over those from which on the kernel makes writers wait: the mean of both
    limits (`dirty_freerun_ceiling` of the kernel's mm/page-writeback.c).
    """
    if not _makes_dirty(view):
        return absent("experiment", _CLEAN)

    def of(reading: Reading) -> float | None:
        waiting, under_way = (
            signals.total(reading, f"{_WRITEBACK}.{name}_bytes") for name in ("dirty", "under_way")
        )
        if waiting is None or under_way is None:
            return None
        return signals.ratio(waiting + under_way, _dirty_room(reading))

    return signals.grown(view.host, _WRITEBACK, of)


def written(view: View) -> Signal:
    """Bytes that a client writes in the measured window and does not flush itself, over what may be dirty before it waits: of a
    block that is written again and again one is dirty.
    """
    if not _makes_dirty(view):
        return absent("experiment", _CLEAN)
    per_s, span_s = (
        classes.bytes_per_s(view.trial, view.host.name, name="write").value,
        view.host.measured_ns / 1e9,
    )
    readings = view.host.measured_readings(_WRITEBACK)
    room = next((room for reading in readings if (room := _dirty_room(reading))), None)
    ratio = min(per_s * span_s, _places(view)) / room if per_s and room else None
    return signals.of_window(view.host, ratio, f"{_WRITEBACK}, records")


def _places(view: View) -> float:
    """Bytes that a client can write to: those of the working set of each of its targets; of one that grows there is no end."""
    job, result = (((view.host.manifest.get(part) or {}).get("disk") or {}) for part in ("job", "result"))
    if view.trial.settings.get("pattern") == "append":
        return math.inf
    length = (job.get("region") or {}).get("length_bytes")
    sizes = [length or target["size_bytes"] for target in result.get("targets") or ()]
    return float(sum(sizes)) or math.inf


_CLEAN = "the load leaves no page dirty"


def _makes_dirty(view: View) -> bool:
    settings = view.trial.settings
    kept = settings.get("direct") is not True and settings.get("sync", "none") == "none"
    return kept and settings.get("read", 1_000_000) != 1_000_000


def _dirty_room(reading: Reading) -> float | None:
    """Bytes that may be dirty before the kernel makes writers wait."""
    limit, background = (
        signals.total(reading, f"{_WRITEBACK}.{name}_limit_bytes") for name in ("dirty", "background")
    )
    return None if limit is None or background is None else (limit + background) / 2


def waiting_for_slots(view: View) -> Signal:
    """Requests of the NFS client that wait for a slot when one is sent, on average; of the mount that has most."""

    def of(reading: Reading) -> float | None:
        sent, waited = (reading.values.of(f"nfs.{name}") for name in ("requests", "waiting_for_slots"))
        return max((waited.get(mount, 0) / count for mount, count in sent.items() if count), default=None)

    if not view.host.measured_readings(_SLOTS):
        return absent("experiment", "nothing is mounted by NFS")
    return signals.grown(view.host, _SLOTS, of)


def bucket_fall(view: View) -> Signal:
    """Share of the rate that was lost when the bucket of a volume ran empty; 0: the rate did not fall as a bucket's."""
    trial = view.trial
    rates, windows = classes.operations_per_s(trial).intervals, trial.manifest.get("windows") or {}
    if not rates or not windows:
        return absent("records", "one interval tells no fall")
    interval_s = windows["measured_ns"] / len(rates) / 1e9
    found = token_bucket(rates, interval_s, windows["warm_up_ns"] / 1e9, "1/s")
    burst, refill = (found.burst_rate.estimate, found.refill_rate.estimate) if found else (None, None)
    fall = 1 - refill / burst if burst and refill is not None else 0.0
    return signals.of_window(view.host, fall, "records")


def waits_for_cpu(view: View) -> Signal:
    """Share of the measured window for which a worker was ready and waited for a CPU: how long changes with each interval."""
    return storage_signals.mean(signals.cpu_wait(view))
