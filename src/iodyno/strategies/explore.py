"""An exploration: step by step to what matters, each stage a campaign that is planned from what those before have told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.store.schema import EXPLORATION

if TYPE_CHECKING:
    from iodyno.analysis.cost_model.data import CostData
    from iodyno.analysis.cost_model.shown import CostStudy
    from iodyno.designs.adaptive import Judged, Stage


@dataclass(frozen=True)
class Planned:
    """A stage that is to run: its experiment, its design, and the folder of its campaign."""

    stage: Stage
    experiment: Experiment
    design: Design
    campaign: Path


@dataclass(frozen=True)
class Done:
    """A stage that has run: its campaign, how many trials it has, what is known with them, and what that told."""

    stage: Stage
    campaign: Path
    trials: int
    data: CostData
    judgement: Judged


class Explore:
    """Is asked for the next stage and told when its campaign is finished, as a strategy is for trials.

    `least`: change of the mean that matters; `beside`: the folder of the experiment's file. Raises ExperimentError where the
    experiment leaves nothing to explore.
    """

    def __init__(self, whole: Experiment, outcome: str | None, least: float, beside: Path) -> None:
        from iodyno.designs import adaptive

        decides = "search" if whole.search else "until" if whole.until else None
        if decides:
            raise ExperimentError(
                "decides itself what is run", where=decides, advice="`iodyno run`, or leave that section out"
            )
        self._whole = whole
        self._beside = beside
        self._folder = Path()
        self.outcome = _outcome(whole, outcome)
        self._next: Stage | None = adaptive.first(whole)
        self.least = least
        self.done: list[Done] = []

    def begin(self, into: Path, resume: Path | None = None) -> Path:
        """The exploration's folder: a new one, or the one to go on with, which was begun in the same way. Raises StoreError."""
        from iodyno.campaign.folder import new_folder
        from iodyno.store.writer import write_json_atomically

        whole = self._whole
        asked = {"text": whole.text, "outcome": self.outcome, "least": self.least, "quick": whole.quick}
        if resume is None:
            self._folder = new_folder(into, f"{whole.name}-exploration")
            write_json_atomically(self._folder / EXPLORATION, asked)
        else:
            self._folder = _resumed(resume, asked)
        return self._folder

    def ask(self) -> Planned | None:
        """The next stage; None: nothing that matters is left to tell apart."""
        if self._next is None:
            return None
        experiment, design = _planned(self._whole, self._next, self._beside)
        return Planned(
            self._next, experiment, design, self._folder / f"{len(self.done) + 1}-{self._next.name}"
        )

    def tell(self, stage: Planned) -> Done:
        """Read what the campaign of the stage told; that on the axes tells it together with the one before."""
        from iodyno.analysis.cost_model.screening import inner, judged, together
        from iodyno.analysis.cost_model.study import campaign_data, costs_of
        from iodyno.analysis.dataset import read_dataset
        from iodyno.analysis.summary import analyse

        summary = analyse(read_dataset(stage.campaign))
        data = campaign_data(summary, self.outcome or costs_of(summary)[0])
        self.outcome = data.outcome
        trials = len(data.values)
        if stage.stage.name == "curve":
            data = together([self.done[-1].data, data])
            judgement = judged(data, squares=inner(data))
        else:
            judgement = judged(data)
        self.done.append(Done(stage.stage, stage.campaign, trials, data, judgement))
        self._next = self._after(self.done[-1])
        return self.done[-1]

    def answer(self) -> dict[str, Any]:
        """Return the findings so far, as the exploration's folder holds them."""
        kept = self.done[-1].stage.factors
        stages = [
            {
                "name": one.stage.name,
                "why": one.stage.why,
                "campaign": str(one.campaign),
                "factors": list(one.stage.factors),
                "trials": one.trials,
                **asdict(one.judgement),
            }
            for one in self.done
        ]
        return {
            "folder": str(self._folder),
            "outcome": self.outcome,
            "least_ratio": self.least,
            "left_out": [f.name for f in self._whole.factors if len(f.levels) > 1 and f.name not in kept],
            "trials": sum(one.trials for one in self.done),
            "stages": stages,
        }

    def study(self) -> CostStudy:
        """The model of the last stage, and of the one before where that has the same factors."""
        from iodyno.analysis.cost_model.fit import fit
        from iodyno.analysis.cost_model.screening import inner, with_squares
        from iodyno.analysis.cost_model.study import study

        last = self.done[-1]
        curve = last.stage.name == "curve"
        return study(fit(last.data, with_squares(last.data, inner(last.data)) if curve else None))

    def _after(self, last: Done) -> Stage | None:
        from iodyno.designs import adaptive

        if last.stage.name == "screen":
            return adaptive.after_screen(self._whole, last.judgement, self.least)
        if last.stage.name == "resolve":
            return adaptive.after_resolve(self._whole, last.judgement, last.stage.factors)
        return None


def _outcome(whole: Experiment, name: str | None) -> str | None:
    """The outcome that was named, of the sender where no host is and each has it. Raises ExperimentError before any trial."""
    from iodyno.formats.outcome_names import mistake_of
    from iodyno.loads.base.formats import load_named

    if name is None:
        return None
    known = load_named(whole.workload.kind).outcomes
    check = partial(
        mistake_of,
        hosts=list(whole.hosts),
        beside=whole.bystanders,
        known=known,
        groups=whole.workload.groups,
    )
    wrong = check(name)
    of_sender = f"{whole.workload.named_ends[0]}.{name}"
    if wrong and not check(of_sender):
        return of_sender
    if wrong:
        raise ExperimentError(wrong, where="--outcome", advice="leave it out, or name an outcome of the file")
    return name


def _planned(whole: Experiment, stage: Stage, folder: Path) -> tuple[Experiment, Design]:
    """The experiment of a stage, with its design; `folder`: of the file that the whole one was read from."""
    from iodyno import designs
    from iodyno.formats.experiment_file import parse_experiment
    from iodyno.formats.stage_text import stage_text

    keys: dict[str, Any] = {**stage.design, "seed": whole.design.seed}
    if whole.design.log:
        keys["log"] = [name for name in whole.design.log if name in stage.factors]
    if stage.design["kind"] == "csv":
        keys["rows"] = _rows(whole, stage)
    keys = {key: value for key, value in keys.items() if value not in ([], ())}
    text = stage_text(whole.text, stage.factors, keys, name=stage.name, quick=whole.quick)
    experiment = parse_experiment(text, file=f"stage {stage.name}", quick=whole.quick, folder=folder)
    return experiment, designs.plan(experiment)


def _rows(whole: Experiment, stage: Stage) -> str:
    """The trials on the axes as the text of a design file, twice each."""
    from iodyno.designs import adaptive

    names = [factor.name for factor in whole.factors if factor.name in stage.factors]
    lines = [",".join(names)]
    for row in adaptive.axial_rows(whole, stage.factors):
        shown = []
        for name in names:
            parameter = parameter_of(whole.workload.workload, name)
            shown.append(parameter.show(row[name]) if parameter else str(row[name]))
        lines += [",".join(shown)] * adaptive.REPLICATES
    return "\n".join(lines) + "\n"


def _resumed(resume: Path, asked: Mapping[str, Any]) -> Path:
    """The folder of an exploration that was begun in that way. Raises StoreError."""
    try:
        stored = json.loads((resume / EXPLORATION).read_text(encoding="utf-8"))
        if not isinstance(stored, dict):
            raise ValueError("its state is no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(
            f"is no exploration: {error}",
            where=str(resume),
            advice="name the folder that `iodyno explore` made",
        ) from None
    changed = [key for key in asked if stored.get(key) != asked[key]]
    if changed:
        raise StoreError(
            f"was begun with another {' and '.join(changed)}",
            where=str(resume / EXPLORATION),
            advice="the same file and options, or another folder",
        )
    return resume
