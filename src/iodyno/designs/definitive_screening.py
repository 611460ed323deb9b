"""Definitive screening designs: three levels in 2 m + 1 trials for an even number m of factors, from a conference matrix.

Jones and Nachtsheim 2011, "A class of three-level designs for definitive screening in the presence of second-order effects"; the
matrix is made by pyDOE. Main effects are not aliased with any second-order effect; interactions are so in part with each other.
"""

from __future__ import annotations

from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.quantity import counted
from iodyno.designs import ranges
from iodyno.designs.runs import Runs, of_levels

MOST_FACTORS = 24
"""Chosen: 49 trials."""


def points(experiment: Experiment) -> Runs:
    """The trials, the middle among them. Raises ExperimentError."""
    coding = ranges.numbers_only(experiment)
    if not 3 <= len(coding) <= MOST_FACTORS:
        raise ExperimentError(
            f"invalid value: {counted(len(coding), 'factor')}; expected 3 to {MOST_FACTORS} in the design "
            "definitive_screening",
            where="factors",
            advice="use central_composite for one or two factors",
        )
    import pydoe  # slow to import, and few need it

    coded = pydoe.definitive_screening_design(len(coding))
    return of_levels(ranges.rows_of(experiment, coded.tolist(), coding))
