"""The noise ladder: known components come back, floors are what a test sees, and a ladder of simulated hosts."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from draws import count_between, draws

from iodyno.analysis.decisions.noise import Component, Noise, Tree, allocation, noise, trials_for
from iodyno.analysis.decisions.verdicts import Sides, judge
from iodyno.cli.main import run
from iodyno.core.decision import LEAST_EFFECT
from iodyno.core.noise import LEVELS

SD = {"block": 3.0, "restart": 2.0, "trial": 1.5, "interval": 4.0}
"""In per cent of the mean, as the mean is 100."""


def tree(
    source: np.random.Generator, sd: dict[str, float] = SD, counts: tuple[int, ...] = (4, 3, 4, 6)
) -> list[Tree]:
    def below(level: int, value: float) -> Tree:
        if level == len(counts):
            return value
        step = sd[LEVELS[level]]
        return [below(level + 1, value + source.normal(0, step)) for _ in range(counts[level])]

    made = below(0, 100.0)
    assert isinstance(made, list)
    return made


def test_known_components_come_back_and_intervals_hold_them() -> None:
    """200 ladders: three standard errors of 95 % are 4.6 %."""
    source = np.random.default_rng(1)
    held, squares = dict.fromkeys(LEVELS, 0), dict.fromkeys(LEVELS, 0.0)
    for _ in range(200):
        found = noise("x", tree(source))
        assert found.mean is not None
        for each in found.components:
            truth = SD[each.level] / found.mean
            held[each.level] += each.low <= truth and (each.high is None or truth <= each.high)
            squares[each.level] += (100 * each.sd_ratio) ** 2 / 200
    for level in LEVELS:
        assert held[level] / 200 >= 0.95 - 0.046
        assert math.sqrt(squares[level]) == pytest.approx(SD[level], rel=0.15)


def test_balanced_components_are_those_of_the_analysis_of_variance() -> None:
    """An independent oracle: expected mean squares of one-way analysis of variance, by scipy."""
    from scipy.stats import f_oneway

    groups = [[10.1, 10.4, 9.9], [11.2, 11.0, 11.5], [9.2, 9.5, 9.4]]
    found = noise("x", groups, ("trial", "interval"))
    within = float(np.mean([np.var(group, ddof=1) for group in groups]))
    between = (f_oneway(*groups).statistic * within - within) / 3
    trial, interval = found.component("trial"), found.component("interval")
    assert trial is not None and interval is not None and found.mean is not None
    assert trial.sd_ratio * found.mean == pytest.approx(math.sqrt(between))
    assert interval.sd_ratio * found.mean == pytest.approx(math.sqrt(within))
    assert trial.share + interval.share == pytest.approx(1)


NO_SESSIONS = {"block": 0.0, "restart": 0.0, "trial": 2.0, "interval": 0.0}


def claimed(source: np.random.Generator, effect: float, trials: int, count: int) -> int:
    """Of so many comparisons in one campaign whose blocks drift, those that claim the effect; trials vary by 2 %."""
    found = 0
    for _ in range(count):
        a, b = source.normal(0, 0.1, trials) + source.normal(0, 0.02, (2, trials))
        sides = (dict(enumerate(np.exp(side).tolist())) for side in (a, b + math.log1p(effect)))
        (verdict,) = judge([Sides("client.cpu_ns_per_kib", *sides, paired=True)])
        found += verdict.answer == "worse"
    return found


@pytest.mark.parametrize("trials", [2, 3, 5, 20])
def test_an_effect_at_the_floor_is_claimed_in_four_of_five_cases(trials: int) -> None:
    source, count = np.random.default_rng(2), draws(1000)
    found = noise("x", tree(source, NO_SESSIONS, (30, 3, 20, 1)), trials=trials)
    assert found.floor_within is not None
    low, high = count_between(0.8, count)
    assert low <= claimed(source, found.floor_within, trials, count) <= high


@pytest.mark.parametrize("effect", [0.04, 0.1])
def test_so_many_trials_as_it_says_claim_an_effect(effect: float) -> None:
    source, count = np.random.default_rng(4), draws(1000)
    found = noise("x", tree(source, NO_SESSIONS, (30, 3, 20, 1)))
    trials = trials_for(found, effect)
    assert trials is not None
    assert claimed(source, effect, trials, count) >= count_between(0.8, count)[0]
    assert claimed(source, effect, trials - 1, count) <= count_between(0.8, count)[1]


def test_no_number_of_trials_claims_the_least_effect_to_be_beyond_itself() -> None:
    assert trials_for(noise("x", tree(np.random.default_rng(5))), LEAST_EFFECT) is None


def test_sessions_of_which_there_was_one_are_said_nothing_of() -> None:
    found = noise("x", [[[1.0, 1.1, 1.3]]], ("block", "restart", "trial"))
    assert found.floor_within is not None and found.floor_between is None and found.apart is None


def test_what_differs_between_restarts_shows_between_two_campaigns() -> None:
    found = noise("x", tree(np.random.default_rng(3)), trials=100)
    assert found.floor_within is not None and found.floor_between is not None
    # A hundred trials do not average away what a start of the agents brings.
    assert found.floor_between > 5 * found.floor_within


def test_where_to_repeat_is_that_of_the_paper() -> None:
    """Costs 10, 30 and 300 s, variances 1, 0.25 and 0.04: 4 intervals a trial, 8 trials a restart."""
    levels = ("restart", "trial", "interval")
    parts = tuple(Component(level, sd, 0, 0, 0, 9) for level, sd in zip(levels, (0.2, 0.5, 1.0), strict=True))
    found = allocation(Noise("x", 1.0, parts, 3, None, None), (300, 30, 10), levels)
    assert [(each.level, each.within, each.count) for each in found] == [
        ("interval", "trial", 4),
        ("trial", "restart", 8),
    ]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([], "no trial has a value"),
        ([[1.0, 1.0], [1.0]], "the same value"),
        ([[0.0, 0.0], [0.0]], "its mean is 0"),
    ],
)
def test_why_there_are_no_components(made: list[list[float]], said: str) -> None:
    found = noise("x", made, ("restart", "trial"))
    assert said in found.missing and found.floor_within is None and not found.components


def test_unequal_numbers_and_levels_without_repeats() -> None:
    found = noise("x", [[[1.0, 1.1], [1.2]], [[1.05]]], ("block", "restart", "trial"))
    assert [each.freedom for each in found.components] == [1, 1, 1]
    alone = noise("x", [[[1.0, 1.1, 1.3]]], ("block", "restart", "trial"))
    block, trial = alone.component("block"), alone.component("trial")
    assert block is not None and block.high is None and trial is not None and trial.high is not None
    json.dumps([each.sd_ratio for each in (*found.components, *alone.components)], allow_nan=False)


EXPERIMENT = """name: quiet
hosts:
  client: {access: simulated, truth: {noise_between_trials: 0.1, exact: false}}
  server: {access: simulated, truth: {noise_between_trials: 0.1, exact: false}}
workload: {kind: stream, sender: client, receiver: server}
factors: {size: [1KiB, 64KiB], connections: [1, 8]}
windows: {warm_up: 100ms, measured: 500ms, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms}
outcomes: [goodput_bits_per_s, client.cpu_ns_per_kib, write_service_time_p99_ns]
"""


def test_a_ladder_of_simulated_hosts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The truth: 10 % between trials, 1 % within; restarts and blocks add nothing."""
    file = tmp_path / "quiet.yaml"
    file.write_text(EXPERIMENT)
    words = [
        "noise",
        str(file),
        "--point",
        "size=64KiB",
        "--blocks",
        "2",
        "--restarts",
        "2",
        "--into",
        str(tmp_path),
        "--json",
    ]
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["finished"] == 16 and (found["blocks"], found["restarts"], found["trials"]) == (2, 2, 4)
    cost = {each["level"]: each for each in found["outcomes"]["client.cpu_ns_per_kib"]["components"]}
    assert cost["trial"]["low"] < 0.1 < cost["trial"]["high"] and cost["interval"]["sd_ratio"] < 0.03
    assert cost["restart"]["low"] == 0 and cost["block"]["low"] == 0
    # A quantile of all operations has no value in an interval.
    p99 = [each["level"] for each in found["outcomes"]["write_service_time_p99_ns"]["components"]]
    assert p99 in (["block", "restart", "trial"], [])
    ladder = found["campaign"]
    header = json.loads((Path(ladder) / "campaign.json").read_text())
    assert header["finished"] and {trial["block"] for trial in header["design"]["trials"]} == set(range(4))
    assert run(["noise", ladder, "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Smallest effects that 3 trials a side see: ")
    assert (
        "Where the noise is" in out and "between trials" in out and "are claimed with a chance of 80 %" in out
    )
    # Against a copy, with what its starts differ by.
    copy = shutil.copytree(ladder, tmp_path / "copy")
    assert run(["compare", ladder, str(copy), "--noise", ladder]) == 0
    assert "within 2 %" in capsys.readouterr().out
    os.truncate(copy / "trials" / "00001-1" / "records.parquet", 100)
    for words in (["noise", str(copy)], ["compare", ladder, ladder, "--noise", str(copy)]):
        assert run(words) == 0
        assert "trial 00001-1 is damaged: " in capsys.readouterr().err
    for words, code, said in (
        (["noise", str(file), "--point", "speed=1"], 2, "expected levels of size, connections"),
        (
            ["noise", str(file), "--point", "size=2KiB"],
            2,
            "unknown level '2KiB' of size: expected 1KiB, 64KiB",
        ),
        (["noise", str(file), "--point", "size=1XB"], 2, "unknown unit"),
    ):
        assert run(words) == code
        assert said in capsys.readouterr().err


def test_agents_are_started_anew_for_each_restart_and_wait_before_a_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "quiet.yaml"
    file.write_text(EXPERIMENT)
    counts = ("--blocks", "2", "--restarts", "2", "--trials", "2", "--pause", "0.01", "-v")
    assert run(["noise", str(file), *counts, "--into", str(tmp_path / "into"), "--json"]) == 0
    said = capsys.readouterr().err.splitlines()
    happened = [line.split(" of ")[0] for line in said if line.startswith(("opening", "trial", "waiting"))]
    opened, waited = "opening the hosts ...", "waiting for 0.01 s before the next block ..."
    assert happened == [
        *(opened, "trial 1", "trial 2", opened, "trial 3", "trial 4", waited),
        *(opened, "trial 5", "trial 6", opened, "trial 7", "trial 8"),
    ]
