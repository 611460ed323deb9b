"""From stored trials of a known truth to the equation: the model of a campaign, on the terminal, as JSON and in its report."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path
from typing import Any

import made_campaign
import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.cost_model.study import study_costs
from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.cli.main import run
from iodyno.report.html import page

SIZES = (4096, 65536)
CONNECTIONS = (8, 256)
FACTORS = [
    {"name": "connections", "levels": list(CONNECTIONS)},
    {"name": "size", "levels": list(SIZES)},
    {"name": "nagle", "levels": [True, False]},
]


def per_kib(connections: int, size: int, nagle: bool) -> float:
    """ns of the client: costlier with connections, cheaper with long messages, more so without Nagle's algorithm."""
    return 400 + 0.5 * connections - 2e-3 * size + (0 if nagle else 1e-3 * size)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [
        (
            {"connections": connections, "size": size, "nagle": nagle},
            Truth(
                bytes_per_s=2e8,
                cost_ns_per_kib={"client": per_kib(connections, size, nagle), "server": 300.0},
                background=0.02,
                between=0.01,
                within=0.005,
            ),
        )
        for connections, size, nagle in product(CONNECTIONS, SIZES, (True, False))
    ]
    layout = Layout(intervals=3, replicates=4, outcomes=("goodput_bits_per_s", "client.cpu_ns_per_kib"))
    return make_campaign(
        tmp_path_factory.mktemp("campaign") / "made", points, factors=FACTORS, layout=layout, seed=4
    )


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["model", "cost", *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_equation_is_that_of_the_truth(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(
        capsys, str(folder), "--outcome", "cpu_ns_per_kib", "--at", "connections=100,size=16KiB,nagle=off"
    )
    assert found["outcome"] == "client.cpu_ns_per_kib" and found["trials"] == 32
    coefficients = {one["name"]: one for one in found["coefficients"]}
    # Half of what each changes by from its low to its high end, the others in the middle.
    true = {
        "connections": 0.25 * (256 - 8),
        "size": -0.5 * 1.5e-3 * (65536 - 4096),
        "nagle[off]": 0.5 * 1e-3 * (65536 + 4096) / 2,
        "size:nagle[off]": 0.25 * 1e-3 * (65536 - 4096),
        "connections:size": 0.0,
        "connections:nagle[off]": 0.0,
    }
    for name, value in true.items():
        error = coefficients[name]["standard_error"]
        assert abs(coefficients[name]["estimate"] - value) < 3.5 * error, name
    (cost,) = (one for one in found["derived"] if one["name"] == "CPU per KiB")
    expected = 1e-9 * per_kib(100, 16384, False)
    assert cost["estimate"] == pytest.approx(expected, rel=0.02)
    assert cost["bootstrap_low"] < cost["estimate"] < cost["bootstrap_high"]
    shares = {one["name"]: one["share_ratio"] for one in found["variation"]["sources"]}
    assert (
        shares["connections"]
        > shares["size"]
        > shares["nagle"]
        > shares["size:nagle"]
        > shares["connections:size"]
    )


def test_the_report_has_a_section_about_it(folder: Path) -> None:
    summary = analyse(read_dataset(folder))
    assert summary.costs is not None and summary.costs.outcome == "client.cpu_ns_per_kib"
    text = page(summary)
    assert 'id="cost-model"' in text and "What is the cost made of?" in text
    assert all(f'id="figure-{name}"' in text for name in ("half-normal", "effects", "predicted"))
    assert "client_cpu_ns_per_kib = " in text
    assert "size:nagle" in text


def test_the_same_trials_give_the_same_report(folder: Path) -> None:
    assert page(analyse(read_dataset(folder))) == page(analyse(read_dataset(folder)))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--outcome", "client.cpu_ns_per_kilo"], "no trial has the outcome client.cpu_ns_per_kilo"),
        (["--outcome", "goodput_bits_per_s", "--cores", "--load", "1k/s", "--target-utilisation", "70%"], "no cost of CPU"),
        (["--unit", "cores"], "the unit of a campaign's outcome is known"),
        (["--at", "size=2KiB"], "size=2KiB is outside of the range 4KiB to 64KiB"),
        (["--at", "nagle=maybe"], "invalid value 'maybe': expected one of on, off"),
        (["--formula", "latency ~ size"], "no trial has the outcome"),
    ],
)  # fmt: skip
def test_what_a_campaign_cannot_answer(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = [] if {"--outcome", "--formula"} & set(arguments) else ["--outcome", "client.cpu_ns_per_kib"]
    assert run(["model", "cost", str(folder), *outcome, *arguments]) == 2
    assert says in capsys.readouterr().err


def test_cores_for_operations_are_of_the_cost_of_an_operation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--cores", "--load", "70000/s", "--target-utilisation", "70%")
    found = shown(capsys, str(folder), *asked)
    assert found["outcome"] == "client.cpu_ns_per_operation" and found["unit"] == "ns/operation"
    assert run(["model", "cost", str(folder), "--outcome", "client.cpu_ns_per_kib", *asked]) == 0
    assert capsys.readouterr().out.startswith("70000 KiB/s keep ")


def test_between_two_levels_the_line_is_supposed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = ("--outcome", "client.cpu_ns_per_kib")
    assert run(["model", "cost", str(folder), *outcome, "--at", "size=16KiB"]) == 0
    assert "size=16KiB lies between 4KiB and 64KiB, and no third level" in capsys.readouterr().out
    assert run(["model", "cost", str(folder), *outcome, "--at", "size=4KiB"]) == 0
    assert "no third level" not in capsys.readouterr().out


def test_one_factor_or_few_trials_make_no_section(tmp_path: Path) -> None:
    one = make_campaign(
        tmp_path / "one",
        [({"connections": c}, Truth()) for c in (1, 8)],
        factors=[{"name": "connections", "levels": [1, 8]}],
        layout=Layout(intervals=2),
    )
    assert study_costs(analyse(read_dataset(one))) is None
    few = make_campaign(
        tmp_path / "few",
        [({"connections": c, "size": s}, Truth()) for c in (1, 8) for s in SIZES],
        factors=[*FACTORS[:1], {"name": "size", "levels": list(SIZES)}],
        layout=Layout(intervals=2, replicates=1),
    )
    summary = analyse(read_dataset(few))
    assert summary.costs is None
    assert 'id="cost-model"' not in page(summary)


def test_a_trial_that_failed_is_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [({"connections": c, "size": s}, Truth()) for c in (1, 8) for s in SIZES]
    factors = [{"name": "connections", "levels": [1, 8]}, {"name": "size", "levels": list(SIZES)}]
    layout = Layout(intervals=2, replicates=3)
    made = make_campaign(tmp_path / "made", points, factors=factors, layout=layout)
    planned = {"order": 90, "block": 2, "replicate": 3, "point": "p01"}
    made_campaign.write_trial(
        made / "trials",
        "00090-1",
        planned,
        points[0][0],
        points[0][1],
        layout,
        random.Random(1),
        status="failed",
    )
    found = shown(capsys, str(made), "--outcome", "client.cpu_ns_per_kib")
    assert (found["trials"], found["left_out"]) == (12, 1)


def test_what_no_trial_tells_is_said_with_its_reason(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", "cost", str(folder), "--outcome", "response_time_p90_ns"]) == 5
    said = capsys.readouterr().err
    assert (
        "no trial tells response_time_p90_ns: the loop is closed" in said
        and "try: measure for longer" in said
    )
