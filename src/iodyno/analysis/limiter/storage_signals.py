"""Signals of loads on storage: what the device under the target did, how much was in flight at a time, and what servers and
daemons of a volume took, which are part of the load and not of it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import fmean

from iodyno.analysis import arrivals
from iodyno.analysis.limiter import signals
from iodyno.analysis.limiter.signals import Signal, View, absent
from iodyno.core.volume import CLIENT_DAEMON, GENERATOR, ROLES, SERVER
from iodyno.loads.disk.analysis import classes, devices, roles

_LOOKS_LEAST = 40
"""Threads looked at from which on shares of where they were count (chosen: a share is then known to 0.16 at worst)."""

_OTHERS_FROM = 2
"""Times what the load moves from which on the device works for others, too (chosen: more of it is theirs than the load's)."""

IN_DEVICE_LEAST = 0.5
"""`in_device` from which on the device is what is waited for (chosen: more is in it than above it)."""
_NONE_LEAST = 20
"""Threads looked at from which on that none was there counts (chosen: with a share of 0.2 the chance of it is 0.8^20 = 1 %)."""
_TICKS_NS = 400_000_000
"""Intervals of which a share of busy ticks is known to 0.01 (chosen: a hundred ticks of 4 ms)."""


def _of_device(view: View, *metrics: str) -> Signal:
    label = devices.device_of(view.trial, view.host)
    if label is None and has_roles(view) and view.host.labels(devices.SENSOR, metrics[0]):
        # Of a volume of the lab's all devices are seen; not one of them did anything.
        return Signal(
            dict.fromkeys((record.index for record in view.host.measured), 0.0), "1", devices.SENSOR
        )
    if label is None:
        return absent(devices.SENSOR, "the device under the target is not known")
    values = {
        index: sum(reading.values[metric, label] for metric in metrics) / reading.span_ns
        for index, reading in view.host.readings.get(devices.SENSOR, {}).items()
        if index in {record.index for record in view.host.measured}
        and all((metric, label) in reading.values for metric in metrics)
        and reading.span_ns > 0
    }
    return Signal(values, "1", devices.SENSOR, "" if values else view.host.why_missing(devices.SENSOR))


def device_busy(view: View) -> Signal:
    """Share of the interval with an operation in flight at the device; of the measured window where intervals are short: the
    kernel counts ticks.
    """
    each = _of_device(view, "disk.busy_ns")
    spans = {record.index: record.span_ns for record in view.host.measured if record.index in each.values}
    if not spans or min(spans.values()) >= _TICKS_NS:
        return each
    busy = sum(each.values[index] * span for index, span in spans.items()) / sum(spans.values())
    return signals.of_window(view.host, busy, devices.SENSOR, "no interval was measured")


def device_depth(view: View) -> Signal:
    """Reads and writes in flight at the device on average, a flush as one write."""
    return _of_device(view, *devices.IN_FLIGHT)


def in_device(view: View) -> Signal:
    """Operations in flight at the device over those that the load has in flight (Little's law): what is missing waits above the
    device, as in a control group that holds it back. Only where the device moves what the load does: half as much to twice. A
    direction that the load does not move is that of others, such as the kernel's writing back, and is left out. Where the device
    moves more in all, so are intervals in which it moves more than twice what the load does, if they are no more than half.
    """
    if has_roles(view):
        return absent("experiment", "a server lies between the load and the device")
    by_way = {way: classes.bytes_per_s(view.trial, name=way).value for way in ("read", "write")}
    # Operations of a file program have names of their own: both directions may be the load's.
    ways = [way for way, bytes_per_s in by_way.items() if bytes_per_s] or list(by_way)
    moved = sum(by_way[way] or 0.0 for way in ways) or classes.bytes_per_s(view.trial).value
    if not moved:
        return absent(devices.SENSOR, "the load moved nothing")
    at_device = _of_device(view, *(f"disk.{way}_bytes" for way in ways))
    in_flight_at_device = _of_device(view, *(f"disk.{way}_ns" for way in ways))
    if not at_device.values:
        return at_device
    both = at_device.values.keys() & in_flight_at_device.values.keys()
    own = {index: at_device.values[index] * 1e9 for index in sorted(both)}
    if not own:
        return in_flight_at_device
    if fmean(own.values()) > _OTHERS_FROM * moved:
        own = {index: rate for index, rate in own.items() if rate <= _OTHERS_FROM * moved}
    if 2 * len(own) < len(both) or fmean(own.values()) < moved / _OTHERS_FROM:
        return absent(devices.SENSOR, "what the load moves is not what the device moves")
    in_flight = classes.in_flight(view.trial)
    ratio = fmean(in_flight_at_device.values[index] for index in own) / in_flight if in_flight else None
    return signals.of_window(view.host, ratio, f"{devices.SENSOR}, records", "nothing was in flight")


def device_limit_used(view: View) -> Signal:
    """Operations per second of all clients over the limit that the lab has set on the device: of reads or of writes, whichever
    is nearer. What a control group holds back waits above the device, which looks idle then. In the whole measured window: the
    kernel lets operations through in slices of 0.1 s, of which one interval has more than the next.
    """
    limit = view.trial.settings.get("device_limit")
    if not isinstance(limit, int) or not limit:
        return absent("experiment", "iodyno has not throttled the device")
    measured = view.host.measured
    span_ns = sum(record.span_ns for record in measured)
    done = [sum(_done(view, name, record.index) for record in measured) for name in ("read", "write")]
    used = max(done) * 1e9 / span_ns / limit if span_ns else None
    return signals.of_window(view.host, used, "records", "no interval was measured")


def _done(view: View, name: str, index: int) -> int:
    classes = (client.classes.get(name, {}) for client in view.trial.clients.values())
    return sum(found[index].operations for found in classes if index in found)


def device_bytes(view: View) -> Signal:
    """Bytes of an operation at the device, on average."""
    moved = [_of_device(view, f"disk.{name}_bytes") for name in ("read", "write")]
    done = [_of_device(view, f"disk.{name}_operations") for name in ("read", "write")]
    if not all(signal.values for signal in (*moved, *done)):
        return next(signal for signal in (*moved, *done) if not signal.values)
    values = {
        index: sum(signal.values.get(index, 0.0) for signal in moved) / count
        for index in moved[0].values
        if (count := sum(signal.values.get(index, 0.0) for signal in done))
    }
    if not values:
        # Not a lack of evidence: there was nothing to see.
        return absent("experiment", "the device did nothing")
    return Signal(values, "bytes", devices.SENSOR)


def queue_depth(view: View) -> Signal:
    """Operations that each client of a closed loop has in flight at a time: workers x queue_depth."""
    if arrivals.is_open(view.trial):
        return absent("experiment", "the load is open: as many are in flight as there are")
    settings = view.trial.settings
    if "workers" not in settings and "queue_depth" not in settings:
        return absent("experiment", "threads of a file program do one thing after the other, of many kinds")
    count = int(settings.get("workers", 1)) * int(settings.get("queue_depth", 1))
    return Signal({record.index: float(count) for record in view.host.measured}, "1", "experiment")


# Servers and daemons of a volume on the same machine


def has_roles(view: View) -> bool:
    """Tell whether processes of a volume on this machine are part of the load."""
    return any(
        (roles.METRIC, f"role={role}") in reading.values
        for reading in view.host.measured_readings(roles.SENSOR)
        for role in ROLES
    )


def _of_role(view: View, metric: str, role: str) -> Mapping[int, float]:
    """Growth of a metric of a role, over the time of the interval, by record."""
    return {
        record.index: reading.values[metric, f"role={role}"] / reading.span_ns
        for reading, records in view.host.covered(roles.SENSOR)
        if reading.span_ns > 0 and (metric, f"role={role}") in reading.values
        for record in records
    }


def load_cpus(view: View) -> Signal:
    """Share of all CPUs of the machine that the load takes: agents, servers and daemons, interrupts, in the measured window: who
    has a full CPU changes from interval to interval. Without servers and daemons that of the CPU that it takes most of.
    """
    if not has_roles(view):
        return signals.load_cpu_most(view)
    own, interrupts = signals.agent_cpu(view), signals.interrupts_mean(view)
    if not own.values or not interrupts.values:
        return own if not own.values else interrupts
    served = [_of_role(view, roles.METRIC, role) for role in (*ROLES, GENERATOR)]
    idle = signals.cpu_idle_mean(view).values
    # What interrupts take of a task counts for both: together they have no more than is not idle.
    values = {
        index: min(
            (value + sum(found.get(index, 0.0) for found in served)) / view.cpus + interrupts.values[index],
            1 - idle.get(index, 0.0),
        )
        for index, value in own.values.items()
        if index in interrupts.values
    }
    return mean(Signal(values, "1", "process, roles, " + interrupts.source))


def served_cpus(view: View) -> Signal:
    """`load_cpus`, where servers and daemons are part of the load."""
    if not has_roles(view):
        return absent("experiment", "no server or daemon on this machine is part of the load")
    return load_cpus(view)


def mean(found: Signal) -> Signal:
    """The same in every interval: its mean."""
    return replace(
        found, values=dict.fromkeys(found.values, fmean(found.values.values()) if found.values else 0.0)
    )


def cpus_idle(view: View) -> Signal:
    """Idle share of all CPUs of the machine in the measured window, where servers and daemons are part of the load; else of its
    busiest CPU.
    """
    return mean(signals.cpu_idle_mean(view)) if has_roles(view) else signals.cpu_idle_least(view)


def observer(view: View) -> Signal:
    """Share that the measurement takes of the CPUs that the load has: of one, or of all where servers and daemons have them
    too.
    """
    found = signals.observer(view)
    if not has_roles(view):
        return found
    return Signal({index: value / view.cpus for index, value in found.values.items()}, "1", found.source)


def others_cpu(view: View) -> Signal:
    """Share of the CPUs that tasks of others have: neither of the agents nor of servers and daemons; with those, of the whole
    measured window.
    """
    found = signals.others_cpu(view)
    served = [_of_role(view, roles.METRIC, role) for role in (*ROLES, GENERATOR)]
    if not found.values or not has_roles(view):
        return found
    values = {
        index: max(0.0, value - sum(one.get(index, 0.0) for one in served) / view.cpus)
        for index, value in found.values.items()
    }
    return mean(Signal(values, "1", found.source + ", roles"))


def _ready(view: View) -> dict[int, tuple[float, float]]:
    """CPUs' worth of time in which threads of the load ran, and in which they were ready and waited: workers of all agents,
    servers and daemons. By record.
    """
    others = [
        [_of_role(view, metric, role) for metric in (roles.METRIC, "role.wait_ns")]
        for role in (*ROLES, GENERATOR)
    ]
    found = {}
    for reading, records in view.host.covered("threads"):
        own = [signals.of_workers(view, reading, what) for what in ("run", "wait")]
        if reading.span_ns <= 0 or own[0] is None or own[1] is None:
            continue
        run, wait = (value / reading.span_ns for value in own if value is not None)
        for record in records:
            found[record.index] = (
                run + sum(one.get(record.index, 0.0) for one, _ in others),
                wait + sum(one.get(record.index, 0.0) for _, one in others),
            )
    return found


def run_delay(view: View) -> Signal:
    """Of the time in which threads of the load, its servers and daemons were ready to run, the share in which they waited for a
    CPU.
    """
    if not has_roles(view):
        return signals.run_delay(view)
    values = {index: wait / (run + wait) for index, (run, wait) in _ready(view).items() if run + wait}
    return Signal(values, "1", "threads, roles", None if values else view.host.why_missing("threads"))


def nobody_ready(view: View) -> Signal:
    """Share of what the CPUs could do for which no thread was ready: 0 where on average at least one is for each CPU. Without
    servers and daemons the share of the time in which the workers slept.
    """
    if not has_roles(view):
        return signals.nobody_ready(view)
    values = {index: max(0.0, 1 - sum(ready) / view.cpus) for index, ready in _ready(view).items()}
    return Signal(values, "1", "threads, roles", None if values else view.host.why_missing("threads"))


def _busiest_thread(role: str) -> signals.SignalOf:
    def of(view: View) -> Signal:
        values = _of_role(view, "role.busiest_run_ns", role)
        return Signal(values, "1", roles.SENSOR, None if values else "no process of that role is known")

    return of


server_thread = _busiest_thread(SERVER)
"""Share of the interval in which the busiest thread of a volume's server was on a CPU."""
daemon_thread = _busiest_thread(CLIENT_DAEMON)
"""The same of the clients' daemons."""


def beside_other_stations(view: View) -> Signal:
    """`load_cpus` over the sum of it and the utilisation of whatever is busiest of all else that serves the load and is seen."""
    if not has_roles(view):
        return absent("experiment", "what serves the load is not all seen")
    own = load_cpus(view)
    others = [found.values for found in (server_thread(view), daemon_thread(view), device_busy(view))]
    return replace(
        own,
        values={
            index: value / (value + max(other.get(index, 0.0) for other in others)) if value else 0.0
            for index, value in own.values.items()
        },
    )


def busiest_station(view: View) -> Signal:
    """Utilisation of the busiest of all that serves the load and is seen: the CPUs, any thread of a server or daemon, the
    device. Only where the volume is the lab's, so that nothing else serves.
    """
    if not has_roles(view):
        return absent("experiment", "what serves the load is not all seen")
    known = [load_cpus(view), server_thread(view), daemon_thread(view), device_busy(view)]
    every = [signal.values for signal in known if signal.values]
    if not known[0].values:
        return known[0]
    return Signal(
        {index: max(values.get(index, 0.0) for values in every) for index in known[0].values},
        "1",
        "roles, disks",
    )


def in_lock(view: View) -> Signal:
    """Share of the workers that slept for a lock of the kernel, of those that were looked at at the ends of intervals."""
    if view.workers < 2:
        return absent("experiment", "one worker has nobody to wait for")
    found = {"": 0.0, "lock": 0.0}
    for reading in view.host.measured_readings("waits"):
        for (_, label), count in reading.values.items():
            role, _, at = label.partition(",at=")
            if role == f"role={GENERATOR}":
                found[""] += count
                found["lock"] += count if at == "lock" else 0
    if found[""] < (_LOOKS_LEAST if found["lock"] else _NONE_LEAST):
        few = f"{found['']:.0f} looks at threads tell no share of them: take a longer window"
        why = few if found[""] else view.host.why_missing("waits")
        return absent("waits", why)
    share = found["lock"] / found[""]
    return Signal({record.index: share for record in view.host.measured}, "1", "waits")


def offered_reached(view: View) -> Signal:
    """Operations that ended over those that were due, where the loop is open."""
    if not arrivals.is_open(view.trial):
        return absent("experiment", "the load is closed: no rate is offered")
    offered, achieved = arrivals.offered(view.trial), arrivals.achieved(view.trial)
    if not offered.value or achieved.value is None:
        return absent("arrivals", offered.missing or achieved.missing or "nothing was offered")
    ratio = achieved.value / offered.value
    return Signal({record.index: ratio for record in view.host.measured}, "1", "arrivals")
