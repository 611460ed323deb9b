"""Better, worse, same, undecided; and which campaign of a history brought a change."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from draws import count_between, draws
from hypothesis import given, settings
from hypothesis import strategies as st
from made_campaign import Layout, Truth, changed, make_campaign

from iodyno.analysis.decisions.history import LEAST_CAMPAIGNS, history
from iodyno.analysis.decisions.verdicts import Sides, correct, judge
from iodyno.cli.main import run
from iodyno.core.quantity import counted
from iodyno.report.verdicts import more_text, ratio_text

GOODPUT, COST = "goodput_bits_per_s", "client.cpu_ns_per_kib"


def sides(
    ratio: float,
    *,
    outcome: str = COST,
    n: int = 10,
    spread: float = 0.01,
    seed: int = 1,
    paired: bool = False,
) -> Sides:
    source = np.random.default_rng(seed)
    drift = source.normal(0, 0.2, n) if paired else np.zeros(n)
    a = 100 * np.exp(drift + source.normal(0, spread, n))
    b = 100 * ratio * np.exp(drift + source.normal(0, spread, n))
    return Sides(outcome, dict(enumerate(a.tolist())), dict(enumerate(b.tolist())), paired)


@pytest.mark.parametrize(
    ("ratio", "outcome", "answer"),
    [
        (1.10, COST, "worse"),
        (0.90, COST, "better"),
        (1.10, GOODPUT, "better"),
        (0.90, GOODPUT, "worse"),
        (1.10, "server.cpu_busy_ratio", "higher"),
        (1.00, COST, "same"),
        (1.02, COST, "undecided"),
    ],
)
def test_the_word_follows_from_the_outcome(ratio: float, outcome: str, answer: str) -> None:
    (found,) = judge([sides(ratio, outcome=outcome)], least=0.02)
    assert found.answer == answer
    assert found.low is not None and found.high is not None and found.ratio is not None
    assert found.low < found.ratio < found.high


def test_a_ratio_has_three_digits_and_further_trials_are_further_ones() -> None:
    first, second = {n: 1.0 + 0.3 * n for n in range(3)}, {n: 1.2 + 0.7 * n for n in range(3)}
    (verdict,) = judge([Sides(COST, first, second)])
    assert verdict.ratio is not None and ratio_text(verdict).startswith(f"{verdict.ratio:.3g} [")
    assert more_text(verdict) == f"about {counted(verdict.more_trials or 0, 'more trial')} each"


def test_a_real_but_uninteresting_effect_is_the_same() -> None:
    """1 % with a spread of 0.1 %: it is there, and it is less than the 2 % that matter."""
    (found,) = judge([sides(1.01, spread=0.001)], least=0.02)
    assert (found.answer, found.direction) == ("same", "rises")


def test_pairs_see_through_drift() -> None:
    (paired,) = judge([sides(1.10, paired=True)])
    alone = sides(1.10, paired=True)
    (unpaired,) = judge([Sides(alone.outcome, alone.first, alone.second)])
    assert paired.answer == "worse" and unpaired.answer == "undecided"
    assert unpaired.more_trials is not None and unpaired.more_trials > 20


def test_the_interval_is_welchs() -> None:
    """An independent oracle."""
    from scipy.stats import ttest_ind

    made = sides(1.05, n=7, spread=0.03)
    (found,) = judge([made])
    a, b = (np.log(list(side.values())) for side in (made.first, made.second))
    interval = ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_corrections_are_those_of_the_books() -> None:
    """By hand. Holm: the sorted .001 .012 .03 .03 .04 .5 times 6 5 4 3 2 1, never less than one before; Benjamini and Hochberg:
    times 6/1 6/2 6/3 6/4 6/5 6/6, never more than one after."""
    p_values = [0.001, 0.04, 0.03, 0.5, 0.012, 0.03]
    assert correct(p_values, "holm") == pytest.approx([0.006, 0.12, 0.12, 0.5, 0.06, 0.12])
    assert correct(p_values, "bh") == pytest.approx([0.006, 0.048, 0.045, 0.5, 0.036, 0.045])
    assert correct([], "holm") == [] and correct(p_values, "none") == p_values


def test_counts_of_few_operations_differ_by_no_less_than_one() -> None:
    """69 and 70 in all trials of a second: nobody knows that the rates differ at all."""
    counts = ({n: 69 + 1e-4 * n for n in range(5)}, {n: 70 - 1e-4 * n for n in range(5)})
    (blind,) = judge([Sides(GOODPUT, *counts)], least=0.005)
    (found,) = judge([Sides(GOODPUT, *counts, counting=math.hypot(0.41 / 69, 0.41 / 70))], least=0.005)
    assert blind.answer == "better" and found.answer == "undecided"
    assert found.low is not None and found.high is not None and found.low < 1 < found.high


def test_many_comparisons_of_nothing_rarely_claim_anything() -> None:
    """At the edge, where any claim is wrong: Holm keeps one of ten at 5 %. 100 repeats: three standard errors are 6.5 %."""
    claims = 0
    for repeat in range(100):
        compared = [sides(1.02, n=5, seed=1000 * repeat + number) for number in range(10)]
        claims += any(found.answer != "undecided" for found in judge(compared, least=0.02))
    assert claims / 100 <= 0.05 + 0.065


def test_the_further_trials_that_are_named_mostly_decide() -> None:
    (found,) = judge([sides(1.04, n=4, spread=0.03, seed=3)])
    assert found.answer == "undecided" and found.more_trials is not None
    truth = found.ratio
    assert truth is not None
    decided = 0
    for seed in range(60):
        (again,) = judge([sides(truth, n=4 + found.more_trials, spread=0.03, seed=seed)])
        decided += again.answer != "undecided"
    # 80 % were the measured spread the true one, which four trials tell to within a factor of 2.
    assert decided >= 30


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({0: 1.0}, {0: 1.0, 1: 1.1}, "one trial a side"),
        ({0: 1.0, 1: 1.0}, {0: 2.0, 1: 2.0}, "all trials of each side gave the same value"),
        ({0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0}, "0 in every trial of both sides"),
        ({0: 0.0, 1: 0.1}, {0: 0.2, 1: 0.3}, "0 or less in a trial"),
    ],
)
def test_why_there_is_no_verdict(first: dict[int, float], second: dict[int, float], said: str) -> None:
    (found,) = judge([Sides(COST, first, second)])
    assert found.answer == "undecided" and said in found.reason and found.ratio is None
    with pytest.raises(ValueError, match="least effect"):
        judge([], least=0)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.floats(-1e9, 1e9), max_size=5), st.lists(st.floats(-1e9, 1e9), max_size=5)),
        max_size=4,
    ),
    st.sampled_from(["holm", "bh", "none"]),
)
def test_any_numbers_get_a_verdict_and_no_nan(
    data: list[tuple[list[float], list[float]]], control: str
) -> None:
    for found in judge(
        [Sides(COST, dict(enumerate(a)), dict(enumerate(b))) for a, b in data],
        control=control,  # type: ignore[arg-type]
    ):
        json.dumps([found.ratio, found.low, found.high, found.p_value, found.more_trials], allow_nan=False)
        assert found.reason or found.ratio is not None


# A history.


def series(levels: list[float], trials: int, seed: int, between: float = 0.0) -> list[list[float]]:
    source = np.random.default_rng(seed)
    return [
        (level * np.exp(source.normal(0, between) + source.normal(0, 0.02, trials))).tolist()
        for level in levels
    ]


def test_the_campaign_that_brought_the_change_is_found() -> None:
    found = history(series([100] * 6 + [110] * 5, 5, 1, 0.01), seed=1)
    (change,) = found.changes
    assert change.at == 6 and change.ratio == pytest.approx(1.10, rel=0.03)
    there_and_back = history(series([100] * 6 + [120] * 6 + [100] * 6, 5, 2, 0.01), seed=1)
    assert [change.at for change in there_and_back.changes] == [6, 12]


def test_a_steady_history_rarely_shows_a_change() -> None:
    """5 % by design. Campaigns differ by 5 %, trials by 2 %."""
    count = draws(120)
    false = sum(bool(history(series([100] * 10, 4, seed, 0.05), seed=seed).changes) for seed in range(count))
    assert false <= count_between(0.05, count)[1]


def test_eight_campaigns_are_the_fewest_that_can_be_permuted() -> None:
    found = history([[value] for value in (1.0, 1.001, 0.999, 2.0, 2.001, 1.999, 2.0005, 2.0002)], seed=1)
    assert LEAST_CAMPAIGNS == 8 and [change.at for change in found.changes] == [3]


@pytest.mark.parametrize(
    ("campaigns", "said"),
    [
        ([[1.0], [2.0]], "fewer than 8 campaigns"),
        ([[1.0, 1.1], [2.0, 2.1]] * 3 + [[], []], "fewer than 8 campaigns"),
        ([[1.0, 1.1], [0.0, 1.0]] * 4, "0 or less"),
        ([[1.0, 1.0]] * 8, "the same value"),
    ],
)
def test_why_a_history_cannot_be_judged(campaigns: list[list[float]], said: str) -> None:
    found = history(campaigns, seed=1)
    assert not found.changes and said in found.missing


# As it is typed.

FACTORS = [{"name": "size", "levels": [65536, 1024], "together": {}}]


def campaign(folder: Path, cost: float, seed: int, replicates: int = 5) -> Path:
    truth = Truth(background=0.0, between=0.01)
    points = [
        (
            {"connections": 1, "size": size},
            changed(truth, cost_ns_per_kib={"client": cost * more, "server": 300.0}),
        )
        for size, more in ((65536, 1.0), (1024, 3.0))
    ]
    return make_campaign(folder, points, factors=FACTORS, seed=seed, layout=Layout(replicates=replicates))


def test_two_campaigns_and_two_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = campaign(tmp_path / "a", 400.0, 1), campaign(tmp_path / "b", 480.0, 2)
    assert run(["compare", str(before), str(after), "--least", "5%", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Worse: 2 of 6 outcomes by more than 5 %; 4 the same, in these two sessions\n")
    rows = [line for line in out.splitlines() if line.startswith("client: CPU per KiB")]
    assert len(rows) == 2 and all(" worse" in row for row in rows)
    assert all(" same" in line for line in out.splitlines() if line.startswith("server: CPU per KiB"))
    assert "by more than 5 %" in out and "Holm: at most 5 %" in out
    assert run(["compare", str(before), str(after), "--json", "--control", "bh"]) == 0
    found = json.loads(capsys.readouterr().out)
    verdict = found["points"][0]["verdicts"]["client.cpu_ns_per_kib"]
    assert (
        verdict["answer"] == "worse" and verdict["low"] < 1.2 < verdict["high"] and found["control"] == "bh"
    )
    # One ratio and one interval, whoever reads it; and what was adjusted has the name of how.
    ratio = found["points"][0]["outcomes"]["client.cpu_ns_per_kib"]["ratio"]
    assert (ratio["estimate"], ratio["low"], ratio["high"]) == pytest.approx(
        (verdict["ratio"], verdict["low"], verdict["high"])
    )
    assert f"[{verdict['low']:.3f}" in rows[0]
    assert verdict["adjustment"] == "Benjamini-Hochberg" and verdict["p_value"] <= verdict["p_adjusted"]
    assert run(["compare", str(before), str(before.parent / "." / before.name)]) == 0
    out = capsys.readouterr().out
    assert "both sides are the same trials" in out and "no spread" not in out
    assert run(["compare", str(before), "--levels", "size=64KiB/size=1KiB"]) == 0
    out = capsys.readouterr().out
    assert "trials paired by block" in out and "worse" in out
    for words, said in (
        (["--levels", "speed=1/speed=2"], "the factors are size"),
        (["--levels", "size=64KiB/size=2KiB"], "unknown level '2KiB' of size: expected 64KiB, 1KiB"),
        (["--levels", "size=64KiB/size=64KiB"], "one level twice"),
        (["--levels", "size=64KiB/size=1KiB", "--points", "p01", "p02"], "without --points"),
        ([str(after), "--least", "0"], "expected a share above 0"),
        ([str(after), str(after), "--points", "p01", "p02"], "invalid value for CAMPAIGN: 3 campaigns"),
    ):
        assert run(["compare", str(before), *words]) == 2
        assert said in capsys.readouterr().err


def test_cycles_that_were_not_counted_are_no_cost_beside_the_cpu_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judged(name: str, pmu_hz: float) -> set[str]:
        truth = Truth(background=0.0, pmu_hz=pmu_hz)
        made = [
            make_campaign(tmp_path / f"{name}{seed}", [({"size": 1024}, truth)], seed=seed) for seed in (1, 2)
        ]
        assert run(["compare", *map(str, made), "--json"]) == 0
        found = set(json.loads(capsys.readouterr().out)["points"][0]["verdicts"])
        # The same of two points, which have every outcome.
        assert run(["compare", *map(str, made), "--points", "p01", "p01", "--json"]) == 0
        of_points = set(json.loads(capsys.readouterr().out)["outcomes"])
        assert found <= of_points and any("cycle" in name for name in of_points) == (pmu_hz > 0)
        return found

    reckoned, counted = judged("tsc", 0.0), judged("pmu", 2.1e9)
    assert reckoned == {"goodput_bits_per_s", "client.cpu_ns_per_kib", "server.cpu_ns_per_kib"}
    assert counted == reckoned | {"client.cycles_per_kib", "server.cycles_per_kib"}


def test_a_history_of_campaigns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = []
    for number in range(8):
        folders.append(campaign(tmp_path / f"night-{number}", 400.0 if number < 4 else 480.0, 10 + number, 2))
        path = folders[-1] / "campaign.json"
        header = json.loads(path.read_text())
        path.write_text(json.dumps({**header, "created": f"2026-01-0{number + 1}T00:00:00+00:00"}))
    # In any order: they are sorted by when they were made.
    assert run(["compare", *map(str, reversed(folders)), "-v"]) == 0
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith("  client.cpu_ns_per_kib at ")]
    assert any("with " in line and str(folders[4]) in line for line in lines)
    assert "permutations of the campaigns" in out
    assert run(["compare", *map(str, folders), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    changes = [h["changes"] for h in found["histories"] if h["outcome"] == "client.cpu_ns_per_kib"]
    assert all([change["at"] for change in each] == [4] for each in changes)
    assert run(["compare", *map(str, folders), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    # After it over before it, as JSON has it under the same name.
    (ratio, _) = [float(row["ratio"]) for row in rows if row["outcome"] == COST and row["ratio"]]
    assert ratio == pytest.approx(1.2, rel=0.05) and ratio == pytest.approx(changes[0][0]["ratio"])
    # Of a few, what they differ by of themselves is not known.
    assert run(["compare", *map(str, folders[3:6])]) == 0
    out = capsys.readouterr().out
    assert "6 of 6 histories cannot be judged: fewer than 8 campaigns" in out
    assert "client.cpu_ns_per_kib" not in out


def test_two_campaigns_are_two_sessions_unless_more_of_the_first_kind_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = [campaign(tmp_path / f"a{seed}", cost, seed) for seed, cost in enumerate((400.0, 390.0, 410.0))]
    steady, after = campaign(tmp_path / "b", 412.0, 7), campaign(tmp_path / "c", 600.0, 8)
    also = [word for folder in before[1:] for word in ("--also", str(folder))]

    def compared(second: Path, *words: str) -> dict[str, object]:
        assert run(["compare", str(before[0]), str(second), "--least", "1%", "--json", *words]) == 0
        found = json.loads(capsys.readouterr().out)
        assert len(found["also"]) == len(words) // 2
        verdict: dict[str, object] = found["points"][0]["verdicts"][COST] | {"note": found["note"]}
        return verdict

    alone = compared(steady)
    assert alone["direction"] == "rises" and alone["scope"] == "two sessions"
    assert "Within these two sessions" in str(alone["note"])
    held = compared(steady, *also)
    assert held["direction"] == "" and (held["scope"], held["sessions"]) == ("sessions", 3)
    assert "two sessions" not in str(held["note"])
    # Half as much again is more than such sessions differ by.
    assert compared(after, *also)["direction"] == "rises"
    for named in ((), ("--points", "p01", "p01")):
        assert run(["compare", str(before[0]), str(steady), *named]) == 0
        assert capsys.readouterr().out.partition("\n")[0].endswith(", in these two sessions")
    for words, said in (
        ([str(steady), "--also", str(before[0])], "is one of the campaigns already"),
        (["--points", "p01", "p02", "--also", str(steady)], "--also: is about two campaigns"),
    ):
        assert run(["compare", str(before[0]), *words]) == 2
        assert said in capsys.readouterr().err
