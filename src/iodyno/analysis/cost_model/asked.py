"""What is asked of a cost model: costs at a point or a mix, ratios of levels, cores for a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iodyno.analysis.cost_model.derived import (
    Cores,
    Derived,
    FactoredTerm,
    cores_needed,
    cost_per_operation,
    cost_unit,
    difference_of_levels,
    factored,
    operations_per_core,
    predicted,
    ratio_of_levels,
)
from iodyno.analysis.cost_model.model import CostModel
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid


@dataclass(frozen=True)
class Asked:
    """Quantities to be derived from a model, at levels as people write them.

    `per`: the factor that is the load; `ratios`: `protocol` or `protocol=udp/tcp`; `keep`: factors of the factored equation.
    """

    at: dict[str, str]
    ratios: tuple[str, ...]
    per: str | None
    cores: bool
    load_per_s: float | None
    target_utilisation: float | None
    beyond_range: bool
    keep: tuple[str, ...] | None


def derive(
    model: CostModel, asked: Asked, carried_per_s: float | None = None
) -> tuple[list[Derived], Cores | None]:
    """Return the quantities asked for, and the cores needed. `carried_per_s`: the rate that was measured.

    Raises ExperimentError.
    """
    found: list[Derived] = []
    options: dict[str, Any] = {"load": asked.per, "beyond_range": asked.beyond_range}
    try:
        of_one = bool(cost_unit(model.unit).per)
    except ExperimentError:
        of_one = False
    if asked.cores or asked.per or (of_one and (asked.at or asked.ratios)):
        point = asked.at
        found.append(cost_per_operation(model, point, **options))
        found.append(operations_per_core(model, point, **options))
    if asked.at and not found:
        found.append(predicted(model, asked.at, beyond_range=asked.beyond_range))
    for written in asked.ratios:
        factor, _, pair = written.partition("=")
        levels = None
        if pair:
            above, slash, below = pair.partition("/")
            if not slash:
                raise ExperimentError(
                    invalid(written, "two words of one factor"), where="--ratio", advice=f"{factor}=a/b"
                )
            levels = (above.strip(), below.strip())
        rest = {name: level for name, level in asked.at.items() if name != factor.strip()}
        found.append(ratio_of_levels(model, factor.strip(), rest, levels=levels, **options))
        found.append(difference_of_levels(model, factor.strip(), rest, levels=levels, **options))
    if not asked.cores:
        return found, None
    assert asked.load_per_s is not None
    assert asked.target_utilisation is not None
    needed = cores_needed(
        model,
        asked.at,
        load_per_s=asked.load_per_s,
        target_utilisation=asked.target_utilisation,
        carried_per_s=carried_per_s,
        **options,
    )
    return found, needed


def factored_of(model: CostModel, asked: Asked) -> tuple[FactoredTerm, ...]:
    """Return the equation of what one of the load costs, where one is named. Raises ExperimentError."""
    if asked.per is None:
        if asked.keep is not None:
            raise ExperimentError("it is of the equation of --per", where="--keep", advice="--per FACTOR")
        return ()
    names = [factor.name for factor in (coding.factor for coding in model.formula.codings.values())]
    for name in asked.keep or ():
        if name not in names:
            raise ExperimentError(invalid(name, ", ".join(names)), where="--keep")
    try:
        return factored(model, asked.per, asked.keep)
    except ExperimentError:
        # Not every model can be written so; who names what to keep asks for it, and is told why not.
        if asked.keep is not None:
            raise
        return ()
