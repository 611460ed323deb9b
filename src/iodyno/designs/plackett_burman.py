"""Plackett-Burman designs: main effects of up to n - 1 factors in n trials, n a multiple of four.

Plackett and Burman 1946, "The design of optimum multifactorial experiments"; the columns are those of a Hadamard matrix, made by
pyDOE. Where n is no power of two, every main effect is partly aliased with all two-factor interactions of the others.
"""

from __future__ import annotations

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.core.workload import Level
from iodyno.designs import ranges
from iodyno.designs.runs import Runs, of_levels

MOST_FACTORS = 47
"""Chosen: 48 trials; who has more factors begins with fewer."""
_LEFT_OUT = {28, 36, 44}
"""Trials of which pyDOE has no Hadamard matrix: it makes those of 12 and 20 by doubling."""


def points(experiment: Experiment) -> Runs:
    """The trials of the smallest such design with a column for each factor. Raises ExperimentError."""
    ends = ranges.two_levels(experiment)
    if not 2 <= len(ends) <= MOST_FACTORS:
        raise ExperimentError(
            f"invalid value: {counted(len(ends), 'factor')}; expected 2 to {MOST_FACTORS} in the design plackett_burman",
            where="factors",
            advice="use full_factorial for one factor; leave some out where there are too many",
        )
    import pydoe  # slow to import, and few need it

    columns = len(ends)
    while (trials := 4 * (columns // 4 + 1)) in _LEFT_OUT:
        columns = trials
    rows = []
    for line in pydoe.pbdesign(columns):
        row: dict[str, Level] = {}
        # Columns beyond the factors are left free: each costs nothing and may tell how much trials vary.
        for factor, (low, high), value in zip(experiment.factors, ends, line[: len(ends)], strict=True):
            row |= ranges.at(factor, low if value < 0 else high)
        rows.append(row)
    return of_levels(rows)
