"""Tables, sentences and figure data of a report, from the tables of 2008. `IODYNO_UPDATE=1` writes them anew."""

from __future__ import annotations

import io
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import made_summary
import numpy as np
import pytest
from made_trials import design, even

from iodyno.analysis.cost_model.fit import fit
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.analysis.cost_model.study import study
from iodyno.report.csv import outcome_rows
from iodyno.report.figures import FIGURES
from iodyno.report.form import csv_text
from iodyno.report.json import as_json
from iodyno.report.terminal import show_tables

GOLDEN = Path(__file__).parent / "report"
NOTHING = {
    "latency": "nothing is late in a closed loop",
    "finite-buffer": "no port is shaped",
    "fit": "made by hand: nothing is fitted",
    "decision": "no rule was asked",
    "disk-rate": "a load on a network",
    "disk-times": "a load on a network",
}
"""Figures that these tables have nothing for, and why."""


def keep(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("IODYNO_UPDATE"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; IODYNO_UPDATE=1 writes it anew"


@pytest.mark.parametrize("made", ["summary", "flat", "single"])
def test_what_a_terminal_shows(made: str) -> None:
    out = io.StringIO()
    show_tables(getattr(made_summary, made)(), out)
    keep(f"{made}.txt", out.getvalue())


def made_costs() -> CostStudy:
    """A model of trials drawn from the published coefficients."""
    data, truth = design(4)
    noise = even(np.random.default_rng(1), truth)
    return study(fit(replace(data, values=truth + noise)))


@pytest.mark.parametrize("name", [entry.name for entry in FIGURES])
def test_what_a_figure_shows(name: str) -> None:
    make = next(entry.make for entry in FIGURES if entry.name == name)
    summary = made_summary.summary()
    if name in ("half-normal", "effects", "predicted"):
        summary = replace(summary, costs=made_costs())
    figure = make(summary)
    if name in NOTHING:
        assert figure is None, NOTHING[name]
        return
    assert figure is not None
    keep(f"figure-{name}.json", json.dumps(ten_digits(asdict(figure)), indent=1, ensure_ascii=False) + "\n")


def ten_digits(value: Any) -> Any:
    """Numbers to ten digits: the last ones of a matrix product follow the instructions that a CPU has for it."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, dict):
        return {key: ten_digits(item) for key, item in value.items()}
    return [ten_digits(item) for item in value] if isinstance(value, list | tuple) else value


def test_what_csv_and_json_hold() -> None:
    keep("points.csv", csv_text(outcome_rows(made_summary.summary())))
    keep("single.json", as_json(made_summary.single()) + "\n")
