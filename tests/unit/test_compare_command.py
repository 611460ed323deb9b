"""`iodyno compare`, as it is typed."""

from __future__ import annotations

import csv
import io
import json
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from made_calls import cost, receiver, sender
from made_campaign import Layout, Truth, changed, make_campaign

from iodyno.cli.main import iodyno, run
from iodyno.core.outcome import Estimate
from iodyno.report.function_tables import direction
from iodyno.store.writer import write_document

FACTORS = [
    {"name": "connections", "levels": [1, 32], "together": {"window": [262144, 32768]}},
    {"name": "size", "levels": [65536, 1024], "together": {}},
]


def points() -> list[tuple[dict[str, int], Truth]]:
    found = []
    for connections, window in ((1, 262144), (32, 32768)):
        for size, calls in ((65536, sender()), (1024, sender(calls=60.0, ack=70.0))):
            truth = changed(
                Truth(background=0.0, samples=3000),
                cost_ns_per_kib={"client": cost(calls), "server": cost(receiver())},
                calls={"client": calls, "server": receiver()},
            )
            found.append(({"connections": connections, "window": window, "size": size}, truth))
    return found


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_campaign(tmp_path_factory.mktemp("compare") / "c", points(), factors=FACTORS)


TWO = ("--points", "connections=32,size=64KiB", "size=1k,connections=32")


def test_the_functions_that_explain_the_difference(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(campaign), *TWO, "--functions"]) == 0
    brief = capsys.readouterr().out
    assert "explain" in brief.splitlines()[0] and len(brief.splitlines()) <= 22
    assert "Mechanisms" not in brief and "functions were compared" not in brief
    assert run(["compare", str(campaign), *TWO, "--functions", "--top", "3", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0] == brief.splitlines()[0]
    assert "A: connections=32,size=64KiB (3 trials)" in out
    rows = [
        line
        for line in out.splitlines()
        if line.startswith(("do_syscall_64 ", "tcp_ack ", "_copy_from_iter"))
    ]
    assert {row.split()[0] for row in rows[:2]} == {"do_syscall_64", "tcp_ack"}
    assert all("rises" in row for row in rows[:2])
    assert "25 functions were compared" in out
    assert "not measured: system calls per MiB" in out
    assert "bytes per write" in out
    # Reasons in words, named with figures.
    assert "from 64KiB messages to 1KiB messages at 32 connections" in out
    assert "Unchanged per KiB: _copy_from_iter" in out


def test_a_ratio_on_both_sides_of_one_is_undecided() -> None:
    """1.92 [0.15, 4.44] may be a rise to four times as much: nobody may read that nothing changed."""

    def said(estimate: float, low: float, high: float) -> str:
        return direction(Estimate(estimate, low, high, 3, "1", "made up"))

    assert said(1.92, 0.15, 4.44) == "undecided"
    assert (said(2.0, 1.5, 2.5), said(0.5, 0.4, 0.6)) == ("rises", "falls")


def test_json_has_the_same(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(campaign), *TWO, "--functions", "--host", "server", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["host"] == "server"
    assert found["first"]["labels"]["size"] == "64KiB" and found["second"]["levels"]["size"] == 1024
    for one in found["functions"]["functions"]:
        assert one["verdict"] in ("rises", "falls", "unchanged")
        assert {"estimate", "low", "high", "unit", "method"} <= set(one["difference_ns_per_kib"])
    assert found["first_profile"]["samples"] == 9000
    missing = [each for each in found["mechanisms"] if each["ratio"]["estimate"] is None]
    assert missing and all(each["ratio"]["missing"] for each in missing)


def test_a_point_against_itself_says_that_nothing_differs(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(campaign), "--points", "p01", "p01", "--functions"]) == 0
    out = capsys.readouterr().out
    assert "cannot be told apart" in out
    assert "rises" not in out and "falls" not in out.replace("falls evenly", "")


def test_outcomes_of_two_points_and_of_two_campaigns(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(campaign), *TWO, "-v"]) == 0
    assert "client: CPU per KiB, ns/KiB" in capsys.readouterr().out
    other = make_campaign(tmp_path / "d", points(), factors=FACTORS, seed=5)
    assert run(["compare", str(campaign), str(other)]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 10
    assert run(["compare", str(campaign), str(other), "-v"]) == 0
    out = capsys.readouterr().out
    assert out.count("goodput, Gbit/s") == 4
    assert run(["compare", str(campaign), str(other), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["points"]) == 4
    for point in found["points"]:
        ratio = point["outcomes"]["goodput_bits_per_s"]["ratio"]
        assert ratio["low"] <= ratio["estimate"] <= ratio["high"]
    assert run(["compare", str(campaign), str(other), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len({row["point"] for row in rows}) == 4
    judged = found["points"][0]["verdicts"]["goodput_bits_per_s"]
    row = next(row for row in rows if row["outcome"] == "goodput_bits_per_s")
    assert row["verdict"] == judged["answer"] and row["adjustment"] == "Holm"
    assert float(row["ratio_low"]) == pytest.approx(judged["low"])
    assert run(["compare", str(campaign), *TWO, "--format", "csv"]) == 0
    outcomes = [row["outcome"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert "client.cpu_ns_per_kib" in outcomes
    assert run(["compare", str(campaign), *TWO, "--functions", "--format", "csv"]) == 0
    changes = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(changes) > 20 and {"name", "difference_ns_per_kib", "difference_ns_per_kib_high"} <= set(
        changes[0]
    )
    assert run(["compare", str(campaign), str(other), "--points", "p02", "p02", "--functions"]) == 0
    assert "do_syscall_64" in capsys.readouterr().out


def test_of_two_campaigns_it_is_said_what_was_set_differently(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    truth = points()[0][1]
    variants = [{"name": "variant", "levels": ["paced", "free"], "together": {"think": [1_000_000, 0]}}]
    other = make_campaign(
        tmp_path / "d",
        [({"variant": name, "think": think}, truth) for name, think in (("paced", 1_000_000), ("free", 0))],
        factors=variants,
    )
    assert run(["compare", str(campaign), str(other), "--points", "p04", "p01", "--functions"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("set differently: ")]
    assert "connections 32 in A and 1 in B" in line and "size 1KiB in A and 64KiB in B" in line
    assert "window 32KiB in A and not set in B" in line and "variant not set in A and paced in B" in line
    assert "On client, between the two, the CPU time" in out and "from  " not in out and "to  " not in out
    assert run(["compare", str(campaign), str(other), "--points", "p04", "p01", "--json"]) == 0
    apart = json.loads(capsys.readouterr().out)["set_differently"]
    assert {"name": "variant", "first": None, "second": "paced"} in apart
    # Within one campaign the names of the points say it.
    assert run(["compare", str(campaign), *TWO]) == 0
    assert "set differently" not in capsys.readouterr().out


def test_of_two_kinds_of_work_that_they_are_two_is_said_and_empty_tables_are_left_out(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_campaign(tmp_path / "d", points(), factors=FACTORS)
    header = json.loads((other / "campaign.json").read_text())
    header["experiment"]["workload"]["kind"] = "request_response"
    (other / "campaign.json").write_text(json.dumps(header))
    assert run(["compare", str(campaign), str(other), "--points", "p01", "p01"]) == 0
    assert "the workloads differ: stream in A and request_response in B" in capsys.readouterr().out
    assert run(["compare", str(campaign), str(other)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Warning the workloads differ: stream in A and request_response in B" in out
    for trial in (other / "trials").iterdir():
        for host in (written := json.loads((trial / "manifest.json").read_text()))["hosts"].values():
            host["role"] = "idle"
        write_document(trial / "manifest.json", written)
    assert run(["compare", str(campaign), str(other), "--points", "p01", "p01"]) == 0
    out = capsys.readouterr().out
    assert not out.rstrip().endswith("verdict"), "a heading without a row"


@pytest.mark.parametrize(
    ("words", "code", "said", "advice"),
    [
        (["--points", "size=1KiB", "p01"], 2, "2 points are 'size=1KiB'", "name connections"),
        (
            ["--points", "p9", "p01"],
            2,
            "'p9' is neither a point nor a level of a factor; points: p01, p02, p03, p04",
            "size",
        ),
        (["--points", "size=1KiB,size=64KiB", "p01"], 2, "size is named twice", "connections="),
        (["--points", "connections=40,size=1KiB", "p01"], 2, "no point is", "'connections=32,size=1KiB'"),
        (["--points", "speed=1", "p01"], 2, "unknown factor 'speed'", "connections=1,size=64KiB"),
        (["--points", "size=1kg", "p01"], 2, "invalid value '1kg' for size", "connections=1,size=64KiB"),
        ([], 2, "the two points are missing", "--points"),
        (["--points", "p01", "p02", "--functions", "--host", "mars"], 2, "expected client, server", "client"),
    ],
)
def test_one_clear_error(
    campaign: Path, words: list[str], code: int, said: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", str(campaign), *words]) == code
    error = capsys.readouterr().err
    assert said in error
    assert advice in error.split("try:")[1]


def test_why_there_is_no_profile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": n, "size": 1024}, Truth()) for n in (1, 2)])
    assert run(["compare", str(folder), "--points", "p01", "p02", "--functions"]) == 6
    assert "no profile was taken on client" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "incomplete", "offered"),
    [
        (["--points"], "connections=1,", ["connections=1,size=64KiB", "connections=1,size=1KiB"]),
        (["--points"], "size=1KiB", ["connections=1,size=1KiB", "connections=32,size=1KiB"]),
        (["--host"], "s", ["server"]),
    ],
)
def test_a_shell_completes_points_and_hosts(
    campaign: Path, typed: list[str], incomplete: str, offered: list[str]
) -> None:
    shell = ShellComplete(iodyno, {}, "iodyno", "_IODYNO_COMPLETE")
    found = shell.get_completions(["compare", str(campaign), *typed], incomplete)
    assert [item.value for item in found] == offered


def test_what_is_worse_fails_a_build_where_that_is_asked_for(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "junit.xml"
    words = ["compare", str(campaign), "--levels", "size=64KiB/size=1KiB", "--junit", str(junit)]
    assert run(words) == 0
    assert run([*words, "--fail-if", "worse"]) == 1
    assert "not as expected: " in capsys.readouterr().err
    suite = ElementTree.parse(junit).getroot()
    failed = {case.get("name"): case.find("failure") for case in suite if case.find("failure") is not None}
    assert 0 < len(failed) < len(suite) and all(
        "worse, B/A" in str(why.get("message")) for why in failed.values() if why is not None
    )
    assert run(["compare", str(campaign), "--levels", "size=1KiB/size=64KiB", "--fail-if", "worse"]) == 0
    assert "nothing was judged" not in capsys.readouterr().err
    assert run(["compare", str(campaign), *TWO, "--fail-if", "worse"]) == 2


def test_a_gate_fails_by_the_words_of_the_verdicts_and_higher_is_not_among_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a busy share neither direction is better: that it is higher is decided, and no failure."""
    truths = [changed(Truth(), cost_ns_per_kib={"client": cost, "server": 300.0}) for cost in (400.0, 800.0)]
    sizes = [({"size": size}, truth) for size, truth in zip((65536, 1024), truths, strict=True)]
    layout = Layout(replicates=5, outcomes=("client.cpu_busy_ratio",))
    made = make_campaign(tmp_path / "c", sizes, factors=FACTORS[1:], layout=layout)
    junit = tmp_path / "junit.xml"
    levels = ["compare", str(made), "--levels", "size=64KiB/size=1KiB", "--junit", str(junit)]
    for asked in ("worse", "undecided"):
        assert run([*levels, "--fail-if", asked]) == 0
        shown = capsys.readouterr()
        assert shown.out.startswith("Higher: 1 of 1 outcome") and "nothing was judged" not in shown.err
        (case,) = ElementTree.parse(junit).getroot()
        assert not len(case), "neither failed nor skipped"
    assert run([*levels, "--json"]) == 0
    (point,) = json.loads(capsys.readouterr().out)["points"]
    edge = f"{point['verdicts']['client.cpu_busy_ratio']['ratio'] - 1:.4f}"
    # At an edge that its interval reaches over it is undecided.
    for asked, code, kind in (("worse", 0, "skipped"), ("undecided", 1, "failure")):
        assert run([*levels, "--least", edge, "--fail-if", asked]) == code
        assert "1 of 1 outcome undecided" in capsys.readouterr().out
        (case,) = ElementTree.parse(junit).getroot()
        assert [each.tag for each in case] == [kind]
    assert run(["compare", "--help"]) == 0
    assert "`undecided`: where it is worse or undecided" in " ".join(capsys.readouterr().out.split())


def test_a_damaged_trial_is_told_where_it_does_not_count(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_campaign(tmp_path / "d", points(), factors=FACTORS, seed=3)
    broken = min((other / "trials").iterdir())
    os.truncate(broken / "records.parquet", 100)
    said = f"d: trial {broken.name} is damaged: "
    assert run(["compare", str(campaign), str(other)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
    for asked in ([str(campaign), str(other)], [str(other), "--levels", "size=1KiB/size=64KiB"]):
        assert run(["compare", *asked, "--json"]) == 0
        assert any(said in warning for warning in json.loads(capsys.readouterr().out)["warnings"])


@pytest.mark.parametrize(
    "words",
    [
        ("heatmap", "C", "--by", "size"),
        ("heatmap", "C", "--point", "p01"),
        ("profile", "C", "--point", "p01"),
        ("profile", "C", "--point", "p01", "--format", "folded", "--output", "O"),
        ("model", "cost", "C"),
        ("model", "fit", "C", "--factor", "connections"),
        ("report", "C", "--format", "csv"),
        ("report", "C", "C", "--format", "csv"),
        ("compare", "C", "--points", "p01", "p02"),
        ("compare", "C", "--levels", "size=64KiB/size=1KiB", "--format", "csv"),
        ("plan", "study:tcp-transmit", "--noise-from", "C"),
    ],
)
def test_every_command_that_reads_a_campaign_says_which_trial_does_not_count(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_campaign(tmp_path / "d", points(), factors=FACTORS)
    os.truncate(folder / "trials" / "00000-1" / "records.parquet", 100)
    places = {"C": str(folder), "O": str(tmp_path / "out")}
    run([places.get(word, word) for word in words])
    said = capsys.readouterr().err
    assert said.count("d: trial 00000-1 is damaged: ") == words.count("C"), said


def test_of_a_point_that_has_all_its_trials_no_other_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_campaign(tmp_path / "d", points(), factors=FACTORS)
    os.truncate(folder / "trials" / "00000-1" / "records.parquet", 100)
    for words in (("heatmap", "--point", "p02"), ("profile", "--point", "p02"), ("compare", *TWO)):
        assert run([words[0], str(folder), *words[1:]]) == 0
        assert "damaged" not in capsys.readouterr().err


def test_two_campaigns_whose_constant_settings_differ_say_so(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_campaign(tmp_path / "d", points(), factors=FACTORS)
    for trial in (other / "trials").iterdir():
        written = json.loads((trial / "manifest.json").read_text())
        write_document(
            trial / "manifest.json", written | {"settings": {**written["settings"], "engine": "epoll"}}
        )
    assert run(["compare", str(campaign), str(other)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Warning set differently: engine threads in A and epoll in B" in out
    assert run(["compare", str(campaign), str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["set_differently"] == [
        {"name": "engine", "first": "threads", "second": "epoll"}
    ]
    third = make_campaign(tmp_path / "e", points(), factors=FACTORS, seed=3)
    assert run(["compare", str(campaign), str(third), "--also", str(other)]) == 0
    assert "d is set differently from A (engine)" in " ".join(capsys.readouterr().out.split())
    assert run(["compare", str(campaign), str(third), str(other)]) == 0
    assert "set differently from the campaign before it (engine)" in capsys.readouterr().out
    # What varies in both designs is no difference.
    assert run(["compare", str(campaign), str(campaign)]) == 0
    assert "set differently" not in capsys.readouterr().out


def test_what_could_not_be_judged_is_no_test_that_was_passed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = [
        make_campaign(tmp_path / name, points()[:1], layout=Layout(replicates=1), seed=seed)
        for seed, name in enumerate("ab", 1)
    ]
    junit = tmp_path / "junit.xml"
    words = ["compare", *map(str, two), "--fail-if", "worse", "--junit", str(junit)]
    assert run(words) == 0
    assert capsys.readouterr().err.splitlines() == [
        "iodyno: note: nothing was judged: one trial a side says nothing of the spread"
    ]
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("skipped") == suite.get("tests") != "0"
    assert all("one trial a side" in str(case[0].get("message")) for case in suite)
    assert run([*words[:-3], "undecided"]) == 1
