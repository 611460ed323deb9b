"""What is said about a wrong experiment file, word for word: one `.yaml` and one `.txt` per mistake.

`IODYNO_UPDATE=1 pytest tests/golden` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iodyno.cli import design_options
from iodyno.core.errors import ExperimentError
from iodyno.formats.experiment_file import parse_experiment

CASES = sorted((Path(__file__).parent / "experiment_errors").glob("*.yaml"))


def test_there_are_cases_and_no_text_without_one() -> None:
    assert len(CASES) > 80
    texts = (Path(__file__).parent / "experiment_errors").glob("*.txt")
    assert {path.stem for path in texts} == {path.stem for path in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_what_is_said_about_a_wrong_file(case: Path) -> None:
    with pytest.raises(ExperimentError) as raised:
        experiment = parse_experiment(case.read_bytes(), file="FILE", environment={})
        design_options.plan_of(experiment, "FILE")
    said = f"{raised.value}\n"
    golden = case.with_suffix(".txt")
    if os.environ.get("IODYNO_UPDATE"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
    for line in said.splitlines():
        if "try:" not in line and not line.endswith("mistakes"):
            assert "FILE:" in line
            assert any(
                word in line
                for word in ("expected", "needs ", "duplicate", " be used with", "leave it out", "not YAML")
            )
