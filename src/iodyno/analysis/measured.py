"""One outcome of one trial, with what is needed for an interval when there is only this trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from sys import intern

from iodyno.analysis.histogram import Histogram


@dataclass(frozen=True)
class Counted:
    """Counts that a share is of: so many of so many, such as 3 of 5400 datagrams that were lost."""

    events: float
    of: float
    what: str


@dataclass(frozen=True, slots=True)
class Measured:
    """The value of an outcome in one trial; None with `missing` saying why it cannot be had.

    `intervals` are its values in the interval records of the measured window. An outcome that is a quantile
    of all values, and so no mean over intervals, has their histograms as `batches` and says which `quantile`.
    `sampling_error` is the standard error of the value that comes from sampling, which the spread over trials and
    intervals holds already; `shared_error` the standard uncertainty that all trials have in common, which it cannot
    hold. A share of things that were counted one by one has them as `counted`. `resolution` is what the value would
    change by with one more of what it is counted in; 0 where that is not known, or nothing is cut off by the window.
    """

    value: float | None
    intervals: tuple[float, ...] = ()
    missing: str | None = None
    note: str = ""
    assumptions: tuple[str, ...] = ()
    batches: tuple[Histogram, ...] = field(default=(), repr=False)
    quantile: float | None = None
    sampling_error: float = 0.0
    shared_error: float = 0.0
    counted: Counted | None = None
    resolution: float = 0.0

    def without_parts(self) -> Measured:
        """Without what only the interval of a single trial is made of; texts that many trials have alike are one."""
        return Measured(
            self.value,
            missing=self.missing,
            note=intern(self.note),
            assumptions=self.assumptions,
            quantile=self.quantile,
            sampling_error=self.sampling_error,
            shared_error=self.shared_error,
            counted=self.counted,
            resolution=self.resolution,
        )


def missing(reason: str) -> Measured:
    """An outcome that cannot be had, and why."""
    return Measured(None, missing=reason)


def share(found: Measured, resolution: float) -> Measured:
    """A part of a whole, measured by clocks that may have it off by `resolution`: not below 0 or above 1 by that.

    What is further out is wrong and not coarse: it stays as it was measured, and is a warning (`physics.check_shares`).
    """
    if found.value is None or not -resolution <= found.value <= 1 + resolution:
        return found
    return replace(found, value=min(max(found.value, 0.0), 1.0))


def total_ratio(
    parts: Sequence[tuple[float, float]],
    *,
    scale: float = 1.0,
    note: str = "",
    assumptions: tuple[str, ...] = (),
    nothing: str = "nothing was counted in the measured window",
    sampling_error: float = 0.0,
    counted: str = "",
    at_once: float = 0.0,
) -> Measured:
    """`scale` times the sum of the first over the sum of the second, of (numerator, denominator) per
    interval. `counted`: what the second are, where the first are some of them. `at_once`: how much of the first is
    counted together, of a rate: 1 of operations, the bytes of one where it moves bytes.
    """
    below = sum(part for _, part in parts)
    return Measured(
        value=scale * sum(above for above, _ in parts) / below if below else None,
        intervals=tuple(scale * above / part for above, part in parts if part),
        missing=None if below else nothing,
        note=note,
        assumptions=assumptions,
        sampling_error=sampling_error,
        counted=Counted(sum(above for above, _ in parts), below, counted) if counted else None,
        resolution=scale * at_once / below if below else 0.0,
    )
