"""What to buy, from a cost whose truth is known: the published costs of two protocols, 80.54 and 41.10 us an IO."""

from __future__ import annotations

from pathlib import Path

import pytest

from iodyno.analysis.cost_model.consequences import consequences
from iodyno.analysis.cost_model.data import read_csv
from iodyno.analysis.cost_model.fit import fit
from iodyno.analysis.cost_model.shown import CostStudy
from iodyno.analysis.cost_model.study import study
from iodyno.report.cost_model import cost_section, study_json

COSTS_US = {"fc": 41.10, "nfs": 80.54}


def made(folder: Path, unit: str, costs: dict[str, float] = COSTS_US) -> CostStudy:
    """Three factors, replicates that are as far above the truth as below it."""
    lines = ["read,block,protocol,cost"]
    for read in ("0%", "100%"):
        for block in ("4KiB", "8KiB"):
            for protocol, cost in costs.items():
                lines += [f"{read},{block},{protocol},{cost * (1 + way)}" for way in (-0.01, 0.01)]
    path = folder / "trials.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return study(fit(read_csv(path, None, unit)))


def test_cores_are_those_of_the_target_and_not_of_full_cores(tmp_path: Path) -> None:
    found = {one.level: one for one in consequences(made(tmp_path, "us/IO"))}
    # 70 000/s: 5.64 and 2.88 cores are busy; the source bought 6 and 3.
    assert {level: one.cores.needed for level, one in found.items()} == {"fc": 5, "nfs": 9}
    assert found["nfs"].cost.estimate.estimate == pytest.approx(80.54e-6)
    assert found["nfs"].utilisation == pytest.approx(70_000 * 80.54e-6 / 9)
    for one in found.values():
        service_s = COSTS_US[one.level] * 1e-6
        # A core's own queue: s / (1 - u), and its 99 % quantile ln 100 times that (Jain 1991, box 31.1).
        assert one.separate.mean_s == pytest.approx(service_s / (1 - one.utilisation))
        assert one.separate.p99_s == pytest.approx(4.605170186 * one.separate.mean_s)
        assert service_s < one.shared.mean_s < one.separate.mean_s
        assert one.shared.p99_s < one.separate.p99_s


def test_the_report_says_what_to_buy(tmp_path: Path) -> None:
    section = cost_section(made(tmp_path, "us/IO"))
    (said,) = [text for text in section.sentences if "protocol nfs" in text]
    assert "80.5" in said and "9 cores" in said and "70 % utilisation" in said
    table = section.tables[0]
    assert table.title == "What follows: cores for 70000 operations a second"
    assert [row[0].text for row in table.rows] == ["fc", "nfs"]
    rows = study_json(made(tmp_path, "us/IO"))["consequences"]
    assert [(row["level"], row["cores"]) for row in rows] == [("fc", 5), ("nfs", 9)]


@pytest.mark.parametrize("unit", ["ns/KiB", "bit/s", "", "% of 8 cores"])
def test_nothing_follows_from_what_is_no_cost_of_an_operation(unit: str, tmp_path: Path) -> None:
    assert consequences(made(tmp_path, unit)) == ()


def test_nothing_follows_from_a_cost_below_nothing(tmp_path: Path) -> None:
    assert consequences(made(tmp_path, "us/IO", {"fc": -3.0, "nfs": 80.0})) == ()
