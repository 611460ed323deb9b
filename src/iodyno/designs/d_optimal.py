"""D-optimal designs: of all combinations of the levels, the trials that make the determinant of X'X largest for a stated model.

Fedorov 1972, Theory of Optimal Experiments: a trial is exchanged for the candidate that raises the determinant most, until
none does; the best of several random starts. Points that are there already stay (augmentation), and only what is
added is planned.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

from iodyno.core.design import Coding
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level
from iodyno.designs import design_rows, model_terms, ranges
from iodyno.designs.runs import Runs, of_levels

STARTS = 8
"""Random starts (chosen: the best of eight is rarely found again better)."""
MOST_CANDIDATES = 5_000
"""Chosen: an exchange then takes milliseconds."""
MOST_RUNS = 300
"""Chosen: the exchanges then take seconds."""
_GAIN = 1e-9
"""Least relative gain of an exchange: what is smaller is rounding, and would not be the same everywhere."""
_RIDGE = 1e-7
"""Added to X'X while it may be singular, at the begin."""


def points(experiment: Experiment) -> Runs:
    """The added trials; those that are visited several times are one point. Raises ExperimentError."""
    import numpy as np  # slow to import, and few need it

    spec = experiment.design
    coding = ranges.codings(experiment)
    if not coding:
        ranges.two_levels(experiment)
    terms = model_terms.terms(spec.model, coding)
    candidates = _candidates(
        experiment, "quadratic" in spec.model or any(len(set(t)) < len(t) for t in terms)
    )
    matrix = np.array([_row(terms, coding, row) for row in candidates])
    kept = there_already(experiment)
    there = np.array([_row(terms, coding, row) for row in kept]).reshape(len(kept), matrix.shape[1])
    if kept:
        # What was measured at another time differs by a constant, which is estimated too (a block).
        matrix = np.hstack([matrix, np.ones((len(matrix), 1))])
        there = np.hstack([there, -np.ones((len(there), 1))])
    columns = matrix.shape[1]
    runs = spec.runs or max(columns - len(kept), columns // 2)
    if runs + len(kept) < columns:
        raise ExperimentError(
            f"invalid value: {runs + len(kept)} runs for a model of {columns} coefficients; "
            f"expected {columns} at least",
            where="design.runs" if spec.runs else "design.model",
            advice=f"runs: {columns - len(kept) + 3}",
        )
    if runs > MOST_RUNS:
        raise ExperimentError(
            f"invalid value: {runs} runs; expected {MOST_RUNS} at most in the design d_optimal",
            where="design.runs",
            advice="use replicates",
        )
    if np.linalg.matrix_rank(np.vstack([matrix, there])) < columns:
        names = _not_estimable(terms, matrix, coding)
        raise ExperimentError(
            f"the levels of the file cannot tell {names} from the other terms, whichever trials are made",
            where="design.model",
            advice="give the factor more levels (a square needs three), or leave the term out",
        )
    best: tuple[float, list[int]] | None = None
    source = random.Random(spec.seed)
    for _ in range(STARTS):
        chosen = [int(source.random() * len(matrix)) for _ in range(runs)]
        measure = _exchanged(np, matrix, there, chosen)
        if best is None or measure > best[0] + _GAIN * abs(best[0]):
            best = (measure, sorted(chosen))
    assert best is not None
    if best[0] == -np.inf:
        raise ExperimentError(
            f"no {runs} trials were found that estimate all {columns} coefficients",
            where="design.runs",
            advice=f"runs: {columns + 3}",
        )
    return of_levels([candidates[index] for index in best[1]])


def there_already(experiment: Experiment) -> list[dict[str, Level]]:
    """The trials that the points are added to. Raises ExperimentError with line and column."""
    rows = experiment.design.rows if experiment.design.kind == "d_optimal" else None
    return [] if rows is None else design_rows.read(experiment, rows).rows


def _candidates(experiment: Experiment, squares: bool) -> list[dict[str, Level]]:
    choices: list[list[dict[str, Level]]] = []
    for factor in experiment.factors:
        coding = ranges.coding_of(factor, log=factor.name in experiment.design.log)
        settings = [factor.settings(index) for index in range(len(factor.levels))]
        if squares and coding.kind == "number" and len(factor.levels) == 2:
            settings.insert(1, ranges.place(experiment, factor, coding, 0))
        choices.append(settings)
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > MOST_CANDIDATES:
        raise ExperimentError(
            f"invalid value: {count} combinations to choose from; expected {MOST_CANDIDATES} at "
            "most in the design d_optimal",
            where="factors",
            advice="list fewer levels: the ends, and the middle for curvature",
        )
    rows = []
    for chosen in itertools.product(*choices):
        row: dict[str, Level] = {}
        for entry in chosen:
            row |= entry
        rows.append(row)
    return rows


def _row(
    terms: Sequence[model_terms.Term], coding: dict[str, Coding], levels: dict[str, Level]
) -> list[float]:
    return [1.0, *(value for term in terms for value in model_terms.columns(term, coding, levels))]


def _not_estimable(terms: Sequence[model_terms.Term], matrix: Any, coding: dict[str, Coding]) -> str:
    import numpy as np

    widths = [
        len(model_terms.columns(term, coding, {name: own.low for name, own in coding.items()}))
        for term in terms
    ]
    rank, at, lost = 1, 1, []
    for term, width in zip(terms, widths, strict=True):
        now = int(np.linalg.matrix_rank(matrix[:, : at + width]))
        if now < rank + width:
            lost.append(model_terms.name_of(term))
        rank, at = now, at + width
    return " and ".join(lost) or "some terms"


def _exchanged(np: Any, matrix: Any, there: Any, chosen: list[int]) -> float:
    """Exchanges trials in place until nothing is gained; gives the logarithm of the determinant, of X'X alone."""
    columns = matrix.shape[1]
    information = there.T @ there + matrix[chosen].T @ matrix[chosen] + _RIDGE * np.eye(columns)
    for _ in range(20):
        gained = False
        for place, old in enumerate(chosen):
            inverse = np.linalg.inv(information)
            spread = matrix @ inverse
            own = spread[old]
            variance = (spread * matrix).sum(axis=1)
            covariance = matrix @ own
            # Fedorov's delta: the determinant after the exchange over that before it, less one.
            delta = variance - (variance * variance[old] - covariance**2) - variance[old]
            best = int(np.argmax(np.round(delta, 9)))
            if delta[best] > _GAIN:
                information += np.outer(matrix[best], matrix[best]) - np.outer(matrix[old], matrix[old])
                chosen[place] = best
                gained = True
        if not gained:
            break
    design = np.vstack([there, matrix[chosen]])
    sign, logarithm = np.linalg.slogdet(design.T @ design)
    return float(logarithm) if sign > 0 and np.linalg.matrix_rank(design) == columns else -np.inf
