"""`iodyno model network`, as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iodyno.cli.main import run

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "docs" / "examples" / "three-tier.yaml")


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert run(["model", "network", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert isinstance(found, list)
    return found


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["model", "network", *words]) == 2
    return capsys.readouterr().err


def test_the_example_is_solved_exactly_with_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = rows(capsys, EXAMPLE)
    assert row["method"]["exact"] and row["method"]["source"]
    browse, api = row["classes"]
    assert browse["throughput_per_s"] * (browse["response_time_s"] + 2.0) == pytest.approx(120)
    assert api["throughput_per_s"] == 30
    disk = next(s for s in row["stations"] if s["name"] == "disk")
    assert disk["utilisation_ratio"] == pytest.approx(0.009 * browse["throughput_per_s"] + 0.003 * 30)
    assert row["bounds"][0]["bottleneck"] == "disk"
    assert row["bounds"][0]["saturation_population"] == pytest.approx(2.085 * 0.91 / 0.009)
    assert run(["model", "network", EXAMPLE]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "three-tier: browse 57.0/s, 106 ms each; api 30.0/s, 24.4 ms each; the busiest station is disk, at 60.3 %.\n"
    )
    for part in (
        "Inputs",
        "Classes",
        "Stations",
        "Bounds",
        "exact, by convolution",
        "3 x 3.00 ms",
        "4 x ps",
        "211 jobs",
    ):
        assert part in text


def test_a_sweep_of_populations_is_what_each_alone_is(capsys: pytest.CaptureFixture[str]) -> None:
    swept = rows(capsys, EXAMPLE, "--population", "10,100:120:10")
    assert [row["classes"][0]["population"] for row in swept] == [10, 100, 110, 120]
    (alone,) = rows(capsys, EXAMPLE)
    assert swept[-1]["classes"][0]["throughput_per_s"] == pytest.approx(
        alone["classes"][0]["throughput_per_s"], rel=1e-12
    )
    assert run(["model", "network", EXAMPLE, "--population", "1:3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[4:7]] == ["1", "2", "3"]
    assert "N* = 211 jobs" in lines[8]


def test_a_sweep_of_rates(capsys: pytest.CaptureFixture[str]) -> None:
    swept = rows(capsys, EXAMPLE, "--rate", "10:30:10", "--class", "api")
    assert [row["classes"][1]["rate_per_s"] for row in swept] == [10, 20, 30]
    times = [row["classes"][1]["response_time_s"] for row in swept]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("method", "name"), [("approximate", "Linearizer"), ("schweitzer", "Schweitzer-Bard")]
)
def test_an_approximation_says_that_it_is_one(
    capsys: pytest.CaptureFixture[str], method: str, name: str
) -> None:
    (exact,), (near,) = rows(capsys, EXAMPLE), rows(capsys, EXAMPLE, "--method", method)
    assert near["method"]["name"] == name and not near["method"]["exact"]
    assert near["classes"][0]["throughput_per_s"] == pytest.approx(
        exact["classes"][0]["throughput_per_s"], rel=0.01
    )
    assert run(["model", "network", EXAMPLE, "--method", method]) == 0
    assert "approximate, by" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("no-such-file.yaml",), "no-such-file.yaml: cannot be read"),
        (("/tmp",), "/tmp: cannot be read: it is a folder"),
        ((EXAMPLE, "8"), "unexpected extra argument"),
        ((EXAMPLE, "--percentiles", "50"), "--percentiles: it is for --simulate"),
        ((EXAMPLE, "--seed", "5"), "--seed: it is for --simulate"),
        ((EXAMPLE, "--cluster", "local"), "--cluster: it is for --simulate"),
        (
            (EXAMPLE, "--population", "0"),
            "invalid value '0' for --population: expected whole numbers of 1 job or more",
        ),
        ((EXAMPLE, "--population", "1.5"), "whole numbers"),
        ((EXAMPLE, "--population", "ten"), "invalid value 'ten' for --population"),
        ((EXAMPLE, "--population", "5:1"), "a range that rises"),
        (
            (EXAMPLE, "--population", "5", "--class", "api"),
            "invalid value 'api' for --class: expected browse",
        ),
        (
            (EXAMPLE, "--population", "5", "--rate", "5"),
            "--population cannot be used with --rate",
        ),
        ((EXAMPLE, "--rate", "10,400"), "stations.app: unstable"),
        ((EXAMPLE, "--rate", "1e999"), "--rate"),
        ((EXAMPLE, "--class", "api"), "can only be used with --population or --rate"),
        ((EXAMPLE, "--method", "guess"), "guess"),
    ],
)
def test_bad_input_is_one_clear_error(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    err = said(capsys, *words)
    assert text in err
    assert err.count("iodyno: error:") == 1


def test_the_tables_of_the_documentation_are_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "background" / "networks.md").read_text(encoding="utf-8")
    assert run(["model", "network", EXAMPLE, "--population", "40:280:40"]) == 0
    shown = page[page.index("population  browse") :].split("```")[0]
    assert shown.rstrip() in capsys.readouterr().out
