"""Which interrupts came on which CPU, how often, and how evenly the queues of an adapter share them.

The sensor `interrupts` counts those of the whole machine, whichever CPUs the load uses: a queue may interrupt another one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import estimate
from iodyno.analysis.measured import Measured, missing, total_ratio
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate

SENSOR = "interrupts"
_LABEL = re.compile(r"cpu=(?P<cpu>[0-9]{1,6}),irq=(?P<irq>.+)")
ROWS_MOST = 8
"""Interrupts of a host that have a row of their own (chosen: an adapter's queues of a small machine, or the busiest ones)."""
REST = "all others"
# What drivers call the interrupt of a queue ends in its number: eth0-rx-3, ice-eth0-TxRx-3, virtio2-input.0, nvme0q3,
# mlx5_comp3@pci:0000:01:00.0, gve-ntfy-blk3@pci:... An adapter without queues ends in its own: eth0.
_QUEUE = re.compile(r"(?P<before>[^@]+[-._][A-Za-z]*|[^@]+\dq)(?P<queue>\d{1,5})(?P<after>@.*)?")


@dataclass(frozen=True)
class InterruptCounts:
    """Interrupts of a host in the measured window of a trial: how long they were counted, and how many by name and CPU."""

    span_ns: int
    counts: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True)
class InterruptRate:
    """One interrupt of a host at a point: `38:eth0-rx-0`, or all others together. `by_cpu`: interrupts per second on each CPU
    that took any, the busiest first. `of_queues`: its share of what all queues of its adapter had, and `queues`: how many
    of them had any; None and 0 where it is of no queue.
    """

    host: str
    name: str
    per_s: Estimate
    by_cpu: Mapping[int, float]
    of_queues: Estimate | None = None
    queues: int = 0


def counted(host: HostData) -> InterruptCounts | None:
    """The interrupts of a host in a trial; None where the sensor was not read."""
    readings = host.measured_readings(SENSOR)
    if not readings:
        return None
    found: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for reading in readings:
        for label, count in reading.values.of("interrupts.count").items():
            if match := _LABEL.fullmatch(label):
                found[match["irq"]][int(match["cpu"])] += count
    return InterruptCounts(sum(r.span_ns for r in readings), {irq: dict(each) for irq, each in found.items()})


def all_together(trial: Trial, name: str) -> Measured:
    """Interrupts per second of the machine that the host is on."""
    host = trial.hosts[name]
    return total_ratio(
        [
            (float(sum(reading.values.of("interrupts.count").values())), float(reading.span_ns))
            for reading in host.measured_readings(SENSOR)
        ],
        scale=1e9,
        nothing=host.why_missing(SENSOR),
        at_once=1,
    )


def adapter_of(name: str) -> str | None:
    """The queues that an interrupt is one of, with `#` for their number; None: it is of no queue.

    >>> adapter_of("38:eth0-rx-3"), adapter_of("51:mlx5_comp3@pci:0000:01:00.0"), adapter_of("24:eth0"), adapter_of("LOC")
    ('eth0-rx-#', 'mlx5_comp#@pci:0000:01:00.0', None, None)
    """
    number, _, device = name.partition(":")
    match = _QUEUE.fullmatch(device) if number.isdecimal() else None
    return f"{match['before']}#{match['after'] or ''}" if match else None


def rates(host: str, trials: Sequence[InterruptCounts]) -> tuple[InterruptRate, ...]:
    """The interrupts of a host over the trials of a point: those of devices first, then the most frequent; what is beyond
    `ROWS_MOST` is one row.
    """
    trials = [trial for trial in trials if trial.span_ns > 0]
    totals: dict[str, int] = defaultdict(int)
    for trial in trials:
        for name, by_cpu in trial.counts.items():
            totals[name] += sum(by_cpu.values())
    order = sorted(
        (name for name in totals if totals[name]),
        key=lambda name: (not name.partition(":")[0].isdecimal(), -totals[name], name),
    )
    among: dict[str, list[str]] = defaultdict(list)
    for name in order:
        if adapter := adapter_of(name):
            among[adapter].append(name)
    # One that would be all others has a row of its own as well.
    most = len(order) if len(order) <= ROWS_MOST + 1 else ROWS_MOST
    found = [
        _rate(host, name, (name,), among.get(adapter_of(name) or "", ()), trials) for name in order[:most]
    ]
    if most < len(order):
        found.append(_rate(host, REST, order[most:], (), trials))
    return tuple(found)


def _rate(
    host: str, shown: str, names: Sequence[str], queues: Sequence[str], trials: Sequence[InterruptCounts]
) -> InterruptRate:
    by_cpu: dict[int, float] = defaultdict(float)
    for trial in trials:
        for cpu, count in (item for name in names for item in trial.counts.get(name, {}).items()):
            # The mean of trials, as the rate of all CPUs is.
            by_cpu[cpu] += count * 1e9 / trial.span_ns / len(trials)
    busiest = sorted((cpu for cpu in by_cpu if by_cpu[cpu]), key=lambda cpu: (-by_cpu[cpu], cpu))
    per_s = [
        total_ratio([(float(_sum(trial, names)), float(trial.span_ns))], scale=1e9, at_once=1)
        for trial in trials
    ]
    shares = [_share(_sum(trial, names), _sum(trial, queues)) for trial in trials]
    return InterruptRate(
        host,
        shown,
        estimate(per_s, "1/s", possible=(0.0, None)),
        {cpu: by_cpu[cpu] for cpu in busiest},
        estimate(shares, "1", possible=(0.0, 1.0)) if queues else None,
        len(queues),
    )


def _sum(trial: InterruptCounts, names: Sequence[str]) -> int:
    return sum(sum(trial.counts.get(name, {}).values()) for name in names)


def _share(part: int, whole: int) -> Measured:
    return Measured(part / whole) if whole else missing("no queue of its adapter had an interrupt")
