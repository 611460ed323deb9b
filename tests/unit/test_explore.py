"""Step by step: which stage follows which, what is held when a factor is left out, and a known truth found in stages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import command_server
import numpy as np
import pytest

from iodyno.analysis.cost_model.coding import FactorScale
from iodyno.analysis.cost_model.data import CostData
from iodyno.analysis.cost_model.screening import judged
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.designs import adaptive
from iodyno.designs.adaptive import Effect, Judged
from iodyno.formats.experiment_file import parse_experiment
from iodyno.formats.stage_text import stage_text
from iodyno.report.explored import effect_lines

HEAD = """
name: many
hosts:
  client: {access: simulated, truth: {noise_between_trials: 0.01}}
  server: {access: simulated, truth: {noise_between_trials: 0.01}}
workload: {kind: stream, sender: client, receiver: server}
windows: {warm_up: 50ms, measured: 200ms, drain: 20ms, interval: 50ms}
outcomes: [client.cpu_ns_per_kib]
"""
FIVE = """
factors:
  size: [1KiB, 64KiB]
  connections: [1, 9]
  nagle: [on, off]
  window: [64KiB, 256KiB]
  congestion_control: [cubic, reno]
"""


def experiment(factors: str) -> Experiment:
    return parse_experiment(HEAD + factors, environment={})


def told(*effects: tuple[str, float, float], curved: str | None = None) -> Judged:
    """Effects by name (`a:b`), each from low to high."""
    return Judged(
        tuple(Effect(tuple(n.split(":")), (low + high) / 2, low, high) for n, low, high in effects),
        0.01,
        curved,
    )


def test_five_factors_are_screened_and_four_are_not() -> None:
    screen = adaptive.first(experiment(FIVE))
    assert (screen.name, screen.design["kind"], screen.design["resolution"]) == ("screen", "fractional", 4)
    few = adaptive.first(experiment("factors: {size: [1KiB, 64KiB], nagle: [on, off]}"))
    assert (few.name, few.design["resolution"]) == ("resolve", 5)
    # Three in the middle; it is visited with each of two words.
    assert few.design["centre_points"] == 1
    with pytest.raises(ExperimentError, match="1 factor with two levels or more; expected 2"):
        adaptive.first(experiment("factors: {size: [1KiB, 64KiB]}"))


def test_only_what_is_shown_to_be_small_is_left_out() -> None:
    screened = told(
        ("size", 0.3, 0.4), ("nagle", -0.01, 0.02), ("window", -0.04, 0.08), ("connections", -0.2, -0.1)
    )
    assert adaptive.survivors(screened, 0.05) == {"size", "window", "connections"}
    assert adaptive.survivors(screened, 0.1) == {"size", "connections"}
    # An interaction keeps both its factors, and those of every interaction that it cannot be told from.
    chain = Effect(("size", "nagle"), 0.2, 0.1, 0.3, (("window", "connections"),))
    assert adaptive.survivors(Judged((chain,), None), 0.05) == {"size", "nagle", "window", "connections"}
    # Nothing is known of an effect without an interval: it stays.
    assert adaptive.survivors(Judged((Effect(("size",), 0.0, None, None),), None), 0.05) == {"size"}


def test_what_follows_depends_on_what_was_told() -> None:
    whole = experiment(FIVE)
    assert adaptive.after_screen(whole, told(("size", -0.01, 0.01)), 0.05) is None
    alone = adaptive.after_screen(whole, told(("size", 0.1, 0.2)), 0.05)
    assert alone is not None and alone.factors == ("size",) and alone.design["kind"] == "full_factorial"
    two = adaptive.after_screen(whole, told(("size", 0.1, 0.2), ("nagle", 0.1, 0.2)), 0.05)
    assert two is not None and two.factors == ("size", "nagle")
    assert adaptive.after_resolve(whole, told(), two.factors) is None
    bent = adaptive.after_resolve(whole, told(curved="size"), two.factors)
    assert bent is not None and bent.name == "curve"
    # The middle and both ends of the one number; the word at its first level.
    rows = adaptive.axial_rows(whole, two.factors)
    assert [(row["size"], row["nagle"]) for row in rows] == [(33280, True), (1024, True), (65536, True)]


def test_a_factor_that_is_left_out_is_held_at_its_first_level_with_what_is_set_together() -> None:
    text = (
        HEAD
        + """
factors:
  connections: {levels: [1, 100], together: {window: [256KiB, 32KiB]}}
  size: [1KiB, 64KiB]
  server.gro: [on, off]
tunables: {server: {tso: off}}
quick:
  factors: {size: [2KiB, 4KiB]}
  windows: {measured: 100ms}
"""
    )
    parse_experiment(text, environment={})
    for quick, sizes, measured in ((False, (1024, 65536), 200), (True, (2048, 4096), 100)):
        made = stage_text(
            text, ["size"], {"kind": "full_factorial", "replicates": 2}, name="s", quick=quick, environment={}
        )
        stage = parse_experiment(made, quick=quick, environment={})
        assert [(factor.name, factor.levels) for factor in stage.factors] == [("size", sizes)]
        assert stage.workload.settings["connections"] == 1 and stage.workload.settings["window"] == 256 << 10
        assert dict(stage.tunables) == {"server.tso": False, "server.gro": True}
        assert stage.windows.measured_ns == measured * 10**6
        assert stage.name == "many-s" and stage.design.replicates == 2


def test_an_effect_is_a_ratio_and_no_share_below_nothing() -> None:
    scales = (FactorScale("size", "number", (1.0, 8.0)), FactorScale("nagle", "word", ("on", "off")))
    rows = [{"size": size, "nagle": word} for size in (1.0, 8.0) for word in ("on", "off")] * 3
    noise = np.random.default_rng(3).normal(0, 0.02, len(rows))
    # From 12000 to 500: less 257 % of some mean is nothing that anybody could have measured.
    values = np.array([12_000.0 if row["size"] == 1.0 else 500.0 for row in rows]) * np.exp(noise)
    data = CostData(
        "client.cpu_ns_per_kib", "ns/KiB", scales, tuple(rows), values, order=tuple(range(len(rows)))
    )
    found = judged(data)
    size = next(one for one in found.effects if one.factors == ("size",))
    assert size.change_ratio_low is not None and size.change_ratio_high is not None
    assert -1 < size.change_ratio_low < 500 / 12_000 - 1 < size.change_ratio_high < 0
    assert found.noise_ratio is not None and found.noise_ratio < 0.05
    nagle = next(one for one in found.effects if one.factors == ("nagle",))
    assert size.matters(0.1) and not nagle.matters(0.1)
    line = next(line for line in effect_lines(found, 0.05) if "size:" in line)
    assert line.strip().startswith("size: x 0.04")


def run(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [*command_server.iodyno(), "explore", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)


def test_a_known_truth_is_found_in_stages_and_an_exploration_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "many.yaml"
    file.write_text(HEAD + FIVE, encoding="utf-8")
    ran = run(tmp_path, file, "--into", "there", "--json")
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    # The simulated sender's cost has a part of each message, and none of the other four.
    assert found["left_out"] == ["connections", "nagle", "window", "congestion_control"]
    assert [stage["name"] for stage in found["stages"]] == ["screen", "resolve", "curve"]
    # A message's fixed cost is spread over its bytes: no straight line in its size.
    assert found["stages"][1]["curved"] == "size"
    assert found["stages"][0]["trials"] == 32 and found["trials"] <= 60
    for expected in ("expects to tell effects to ±", "4 left out", "no straight line in size"):
        assert expected in ran.stderr
    # A change, -0.9, by its name: the text beside it says x 0.1.
    size = found["stages"][1]["effects"][0]
    assert size["factors"] == ["size"]
    assert -1 < size["change_ratio_low"] < size["change_ratio"] < size["change_ratio_high"] < 0
    assert f"size: x {1 + size['change_ratio']:.3g} [" in ran.stderr
    folder = tmp_path / found["folder"]
    campaigns = [tmp_path / stage["campaign"] for stage in found["stages"]]
    before = {
        path: path.stat().st_mtime_ns for c in campaigns for path in (c / "trials").glob("*/manifest.json")
    }
    again = run(tmp_path, file, "--resume", folder, "--json")
    assert again.returncode == 0, again.stderr
    after = {
        path: path.stat().st_mtime_ns for c in campaigns for path in (c / "trials").glob("*/manifest.json")
    }
    assert before == after, "nothing is measured twice"
    refused = run(tmp_path, file, "--least", "1%", "--resume", folder)
    assert refused.returncode == 6 and "was begun with another least" in refused.stderr


@pytest.mark.parametrize(
    ("more", "words", "expected"),
    [
        ("factors: {size: [1KiB, 64KiB]}", (), "1 factor with two levels or more; expected 2"),
        (FIVE + "until: ratio(nagle) > 1.5", (), "decides itself what is run"),
        (FIVE, ("--least", "x"), "expected a share above 0, such as 5% or 0.05"),
        (FIVE, ("--resume", "nowhere"), "is no exploration"),
        (FIVE, ("--outcome", "cpu_ns_per_kb"), "did you mean 'cpu_ns_per_kib'?"),
        (FIVE, ("--outcome", "client.cpu_cores"), "expected HOST.cpu_ns_per_kib, "),
    ],
)
def test_bad_input_is_one_error(more: str, words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(HEAD + more + "\n", encoding="utf-8")
    ran = run(tmp_path, file, *words)
    assert ran.returncode in (2, 6) and expected in ran.stderr
    assert "Traceback" not in ran.stderr


PROFILE = """
workload:
  kind: script
  sender: client
  receiver: server
  profile: |
    <profile name="asked">
      <group nthreads="$n">
        <transaction iterations="1"><flowop type="connect" options="remotehost=server protocol=tcp"/></transaction>
        <transaction duration="100ms">
          <flowop type="write" options="size=$size"/><flowop type="read" options="size=$response_size"/>
        </transaction>
      </group>
    </profile>
factors: {size: [64B, 1KiB], response_size: [64B, 8KiB], n: [LEVELS]}
"""


def test_of_a_script_no_stage_begins_that_has_a_point_which_cannot_be_carried_out(tmp_path: Path) -> None:
    text = "\n".join(line for line in HEAD.splitlines() if not line.startswith("workload"))
    file = tmp_path / "script.yaml"
    file.write_text(text + PROFILE.replace("LEVELS", "1, 100000"), encoding="utf-8")
    ran = run(tmp_path, file)
    assert (
        ran.returncode == 2
        and "invalid value '100000' for factors.n: expected" in ran.stderr
        and "factors.n" in ran.stderr
    )
    assert not [*tmp_path.glob("many-exploration*")], "refused before anything is made"
