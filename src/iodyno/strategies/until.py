"""A rule for stopping: blocks of the design until it has its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path

from iodyno.campaign.strategy import Answer, Strategy, TrialResult
from iodyno.core.decision import MAX_TRIALS, Standing, UntilSpec, bind, ended, parse_rule
from iodyno.core.design import Design, PlannedTrial
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import invalid
from iodyno.store.manifest import read_header
from iodyno.strategies.base import Measured


class Until(Strategy):
    """Blocks of the design, one after the other, until the rule has its answer or there are no more.

    A look is made once: what it saw is of its time, and so those that were made stand in the campaign and are read from it.
    """

    def __init__(self, spec: UntilSpec, design: Design, folder: Path) -> None:
        self._spec = spec
        self._design = design
        self._folder = folder
        self._measured = Measured(folder)
        self._blocks = [list(trials) for _, trials in groupby(design.trials, key=lambda trial: trial.block)]
        self._asked = 0
        self._results: list[TrialResult] = []
        self._standing: Standing | None = None

    def ask(self) -> Sequence[PlannedTrial]:
        """The next block; none after the answer."""
        if not self._asked:
            self._standing = _looked_at(self._folder)
        elif self._standing is None or self._standing.blocks < self._asked:
            self._standing = self._look()
        before = self._standing
        if self._asked == len(self._blocks) or (before and before.ended and before.blocks <= self._asked):
            return ()
        self._asked += 1
        return self._blocks[self._asked - 1]

    def tell(self, trial: TrialResult) -> None:
        """Keep it for the next look."""
        self._results.append(trial)

    def answer(self) -> Answer | None:
        """Return the standing of the decision."""
        found = self._standing
        if found is None:
            return None
        expected = min(found.trials + (found.more_trials or 0), len(self._design.trials))
        asked = sum(map(len, self._blocks[: self._asked]))
        further = 0 if found.ended or not found.more_trials else max(0, expected - asked)
        return Answer("until", asdict(found), found, further)

    def _look(self) -> Standing:
        # Imported here: slow, and not needed while the load is on.
        from iodyno.analysis.decisions.observed import standing

        found = standing(
            self._measured.dataset(self._results), self._design, self._spec, self._asked, self._standing
        )
        none_left = all(trial.status == "skipped" for trial in self._results)
        if found.answer != "undecided":
            return ended(found, "decided")
        return ended(found, "limit") if self._asked == len(self._blocks) or none_left else found


def _looked_at(folder: Path) -> Standing | None:
    """Read the standing of the decision of a campaign when it was left. Raises StoreError when that cannot be read."""
    stored = read_header(folder).get("until")
    try:
        return Standing.from_json(stored) if stored else None
    except (KeyError, TypeError) as error:
        raise StoreError(
            f"its decision cannot be read: {error}",
            where="campaign.json",
            advice="remove `until` from it; it is then made anew from the trials",
        ) from error


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
                f"invalid value: {max_trials} trials and no rule that could end before them",
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
            invalid(most, f"{kept_most} or more, as the campaign was begun with that"),
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
            f"invalid value {spec.rule.text!r}: the campaign was begun with {kept_rule!r}",
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
            sender=spec.named_ends[0],
            hosts=[*experiment.hosts, *spec.groups],
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
    if folder is None:
        return None, None
    try:
        until = read_header(folder)["experiment"]["until"]
        return str(until["rule"]["text"]), int(until["max_trials"])
    except (StoreError, ValueError, KeyError, TypeError):
        return None, None
