"""Consequences of a cost for what to buy: cores for a load by level of what is compared, and the time of an operation there.

The way of a published study of two storage protocols, corrected: cores are those of a stated target utilisation, not of 100 %;
response times have a percentile beside the mean; and beside one queue that all cores share stand queues of their own, which is
what interrupts and requests that are bound to a core have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iodyno.analysis.cost_model.coding import WordCoding
from iodyno.analysis.cost_model.derived import Cores, Derived, cores_needed, cost_per_operation, cost_unit
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.analysis.queueing.mmc import mmc, separate_queues
from iodyno.analysis.queueing.station import StationResult
from iodyno.core.errors import ExperimentError

LOAD_PER_S = 70_000.0
"""The load of the study's question; `iodyno model cost --cores --load` takes any."""
TARGET_UTILISATION = 0.7
"""chosen: at 70 % of a core an M/M/1 queue takes 3.3 times the service time, and a burst of a third more is still carried."""


@dataclass(frozen=True)
class Answers:
    """Times of operations in seconds: mean, and the time that 1 % exceed."""

    mean_s: float
    p99_s: float


@dataclass(frozen=True)
class Consequence:
    """Of one level: CPU seconds of an operation, cores for the load, and their answers from one queue (M/M/c) and from a queue
    each (M/M/1).

    Service time is the CPU time of an operation, Poisson arrivals, exponential service: what a core works on an operation, no
    waiting for a network or a disk.
    """

    factor: str
    level: str
    cost: Derived
    cores: Cores
    utilisation: float
    shared: Answers
    separate: Answers


def consequences(study: CostStudy) -> tuple[Consequence, ...]:
    """Of each level of the factor of words that explains most, all else in the middle; empty where the outcome is no CPU time of
    an operation, or no cost at all.
    """
    try:
        if cost_unit(study.unit).per not in ("operation", "IO"):
            return ()
        return tuple(_each(study))
    except ExperimentError:
        # A model whose cost may be nothing, or below, says so in its checks; nothing to buy follows from it.
        return ()


def _each(study: CostStudy) -> Iterator[Consequence]:
    factor = _compared(study)
    levels = study.model.coding(factor).factor.levels if factor else ("",)
    for level in levels:
        at = {factor: str(level)} if factor else {}
        cost = cost_per_operation(study.model, at)
        cores = cores_needed(study.model, at, load_per_s=LOAD_PER_S, target_utilisation=TARGET_UTILISATION)
        service_s = cost.estimate.estimate
        assert service_s is not None
        shared = mmc(LOAD_PER_S, service_s, cores.needed)
        separate = separate_queues(LOAD_PER_S, service_s, cores.needed)
        utilisation = LOAD_PER_S * service_s / cores.needed
        yield Consequence(factor, str(level), cost, cores, utilisation, _answers(shared), _answers(separate))


def _answers(station: StationResult) -> Answers:
    assert station.response is not None, "both kinds of stations have their distribution"
    return Answers(station.response_time_s, station.response.quantile_s(0.99))


def _compared(study: CostStudy) -> str:
    """The factor of words with the greatest share of its own; empty where there is none."""
    words = [name for name, coding in study.model.formula.codings.items() if isinstance(coding, WordCoding)]
    shares = {one.name: one.share or 0.0 for one in study.variation.sources}
    return max(words, key=lambda name: shares.get(name, 0.0), default="")
