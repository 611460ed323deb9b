"""An exploration: step by step to what matters, each stage a campaign that is planned from what those before have told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iodyno.core.design import Design
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of

if TYPE_CHECKING:
    from iodyno.analysis.cost_model.data import CostData
    from iodyno.analysis.cost_model.study import CostStudy
    from iodyno.designs.adaptive import Judged, Stage

STATE = "exploration.json"


@dataclass(frozen=True)
class Done:
    """A stage that has run: its campaign, how many trials it has, what is known with them, and what that told."""

    stage: Stage
    campaign: Path
    trials: int
    data: CostData
    told: Judged


def outcome_of(whole: Experiment, name: str | None) -> str | None:
    """The outcome that was named, of the sender where no host is and each has it. Raises ExperimentError before any trial."""
    from iodyno.formats.outcome_names import mistake_of

    if name is None:
        return None
    check = partial(
        mistake_of, hosts=list(whole.hosts), beside=whole.bystanders, on_disks=bool(whole.workload.hosts)
    )
    wrong = check(name)
    of_sender = f"{whole.workload.ends[0]}.{name}"
    if wrong and not check(of_sender):
        return of_sender
    if wrong:
        raise ExperimentError(wrong, where="--outcome", advice="leave it out, or name an outcome of the file")
    return name


def planned(whole: Experiment, stage: Stage, quick: bool, folder: Path) -> tuple[Experiment, Design]:
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
    text = stage_text(whole.text, stage.factors, keys, name=stage.name, quick=quick)
    experiment = parse_experiment(text, file=f"stage {stage.name}", quick=quick, folder=folder)
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


def folder_of(whole: Experiment, resume: Path | None, into: Path | None, asked: Mapping[str, Any]) -> Path:
    """The exploration's folder: a new one, or the one to go on with, which was asked for in the same way."""
    from iodyno.campaign.folder import new_folder
    from iodyno.store.writer import write_json_atomically

    if resume is None:
        folder = new_folder(into or Path("campaigns"), f"{whole.name}-exploration")
        write_json_atomically(folder / STATE, dict(asked))
        return folder
    try:
        stored = json.loads((resume / STATE).read_text(encoding="utf-8"))
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
            where=str(resume / STATE),
            advice="the same file and options, or another folder",
        )
    return resume


def judged_stage(stage: Stage, campaign: Path, data: CostData, done: list[Done]) -> Done:
    """The stage with what its trials told; those on the axes tell it together with those before them."""
    from iodyno.analysis.cost_model.screening import inner, judged, together

    trials = len(data.values)
    if stage.name == "curve":
        data = together([done[-1].data, data])
        return Done(stage, campaign, trials, data, judged(data, squares=inner(data)))
    return Done(stage, campaign, trials, data, judged(data))


def next_stage(whole: Experiment, done: list[Done], least: float) -> Stage | None:
    """What follows the last of these stages; None: nothing."""
    from iodyno.designs import adaptive

    last = done[-1]
    if last.stage.name == "screen":
        return adaptive.after_screen(whole, last.told, least)
    if last.stage.name == "resolve":
        return adaptive.after_resolve(whole, last.told, last.stage.factors)
    return None


def study_of(last: Done) -> CostStudy:
    """The model of the last stage, and of the one before where that has the same factors."""
    from iodyno.analysis.cost_model.fit import fit
    from iodyno.analysis.cost_model.screening import inner, with_squares
    from iodyno.analysis.cost_model.study import study

    curve = last.stage.name == "curve"
    return study(fit(last.data, with_squares(last.data, inner(last.data)) if curve else None))
