"""Why a KiB is costlier, taken apart: how often the path takes a step, and what one step costs.

A cost per KiB is a number of steps times the cost of one, so that what grows has more steps, costlier ones, or both. A step is
a function of Linux that runs once for each of something that is counted beside it: a write, a segment to the device, a read,
a run of NET_RX (net/ipv4/tcp.c, net/ipv4/tcp_output.c, net/core/dev.c). Its cost is inclusive: steps lie within each other, as a
write sends segments, and do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from iodyno.analysis.compare import leaves_out_one, ratio_estimate
from iodyno.analysis.function_change import FunctionChange, ProfileChange
from iodyno.analysis.mechanisms import MechanismChange
from iodyno.core.outcome import Estimate

KIB = 1024.0
MATTERS_LEAST = 0.1
"""Part of the whole difference under which a step is not shown (chosen: a tenth, as with callers in sentences)."""


@dataclass(frozen=True)
class StepKind:
    """A step: its name for one and for many, the function, the mechanism that counts it, and in which unit."""

    one: str
    many: str
    function: str
    mechanism: str


STEPS = (
    StepKind("write", "writes", "tcp_sendmsg", "bytes_per_write"),
    StepKind("segment", "segments to the device", "__tcp_transmit_skb", "device_segment_bytes"),
    StepKind("read", "reads", "tcp_recvmsg", "bytes_per_read"),
    StepKind("NET_RX run", "NET_RX runs", "net_rx_action", "net_rx_runs_per_mib"),
)
"""Every step, in the order of the path. Acknowledgements are none: one poll may handle many."""


@dataclass(frozen=True)
class StepChange:
    """A step from the first point to the second, on one host.

    `count`: steps per KiB, and `each`: nanoseconds of one with all that it calls, at both points; the ratios are second over
    first. The ratio of the function's cost per KiB is the product of the two.
    """

    kind: StepKind
    host: str
    change: FunctionChange
    count: tuple[Estimate, Estimate]
    count_ratio: Estimate
    each: tuple[Estimate, Estimate]
    each_ratio: Estimate

    @property
    def moved_ns(self) -> float:
        """By how many nanoseconds per KiB the step with all that it calls got costlier; below 0: cheaper."""
        first, second = self.change.inclusive
        return (second.estimate or 0.0) - (first.estimate or 0.0)


def step_changes(change: ProfileChange, mechanisms: Sequence[MechanismChange]) -> list[StepChange]:
    """The steps that matter for the difference of two points of a host, those first that move it most.

    A step is left out where its function or its count was not seen at both points, where it moves less than a tenth of
    the whole difference, and where neither its number nor its cost can be told from what it was.
    """
    whole = abs(change.total.estimate or 0.0)
    # The compiler names a part that it made its own `tcp_recvmsg.part.0`.
    functions = {one.function.name.partition(".")[0]: one for one in reversed(change.functions)}
    counts = {one.kind.name: one for one in mechanisms if one.host == change.first.host}
    found = []
    for kind in STEPS:
        one, counted = functions.get(kind.function), counts.get(kind.mechanism)
        if one is None or counted is None:
            continue
        step = _step(kind, one, counted)
        if step is None or abs(step.moved_ns) < MATTERS_LEAST * whole:
            continue
        if leaves_out_one(step.count_ratio) or leaves_out_one(step.each_ratio):
            found.append(step)
    return sorted(found, key=lambda step: -abs(step.moved_ns))


def _step(kind: StepKind, one: FunctionChange, counted: MechanismChange) -> StepChange | None:
    counts = (_per_kib(counted.first), _per_kib(counted.second))
    if any(not count.estimate for count in counts) or any(not cost.estimate for cost in one.inclusive):
        return None
    each = tuple(
        replace(ratio_estimate(count, cost), unit="ns")
        for count, cost in zip(counts, one.inclusive, strict=True)
    )
    return StepChange(
        kind,
        counted.host,
        one,
        counts,
        ratio_estimate(*counts),
        (each[0], each[1]),
        ratio_estimate(each[0], each[1]),
    )


def _per_kib(counted: Estimate) -> Estimate:
    """Steps per KiB, of bytes per step or of steps per MiB."""
    if counted.unit != "B":
        bounds = [
            None if value is None else value / KIB for value in (counted.estimate, counted.low, counted.high)
        ]
    else:
        # More bytes in a step are fewer steps: the bounds change places.
        bounds = [KIB / value if value else None for value in (counted.estimate, counted.high, counted.low)]
    return replace(counted, estimate=bounds[0], low=bounds[1], high=bounds[2], unit="1/KiB")
