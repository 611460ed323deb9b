"""What is said about a design that an experiment cannot have, word for word: one `.yaml` and one `.txt` per mistake.

`IODYNO_UPDATE=1 pytest tests/golden` writes the texts anew; read the difference before keeping it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iodyno.cli.design_options import planned
from iodyno.core.errors import ExperimentError

FOLDER = Path(__file__).parent / "design_errors"
CASES = sorted(FOLDER.glob("*.yaml"))


def test_there_are_cases_and_no_text_without_one() -> None:
    assert len(CASES) > 50
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_what_is_said_about_a_wrong_design(case: Path) -> None:
    with pytest.raises(ExperimentError) as raised:
        planned(str(case))
    said = f"{raised.value}\n".replace(str(case), "FILE").replace(str(FOLDER), "FOLDER")
    golden = case.with_suffix(".txt")
    if os.environ.get("IODYNO_UPDATE"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")
    assert said.startswith("FILE:")
    assert "\n  try: " in said
    assert raised.value.exit_code == 2
