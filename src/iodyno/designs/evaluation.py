"""Evaluation of a design before any time is spent: which effects it tells, how sharply for a stated noise, and what it mixes up.

All relative to the mean of the outcome: a noise of 0.05 is a coefficient of variation of 5 %. Effects are what an
outcome changes by from the low to the high end of a factor. The variance of least squares and of its power is in
Montgomery, chapters 10 and 3; of split plots in Goos and Jones, Optimal Design of Experiments, chapter 10.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.design import Coding, Design
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs import d_optimal, model_terms
from iodyno.designs.model_terms import Term, name_of

CONFIDENCE = 0.95
MODEL_OF = {
    "plackett_burman": ("main",),
    "definitive_screening": ("main",),
    "one_factor": ("main",),
    "central_composite": ("quadratic",),
    "box_behnken": ("quadratic",),
}
"""Terms estimated at least with designs of these kinds; with all others main effects and two-factor interactions."""
MOST_TERMS = 300
"""Terms that are evaluated at most (chosen: 24 factors with all their two-factor interactions; more takes seconds)."""


@dataclass(frozen=True)
class TermExpectation:
    """An effect of the model, and how sharply it will be told.

    `aliases`: what it cannot be told from. `half_width_ratio`: of the expected 95 % interval, relative to the mean, or
    to the noise where none is stated (`Evaluation.noise_ratio` is None). `power_ratio`: probability that an effect of the
    stated size is found at 5 %. None with `reason`. `slow`: told between whole plots only.
    """

    name: str
    aliases: tuple[str, ...]
    half_width_ratio: float | None
    power_ratio: float | None
    degrees_of_freedom: int
    slow: bool
    reason: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a design: what it will tell.

    `runs_before`: trials that are there already (augmentation), which count too. `dropped`: terms of the
    model that these points cannot estimate beside the others. `clear`: those aliased with no main
    effect and no two-factor interaction. `condition_number` is of the coded model matrix with columns of one length (1:
    orthogonal); `correlated`: the two terms whose columns are correlated most. `partial`: for each main effect, the
    interaction outside of the model that biases it most, and by how much of its size. `word_lengths`: of the defining
    relation, by length.
    """

    runs: int
    runs_before: int
    noise_ratio: float | None
    effect_ratio: float | None
    plot_noise_ratio: float
    plots: int | None
    terms: tuple[TermExpectation, ...]
    dropped: tuple[str, ...]
    clear: tuple[str, ...]
    error_degrees_of_freedom: int
    condition_number: float | None
    correlated: tuple[str, str, float] | None
    partial: tuple[tuple[str, str, float], ...]
    word_lengths: dict[int, int]
    warnings: tuple[str, ...]


def evaluate(
    experiment: Experiment,
    design: Design,
    *,
    noise_ratio: float | None = None,
    effect_ratio: float | None = None,
    plot_noise_ratio: float = 0.0,
    model: Sequence[str] = (),
) -> Evaluation | None:
    """Evaluate what the design will tell of main effects and two-factor interactions, or of the model stated.

    None where nothing varies or the trials are not known beforehand. Raises ExperimentError for a model that names no
    terms of these factors.
    """
    coding = design.coding
    if not coding or not design.trials:
        return None
    import numpy as np  # slow to import, and a run needs none of this

    spec = experiment.design
    asked = model or (
        spec.model if design.kind == "d_optimal" else MODEL_OF.get(design.kind, ("interactions",))
    )
    wanted = model_terms.terms(asked, coding, "--model")
    warnings = []
    if len(wanted) > MOST_TERMS:
        warnings.append(f"only the first {MOST_TERMS} of {len(wanted)} terms are evaluated")
        wanted = wanted[:MOST_TERMS]
    # What is there already is a block of its own.
    there = d_optimal.there_already(experiment)
    levels = [*(trial.point.levels for trial in design.trials), *there]
    aliased = _aliases(design)
    # Pairs of machines are the blocks that an analysis takes out, where there are such.
    of_trials: list[str | int] = [trial.pair or trial.block for trial in design.trials]
    blocks = _block_columns(np, of_trials + [-1] * len(there))
    kept, dropped, matrix = _estimable(np, wanted, coding, levels, blocks, aliased)
    _check_named(model, [name_of(term) for term, _ in kept], [name_of(term) for term in wanted], aliased)
    count, columns = len(levels), matrix.shape[1]
    left = count - columns
    plots: list[int | None] = [trial.plot for trial in design.trials] if design.slow else []
    if plots:
        # Each trial of another time is a plot of its own: how they were grouped is not known.
        plots += [-1 - index for index in range(len(there))]
    precision = _precision(
        np, matrix, plots, plot_noise_ratio if noise_ratio is None else plot_noise_ratio / noise_ratio
    )
    slow_left = _left_between_plots(kept, design, blocks.shape[1]) if design.slow else 0
    entries = []
    for term, places in kept:
        slow = bool(design.slow) and set(term) <= set(design.slow)
        entries.append(
            _expected(
                np,
                term,
                [precision[place] for place in places],
                slow_left if slow else left - max(0, slow_left),
                slow,
                aliased,
                noise_ratio,
                effect_ratio,
            )
        )
    names = [name_of(term) for term, places in kept for _ in places]
    model_columns = matrix[:, 1 + blocks.shape[1] :]
    if design.slow and not plot_noise_ratio:
        warnings.append(
            "no noise between whole plots is assumed: state it where there is some, as slow factors are told between them"
        )
    structure = design.structure
    return Evaluation(
        runs=count - len(there),
        runs_before=len(there),
        noise_ratio=noise_ratio,
        effect_ratio=effect_ratio,
        plot_noise_ratio=plot_noise_ratio,
        plots=len(set(plots)) if plots else None,
        terms=tuple(entries),
        dropped=tuple(name_of(term) for term in dropped),
        clear=tuple(entry.name for entry in entries if not entry.aliases and len(entry.name.split(":")) <= 2),
        error_degrees_of_freedom=max(0, left),
        condition_number=_condition(np, matrix),
        correlated=_most_correlated(np, model_columns, names),
        partial=_partial(np, kept, wanted, coding, levels, matrix),
        word_lengths=_word_lengths(structure.words if structure else ()),
        warnings=tuple(warnings),
    )


def jain_runs(noise_ratio: float, precision_ratio: float, confidence: float = CONFIDENCE) -> int:
    """Trials of one point until its mean is known to +- `precision_ratio` of itself, for a noise relative to the mean.

    Jain, The Art of Computer Systems Performance Analysis, section 13.9: n = (100 z s / (r mean))^2, here with Student's t
    instead of z, which counts below 30 trials; at least 2. Raises ValueError for a noise or precision of 0 or less.

    >>> [jain_runs(noise, 0.01) for noise in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)]
    [4, 7, 18, 99, 387, 1540]
    """
    if noise_ratio <= 0 or precision_ratio <= 0:
        raise ValueError("noise and precision are above 0")
    from scipy.stats import norm, t

    runs = max(2, int((norm.ppf(0.5 + confidence / 2) * noise_ratio / precision_ratio) ** 2))
    while t.ppf(0.5 + confidence / 2, runs - 1) * noise_ratio / runs**0.5 > precision_ratio:
        runs += 1
    return runs


def _check_named(
    model: Sequence[str], kept: Sequence[str], wanted: Sequence[str], aliased: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuses a model that names a term which the design cannot tell from others of it. `main` and the like name none."""
    if not set(model) - set(model_terms.WORDS):
        return
    for name in wanted:
        if name not in kept:
            others = [other.removeprefix("-") for other in aliased.get(name, ())]
            beside = next((other for other in others if other in kept), "")
            raise ExperimentError(
                f"{name} is aliased with {beside}: no trial of this design tells them apart"
                if beside
                else f"{name} cannot be estimated beside the other terms of the model with these points",
                where="--model",
                advice="leave one of them out, or choose a design of a higher resolution or with more runs",
            )


def _aliases(design: Design) -> dict[str, tuple[str, ...]]:
    """For each effect that is aliased, the others of its class, with their sign relative to it."""
    found = {}
    for effects in design.aliases:
        for own in effects:
            name = own.removeprefix("-")
            opposite = own.startswith("-")
            others = (other for other in effects if other != own)
            found[name] = tuple(
                (other.removeprefix("-") if other.startswith("-") else f"-{other}") if opposite else other
                for other in others
            )
    return found


def _block_columns(np: Any, of_trials: Sequence[str | int]) -> Any:
    blocks = sorted(set(of_trials), key=lambda block: (str(type(block)), block))
    rows = []
    for block in of_trials:
        place = blocks.index(block)
        last = len(blocks) - 1
        rows.append([-1.0] * last if place == last else [float(index == place) for index in range(last)])
    return np.array(rows, dtype=float).reshape(len(of_trials), len(blocks) - 1)


def _estimable(
    np: Any,
    wanted: Sequence[Term],
    coding: Any,
    levels: Any,
    blocks: Any,
    aliased: dict[str, tuple[str, ...]],
) -> tuple[list[tuple[Term, list[int]]], list[Term], Any]:
    """The terms that the points can estimate together, first come, with the places of their columns; and the matrix."""
    matrix = np.hstack([np.ones((len(levels), 1)), blocks])
    # Orthonormal, so that what a column adds is what is left of it.
    basis = np.linalg.qr(matrix)[0]
    kept: list[tuple[Term, list[int]]] = []
    dropped: list[Term] = []
    named: set[str] = set()
    for term in wanted:
        values = np.array([model_terms.columns(term, coding, row) for row in levels], dtype=float)
        left = values - basis @ (basis.T @ values)
        left -= basis @ (basis.T @ left)
        new, sizes, _ = np.linalg.svd(left, full_matrices=False)
        scale = np.linalg.norm(values)
        if scale == 0 or basis.shape[1] + values.shape[1] > len(levels) or sizes[-1] < 1e-8 * scale:
            if not any(other.removeprefix("-") in named for other in aliased.get(name_of(term), ())):
                dropped.append(term)
            continue
        kept.append((term, list(range(matrix.shape[1], matrix.shape[1] + values.shape[1]))))
        named.add(name_of(term))
        matrix = np.hstack([matrix, values])
        basis = np.hstack([basis, new])
    return kept, dropped, matrix


def _precision(np: Any, matrix: Any, plots: Sequence[int | None], ratio: float) -> Any:
    """Variances of the coefficients for a noise of 1 in a trial and `ratio` between whole plots."""
    information = matrix.T @ matrix
    if ratio > 0:
        for plot in set(plots):
            own = matrix[[index for index, of in enumerate(plots) if of == plot]]
            total = own.sum(axis=0)
            information -= ratio**2 / (1 + len(own) * ratio**2) * np.outer(total, total)
    return np.diag(np.linalg.inv(information))


def _left_between_plots(kept: Any, design: Design, blocks: int) -> int:
    """Degrees of freedom between whole plots that the slow terms leave."""
    plots = len({trial.plot for trial in design.trials})
    used = sum(len(places) for term, places in kept if set(term) <= set(design.slow))
    return plots - 1 - blocks - used


def _expected(
    np: Any,
    term: Term,
    variances: Sequence[float],
    left: int,
    slow: bool,
    aliased: dict[str, tuple[str, ...]],
    noise_ratio: float | None,
    effect_ratio: float | None,
) -> TermExpectation:
    name = name_of(term)
    aliases = aliased.get(name, ())
    if left < 1:
        between = "between whole plots " if slow else ""
        reason = f"no trials are left {between}to tell the noise: add replicates"
        return TermExpectation(name, aliases, None, None, max(0, left), slow, reason)
    from scipy.stats import nct, t

    # From low to high is two steps of the coded scale; of a square, and of a word among several, it is one from the mean.
    steps = 1.0 if name.endswith("^2") or len(variances) > 1 else 2.0
    error = steps * float(np.sqrt(max(variances))) * (1.0 if noise_ratio is None else noise_ratio)
    critical = float(t.ppf(0.5 + CONFIDENCE / 2, left))
    power = None
    if noise_ratio is not None and effect_ratio is not None:
        shift = effect_ratio / error
        found = 1 - float(nct.cdf(critical, left, shift)) + float(nct.cdf(-critical, left, shift))
        # Far out the distribution is not computed; an effect of eight critical values is found.
        power = 1.0 if shift > 8 * critical else min(1.0, max(0.0, found))
    return TermExpectation(name, aliases, critical * error, power, left, slow)


def _condition(np: Any, matrix: Any) -> float | None:
    lengths = np.linalg.norm(matrix, axis=0)
    if (lengths == 0).any():
        return None
    sizes = np.linalg.svd(matrix / lengths, compute_uv=False)
    return float(sizes[0] / sizes[-1]) if sizes[-1] > 0 else None


def _most_correlated(np: Any, columns: Any, names: Sequence[str]) -> tuple[str, str, float] | None:
    """The two columns of different terms that are correlated most; None where all are orthogonal."""
    if columns.shape[1] < 2:
        return None
    centred = columns - columns.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=0)
    lengths[lengths == 0] = 1.0
    correlations = np.abs((centred / lengths).T @ (centred / lengths))
    for a, one in enumerate(names):
        for b, other in enumerate(names):
            if a >= b or one == other:
                correlations[a, b] = 0.0
    a, b = divmod(int(np.argmax(np.round(correlations, 9))), len(names))
    most = float(correlations[a, b])
    return (names[a], names[b], most) if most > 1e-6 else None


def _partial(
    np: Any, kept: Any, wanted: Sequence[Term], coding: Mapping[str, Coding], levels: Any, matrix: Any
) -> tuple[tuple[str, str, float], ...]:
    """For each main effect, the two-factor interaction outside of the model that biases it most: the alias matrix
    (X'X)^-1 X'Z (Box and Wilson 1951).
    """
    inside = {term for term, _ in kept} | set(wanted)
    outside = [term for term in model_terms.terms(("interactions",), coding) if term not in inside]
    if not outside or len(outside) > MOST_TERMS:
        return ()
    widths: list[str] = []
    blocks = []
    for term in outside:
        values = np.array([model_terms.columns(term, coding, row) for row in levels], dtype=float)
        blocks.append(values)
        widths += [name_of(term)] * values.shape[1]
    biases = np.abs(np.linalg.lstsq(matrix, np.hstack(blocks), rcond=None)[0])
    found = []
    for term, places in kept:
        if len(term) == 1:
            rows = biases[places]
            place = int(np.argmax(np.round(rows.max(axis=0), 9)))
            if rows[:, place].max() > 1e-6:
                found.append((term[0], widths[place], float(rows[:, place].max())))
    return tuple(found)


def _word_lengths(words: Sequence[str]) -> dict[int, int]:
    counted: dict[int, int] = {}
    for word in words:
        length = word.count(":") + 1
        counted[length] = counted.get(length, 0) + 1
    return dict(sorted(counted.items()))
