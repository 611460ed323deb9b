"""CPU time of an operation by whose it is: the load generator, a client's daemon, a server, all the rest of the machine.

That of processes is their threads' (sensor `roles`), that of the generator the agent's user and system classes; what is
left of the whole are the kernel's own threads, interrupts and other tasks. Where all is on one machine, the roles add up to
`cpu_us_per_io`; where they are more than it, neighbours gave way to the load, and the whole and its rest are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iodyno.analysis import cost
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.cpu_classes import CPU_EXACT, TIER_NOTES
from iodyno.analysis.host_data import HostData
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.volume import GENERATOR, ROLES

SENSOR, METRIC = "roles", "role.cpu_ns"


def are_known(host: HostData) -> bool:
    """Tell whether processes beside the agent that work for the load were seen on a host."""
    return bool(host.labels(SENSOR, METRIC))


def of_processes(trial: Trial, name: str, role: str) -> Measured:
    """CPU microseconds of a role's processes for each read or write."""
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its processes")
    done = {record.index: record.operations for record in cost.clients_of(trial, host).measured}
    label = f"role={role}"
    parts = [
        (float(reading.values[METRIC, label]), float(done[index]))
        for index, reading in host.readings.get(SENSOR, {}).items()
        if index in done and (METRIC, label) in reading.values
    ]
    if not parts:
        return missing(_unknown(role))
    return total_ratio(parts, scale=1e-3, note=f"processes of the {role.replace('_', ' ')}")


def cpus_busy(trial: Trial, name: str, role: str) -> Measured:
    """CPUs that a role's processes keep busy: their CPU time over the time that passed."""
    return _per_time(trial, name, role, (METRIC,), 1.0)


def bytes_per_s(trial: Trial, name: str, role: str, *metrics: str) -> Measured:
    """Return the bytes that a role's processes read from storage (`role.read_bytes`), or that went over their network
    (`role.received_bytes`, `role.sent_bytes`), per second; of several metrics the sum.
    """
    return _per_time(trial, name, role, metrics, 1e9)


def _per_time(trial: Trial, name: str, role: str, metrics: Sequence[str], scale: float) -> Measured:
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its processes")
    label = f"role={role}"
    parts = [
        (float(sum(reading.values[metric, label] for metric in metrics)), float(reading.span_ns))
        for reading in host.measured_readings(SENSOR)
        if all((metric, label) in reading.values for metric in metrics)
    ]
    return (
        total_ratio(parts, scale=scale, note=f"processes of the {role.replace('_', ' ')}")
        if parts
        else missing(_unknown(role))
    )


def _unknown(role: str) -> str:
    return f"no process of a {role.replace('_', ' ')} is known on this host"


def of_all(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU microseconds of all roles for each read or write.

    Where the cost does without other tasks (`CostBasis.without_others`), servers and daemons that are known are tasks of the load
    all the same: theirs is added.
    """
    found = _in_us(cost.cpu_time(trial, name, basis, "operation"))
    every = (*ROLES, GENERATOR)
    known = [one for role in every if (one := of_processes(trial, name, role)).value is not None]
    if found.value is None or not known:
        return found
    if not basis.without_others:
        own = _in_us(cost.cpu_time(trial, name, basis, "operation", "usr", "sys"))
        parts = (own.value or 0.0) + sum(one.value or 0.0 for one in known)
        if basis.accounting.tier == "bpf" and found.value < (1 - cost.TOLERANCE) * parts:
            return missing(
                f"the load's own tasks took {parts:.1f} us of CPU for each read or write, and all that ran, less the "
                f"background, {found.value:.1f} us: what the load took cannot be told from what others gave up; try a machine "
                "that does nothing else"
            )
        return found
    lengths = {len(one.intervals) for one in (found, *known)}
    rows = zip(found.intervals, *(one.intervals for one in known), strict=True) if len(lengths) == 1 else ()
    return replace(
        found,
        value=found.value + sum(one.value for one in known if one.value is not None),
        intervals=tuple(sum(row) for row in rows) or found.intervals,
    )


def of_generator(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU microseconds of the load generator, system calls too, for each read or write: of the agents of all clients on the
    machine.
    """
    return _with(_in_us(cost.cpu_time(trial, name, basis, "operation", "usr", "sys")), _others(trial, name))


def without_generator(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU microseconds of all but the load generator for each read or write."""
    whole, own = of_all(trial, name, basis), of_generator(trial, name, basis)
    if whole.value is None or own.value is None:
        return whole if whole.value is None else own
    alike = len(whole.intervals) == len(own.intervals)
    parts = zip(whole.intervals, own.intervals, strict=True) if alike else ()
    # Its background is that of the whole.
    return replace(whole, value=whole.value - own.value, intervals=tuple(all_ - mine for all_, mine in parts))


def _others(trial: Trial, name: str) -> float:
    """Return the CPU time that the agents of other clients on the machine take, in us for each operation."""
    found = of_processes(trial, name, GENERATOR)
    return found.value or 0.0


def of_the_rest(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU microseconds of the kernel's own threads, of interrupts and of other tasks for each read or write."""
    rest = _in_us(cost.cpu_time(trial, name, basis, "operation", "irq", "softirq", "other"))
    if rest.value is not None and (whole := of_all(trial, name, basis)).value is None:
        return whole
    roles = (*ROLES, GENERATOR)
    known = [one.value for role in roles if (one := of_processes(trial, name, role)).value is not None]
    # Intervals of both are not of one reading each; what is left keeps those of the whole, moved.
    return _with(rest, -sum(known))


def _with(found: Measured, more: float) -> Measured:
    """The same and so much more."""
    if found.value is None or not more:
        return found
    return replace(found, value=found.value + more, intervals=tuple(part + more for part in found.intervals))


def of_hard_interrupts(trial: Trial, name: str, basis: CostBasis) -> Measured:
    """CPU microseconds of hard interrupts for each read or write: those of the device, and the timer's, less the
    background.
    """
    return _in_us(cost.cpu_time(trial, name, basis, "operation", "irq"))


def of_block_interrupts(trial: Trial, name: str) -> Measured:
    """CPU microseconds of the block layer's soft interrupts (vector BLOCK) for each read or write.

    There are some only where an operation ends on another CPU than it began on; else its end is part of the hard interrupt
    or, of a device that is a task, of that task.
    """
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its CPUs")
    done = {record.index: record.operations for record in host.measured}
    parts = [
        (
            float(
                sum(
                    value
                    for label, value in reading.values.of("exact.softirq_ns").items()
                    if label.endswith("vector=BLOCK")
                )
            ),
            float(done[index]),
        )
        for index, reading in host.readings.get(CPU_EXACT, {}).items()
        if index in done and reading.values
    ]
    return total_ratio(parts, scale=1e-3, note=TIER_NOTES["bpf"], nothing=host.why_missing(CPU_EXACT))


def _in_us(found: Measured) -> Measured:
    return replace(
        found,
        value=None if found.value is None else found.value / 1000,
        intervals=tuple(value / 1000 for value in found.intervals),
        sampling_error=found.sampling_error / 1000,
        shared_error=found.shared_error / 1000,
        resolution=found.resolution / 1000,
    )
