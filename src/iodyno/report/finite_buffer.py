"""A port with few buffers, in tables, sentences and as JSON: what was measured beside what theory and the source say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iodyno.analysis.finite_buffer import FiniteBuffer, Limit, PortLoad, Theory
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.numbers import between, quantity, with_interval
from iodyno.report.tables import Cell, Column, Table

_LATE = 0.02
"""Share by which frames may take longer than they should before a sentence says why (chosen: as much moves the loss at
90 % by a third).
"""


def buffer_tables(summary: CampaignSummary) -> list[Table]:
    """A table for each number of buffers; none where the experiment has no such port."""
    found = summary.finite_buffer
    if found is None:
        return []
    of_run = "in brackets: where 95 % of runs of this length lie by chance"
    offered = Column("offered", hint="arrivals per second, as they came, times the time that a frame takes")
    theory = [Column("M/D/1/K", "theory", f"frames of one length; {of_run}")]
    if found.service.estimate is not None:
        theory.append(
            Column("at D'", "theory", f"M/D/1/K with the time that a frame was measured to take; {of_run}")
        )
    exponential = Column("M/M/1/K", "theory", "frames whose length varies as the source assumes")
    queue = Column(
        "mean queue",
        "the source",
        "M/M/1 without limit: the port is full where it is as long as there are buffers",
    )
    heads = {
        "frames lost": (offered, Column("lost", "measured"), *theory, exponential, queue),
        "mean wait of the others": (offered, Column("wait", "measured"), *theory),
    }
    return [
        Table(
            f"A port with {limit.buffers} buffers: {what}",
            columns,
            tuple(row(load) for load in _of(found, limit)),
        )
        for limit in found.limits
        for (what, columns), row in zip(heads.items(), (_loss_row, _wait_row), strict=True)
    ]


def buffer_sentences(summary: CampaignSummary) -> Iterator[str]:
    """State where a port comes to its end, by the source and by theory; and how far the port is the one of the theory."""
    found = summary.finite_buffer
    if found is None:
        return
    for limit in found.limits:
        yield _limit(limit, _of(found, limit))
    longer = (found.service.estimate or found.service_ns) / found.service_ns - 1
    if found.service.estimate is None:
        nominal = quantity(found.service_ns, "ns")
        yield f"Theory has the time of a frame at the rate of the link, {nominal}: {found.service.missing}."
    else:
        nominal = quantity(found.service_ns, "ns")
        text = f"Where it never idles, the port takes {between(found.service)} for a frame, and not {nominal}"
        if longer > _LATE:
            text += (
                f" ({100 * longer:.2g} % more): its machine looks at the bucket late, or gives its CPU to others. The columns"
                " D' have theory with that time; what differs from those, too, is time lost unevenly, as in stalls"
            )
        yield f"{text}."
    if found.idle.missing:
        yield f"The wait cannot be told from the rest of the response: {found.idle.missing}."


def finite_buffer_json(found: FiniteBuffer) -> dict[str, Any]:
    """Everything of it; times in ns."""
    return {
        "service_nominal_ns": found.service_ns,
        "service_ns": _estimate(found.service),
        "idle_ns": _estimate(found.idle),
        "limits": [
            {
                "buffers": limit.buffers,
                "full_by_mean_queue_ratio": limit.full_by_mean,
                "lost_1_percent_exponential_ratio": limit.lost_if_exponential,
                "lost_1_percent_constant_ratio": limit.lost_if_constant,
            }
            for limit in found.limits
        ],
        "loads": [
            {
                "levels": dict(load.levels),
                "buffers": load.buffers,
                "offered_ratio": load.offered_ratio,
                "loss_ratio": _estimate(load.loss),
                "wait_ns": _estimate(load.wait),
                "theory": _theory(load.nominal),
                "theory_at_measured_service": _theory(load.fitted) if load.fitted else None,
                "exponential_loss_ratio": load.exponential_loss_ratio,
                "source_mean_queue": load.mean_queue,
            }
            for load in found.loads
        ],
    }


def _of(found: FiniteBuffer, limit: Limit) -> list[PortLoad]:
    return [load for load in found.loads if load.buffers == limit.buffers]


def _loss_row(load: PortLoad) -> tuple[Cell, ...]:
    return (
        Cell(f"{100 * load.offered_ratio:.1f} %"),
        Cell(with_interval(load.loss, "loss_ratio"), load.loss.missing or load.loss.method),
        *(Cell(f"{_bounds(each.loss_ratio, each.loss_spread, 0.01)} %") for each in _theories(load)),
        Cell(f"{_short(100 * load.exponential_loss_ratio)} %"),
        Cell("without end" if load.mean_queue is None else f"{load.mean_queue:.3g} of {load.buffers}"),
    )


def _wait_row(load: PortLoad) -> tuple[Cell, ...]:
    return (
        Cell(f"{100 * load.offered_ratio:.1f} %"),
        Cell(with_interval(load.wait, "wait_ns"), load.wait.missing or load.wait.method),
        *(Cell(f"{_bounds(each.wait_ns, each.wait_spread_ns, 1e6)} ms") for each in _theories(load)),
    )


def _theories(load: PortLoad) -> list[Theory]:
    return [load.nominal, *([load.fitted] if load.fitted else [])]


def _bounds(value: float, spread: tuple[float, float], unit: float) -> str:
    return f"{_short(value / unit)} [{', '.join(_short(bound / unit) for bound in spread)}]"


def _short(value: float) -> str:
    """Two digits below 1, else two decimals at the most; next to nothing is 0."""
    return "0" if abs(value) < 1e-3 else f"{value:.2g}" if abs(value) < 1 else f"{value:.3g}"


def _limit(limit: Limit, loads: list[PortLoad]) -> str:
    near = min(loads, key=lambda load: abs(load.offered_ratio - limit.full_by_mean))
    lost = between(near.loss, "loss_ratio")
    return (
        f"A port with {limit.buffers} buffers is full at {100 * limit.full_by_mean:.1f} % by the source, where the mean queue is"
        f" as long as there are buffers. It loses 1 % of its frames at {100 * limit.lost_if_constant:.1f} %, as all are of one"
        f" length (M/D/1/{limit.buffers}); at {100 * limit.lost_if_exponential:.1f} %, if their lengths varied as the source"
        f" assumes (M/M/1/{limit.buffers}). Measured at {100 * near.offered_ratio:.1f} %: {lost} lost."
    )


def _theory(theory: Theory) -> dict[str, Any]:
    return {
        "loss_ratio": theory.loss_ratio,
        "loss_of_runs": list(theory.loss_spread),
        "wait_ns": theory.wait_ns,
        "wait_of_runs_ns": list(theory.wait_spread_ns),
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    shown = {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "method": found.method,
    }
    return {**shown, "missing": found.missing} if found.missing else shown
