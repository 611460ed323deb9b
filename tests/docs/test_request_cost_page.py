"""The numbers that docs/tutorial/request-cost.md names follow from the trials that it ships."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from places import iodyno

from iodyno.analysis.cost_model.data import read_csv
from iodyno.analysis.cost_model.derived import (
    cores_needed,
    cost_per_operation,
    difference_of_levels,
    ratio_of_levels,
)
from iodyno.analysis.cost_model.fit import fit
from iodyno.analysis.cost_model.model import CostModel
from iodyno.core.errors import ExperimentError
from iodyno.core.outcome import Estimate

DOCS = Path(__file__).parents[2] / "docs" / "tutorial"
PAGE = (DOCS / "request-cost.md").read_text(encoding="utf-8")
OPERATIONS = {
    "neither": {"size": "512B", "response_size": "512B"},
    "read": {"size": "512B", "response_size": "8KiB"},
    "write": {"size": "8KiB", "response_size": "512B"},
}


@cache
def model() -> CostModel:
    return fit(read_csv(DOCS.parent / "examples" / "request-cost.csv")).model


def three(found: Estimate, factor: float = 1.0) -> tuple[float, float, float]:
    assert found.estimate is not None and found.low is not None and found.high is not None
    return found.estimate * factor, found.low * factor, found.high * factor


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_ratio_of_each_kind_of_operation(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {name} ("))
    at = {**OPERATIONS[name], "rate": "4000/s"}
    ratio = ratio_of_levels(model(), "transport", at, levels=("tcp", "udp"))
    difference = difference_of_levels(model(), "transport", at, levels=("tcp", "udp"))
    written = [float(number) for number in re.findall(r"-?\d+\.\d+", row)]
    # To the digits that the page has: half a unit of the last one.
    assert written[:3] == pytest.approx(three(ratio.estimate), abs=0.0051)
    assert written[3:] == pytest.approx(three(difference.estimate, 1e6), abs=0.051)


def test_the_table_of_coefficients_is_what_the_command_above_it_prints(tmp_path: Path) -> None:
    asked, shown = re.findall(
        r"^```(?:sh)?\n(iodyno model cost --csv [^|]+?|term .+?)\n```$", PAGE, re.MULTILINE | re.DOTALL
    )[:2]
    printed = iodyno(*shlex.split(asked)[1:], cwd=tmp_path)
    assert shown.removesuffix("\n...") in printed.stdout, printed.stderr


def test_an_operation_is_cheaper_where_there_are_many() -> None:
    slow, fast = (
        cost_per_operation(model(), {"rate": rate}).estimate.estimate for rate in ("1000/s", "4000/s")
    )
    assert slow is not None and fast is not None
    assert "54 us at 1000/s, 34 us at 4000/s" in PAGE
    assert (round(slow * 1e6), round(fast * 1e6)) == (54, 34)


def test_the_cores_to_buy() -> None:
    for transport, words in (("tcp", "2.5 (2.4 to 2.7) cores"), ("udp", "2.2 (2.1 to 2.4)")):
        assert words in PAGE
        needed = cores_needed(
            model(), {"transport": transport, "rate": "4000/s"}, load_per_s=70_000, target_utilisation=0.7
        )
        written = [float(number) for number in re.findall(r"\d+\.\d+", words)]
        assert written == pytest.approx(three(needed.busy.estimate), abs=0.051)
        assert needed.needed == 4


def test_a_level_that_was_not_measured_is_refused() -> None:
    with pytest.raises(ExperimentError, match="64KiB"):
        cost_per_operation(model(), {"size": "64KiB"})
