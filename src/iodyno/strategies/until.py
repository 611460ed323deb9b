"""Who says when a campaign has its answer: reads the finished trials after every block, and asks the rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from iodyno.core.decision import MAX_TRIALS, Standing, UntilSpec, bind, parse_rule
from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.experiment import Experiment


class RuleDecider:
    """Asks the rule of the experiment."""

    def __init__(self, spec: UntilSpec) -> None:
        self._spec = spec

    def look(
        self, experiment: Experiment, design: Design, folder: Path, blocks: int, before: Standing | None
    ) -> Standing:
        """Where the decision stands after so many blocks."""
        # Imported here: slow, and not needed while the load is on.
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.decisions.observed import standing

        return standing(read_dataset(folder), design, self._spec, blocks, before)


def decider(experiment: Experiment) -> RuleDecider | None:
    """The decider of the experiment; None when it has no rule."""
    return RuleDecider(experiment.until) if experiment.until else None


def with_rule(
    experiment: Experiment, written: str | None, max_trials: int | None, resume: Path | None = None
) -> Experiment | None:
    """The experiment with the rule of the command line in place of its own, and blocks enough for it; None: no rule.

    A campaign that is taken up again keeps its rule; its limit may be raised. Raises ExperimentError.
    """
    from iodyno import designs
    from iodyno.designs.stopping import extended

    kept_rule, kept_most = _of_campaign(resume)
    text = kept_rule if written is None else written
    if text is None and experiment.until is None:
        if max_trials is not None:
            raise ExperimentError(
                f"found {max_trials} trials and no rule that could end before them",
                where="--max-trials",
                advice="--until 'ratio(FACTOR) > 1.5'",
            )
        return None
    if experiment.search is not None:
        raise ExperimentError(
            "a search decides itself when it ends", where="--until", advice="leave --until out"
        )
    most = max_trials or kept_most or (experiment.until.max_trials if experiment.until else MAX_TRIALS)
    if kept_most and most < kept_most:
        raise ExperimentError(
            f"found {most}, allowed: {kept_most} or more, as the campaign was begun with that",
            where="--max-trials",
            advice=f"--max-trials {kept_most}",
        )
    if text is None:
        assert experiment.until is not None
        spec = replace(experiment.until, max_trials=most)
    else:
        spec = _bound(experiment, text, most)
    if kept_rule and spec.rule.text != kept_rule:
        raise ExperimentError(
            f"found {spec.rule.text!r}, and the campaign was begun with {kept_rule!r}",
            where="--until",
            advice="leave --until out, or begin anew: a rule that is chosen after a look at the data does not hold",
        )
    experiment = extended(replace(experiment, until=spec))
    # Imported here: slow, and only needed with a rule.
    from iodyno.analysis.decisions.observed import undetermined

    if undetermined(designs.plan(experiment), spec):
        raise ExperimentError(
            f"{spec.rule.text!r}: the design cannot tell what {spec.factor} does from what others do together",
            where="--until",
            advice="`iodyno plan` shows what is aliased; a full factorial or a fraction of resolution 5 tells it",
        )
    return experiment


def _bound(experiment: Experiment, text: str, max_trials: int) -> UntilSpec:
    spec = experiment.workload
    try:
        return bind(
            parse_rule(text),
            factors=experiment.factors,
            workload=spec.workload,
            sender=spec.ends[0],
            hosts=list(experiment.hosts),
            max_trials=max_trials,
        )
    except ValueError as problem:
        name = experiment.factors[0].name if experiment.factors else "FACTOR"
        raise ExperimentError(
            str(problem), where="--until", advice=f"--until 'ratio({name}) > 1.5'"
        ) from None


def _of_campaign(folder: Path | None) -> tuple[str | None, int | None]:
    """Rule and limit of a campaign that is taken up again; nothing when it has none or cannot be read, which is said
    when it is opened.
    """
    from iodyno.store.manifest import read_header

    if folder is None:
        return None, None
    try:
        until = read_header(folder)["experiment"]["until"]
        return str(until["rule"]["text"]), int(until["max_trials"])
    except (StoreError, ValueError, KeyError, TypeError):
        return None, None
