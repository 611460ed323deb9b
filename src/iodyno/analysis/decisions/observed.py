"""The trials of a campaign as a rule for stopping sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.decisions.contrast import Observation, between_levels, whole_plots
from iodyno.analysis.decisions.stopping import Judge, Plan, levels_of, plan
from iodyno.analysis.outcomes import measure_named
from iodyno.analysis.summary import basis_of, unit_of
from iodyno.core.decision import Standing, UntilSpec
from iodyno.core.design import Design


def standing(
    dataset: Dataset, design: Design, spec: UntilSpec, blocks: int, before: Standing | None = None
) -> Standing:
    """Return the standing of the rule after so many blocks of the design.

    Trials that failed or are void are left out; their block still counts with the others. The sequence is tuned by the
    design and the limit on trials alone, and keeps its tuning when the limit is raised later.
    """
    block_numbers = list(dict.fromkeys(planned.block for planned in design.trials))
    done = set(block_numbers[:blocks])
    observations, problems = observe(dataset, spec.outcome, done)
    judge = Judge(spec, _plan(design, spec, before))
    asked = sum(planned.block in done for planned in design.trials)
    return judge.look(
        observations,
        blocks,
        earlier=before.looks if before else (),
        left_out=asked - len(observations),
        problem=next(iter(problems), "") if not observations else "",
        unit=unit_of(spec.outcome),
    )


def observe(dataset: Dataset, outcome: str, blocks: Iterable[int]) -> tuple[list[Observation], list[str]]:
    """The outcome in every finished trial of these blocks; and why it is missing, most frequent reason first."""
    basis = basis_of(dataset)
    wanted = set(blocks)
    found: list[Observation] = []
    missing: Counter[str] = Counter()

    for trial in dataset.trials:
        if trial.block not in wanted:
            continue
        if not trial.finished:
            missing[f"a trial is {trial.status}: {trial.reason or 'no reason was given'}"] += 1
            continue
        value = measure_named(trial, outcome, basis)
        if value.value is None:
            missing[f"{outcome} is missing: {value.missing or 'no reason was given'}"] += 1
        else:
            found.append(Observation(trial.levels, trial.block, value.value, value.resolution))
    return found, [reason for reason, _ in missing.most_common()]


def _plan(design: Design, spec: UntilSpec, before: Standing | None) -> Plan:
    points = levels_of([point.levels for point in design.points], spec)
    first = [planned for planned in design.trials if planned.block == design.trials[0].block]
    trials = levels_of([planned.point.levels for planned in first], spec)
    return plan(
        trials,
        points,
        spec.max_trials,
        tuned_trials=before.tuned_trials if before else 0,
        whole_plots=spec.factor in design.slow,
    )


def undetermined(design: Design, spec: UntilSpec) -> bool:
    """Tell whether all trials of the design together cannot tell the effect of the rule from others, whatever they measure."""
    if spec.factor is None or spec.numerator is None or spec.denominator is None:
        return False
    levels = (spec.numerator, spec.denominator)
    trials = [
        Observation(planned.point.levels, planned.block, float(planned.order))
        for planned in design.trials[: 4 * len(design.points)]
    ]
    if spec.factor in design.slow:
        trials = whole_plots(trials, spec.factor, levels)
    return between_levels(trials, spec.factor, *levels)[0] is None
