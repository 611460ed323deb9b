"""`iodyno model queue`: notations, tables, JSON and errors; and that every command of `iodyno model` has examples."""

from __future__ import annotations

import json
import math
import shlex
from importlib import import_module
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.cli.lazy import CommandEntry
from iodyno.cli.main import run
from iodyno.cli.model import MODELS
from iodyno.cli.model.notation import FORMS, SIMULATED, Kind, complete_notation
from iodyno.cli.model.queue import command
from iodyno.core.errors import ExperimentError

Captured = pytest.CaptureFixture[str]


def answer(capsys: Captured, words: str) -> dict[str, Any]:
    assert run(["model", "queue", *words.split(), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_every_model_is_there_with_an_example(entry: CommandEntry, capsys: Captured) -> None:
    module, _, attribute = entry.place.partition(":")
    assert isinstance(getattr(import_module(module), attribute), click.Command)
    assert run(["model", entry.name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown
    assert f"iodyno model {entry.name}" in shown


def test_one_queue_answers_as_the_issue_types_it(capsys: Captured) -> None:
    found = answer(capsys, "M/M/8 --service 127us --utilisation 0,.2,.4,.6,.8 --percentiles 50,99")
    assert found["model"] == "M/M/8" and found["exact"] is True
    rows = found["rows"]
    assert [row["utilisation"] for row in rows] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], rel=1e-12)
    assert [row["response_time_s"] for row in rows] == pytest.approx(
        [127e-6, 127.005e-6, 127.489e-6, 132.538e-6, 163.326e-6], rel=1e-5
    )
    assert rows[4]["queue_length"] == pytest.approx(1.83058, rel=1e-5)
    assert rows[4]["separate_response_time_s"] == pytest.approx(635e-6, rel=1e-9)
    assert rows[4]["p99_s"] == pytest.approx(654.327e-6, rel=1e-5)


def test_few_places_answer_as_the_issue_types_it(capsys: Captured) -> None:
    row = answer(capsys, "M/M/1/8 --service 2.5us --utilisation .9")["rows"][0]
    assert row["blocking_ratio"] == pytest.approx(0.0702712, rel=1e-5)
    assert row["offered_utilisation"] == pytest.approx(0.9, rel=1e-12)
    assert row["utilisation"] == pytest.approx(0.836756, rel=1e-5)
    other = answer(capsys, "m/m/1/8 --service 2.5us --rate 360k/s")["rows"][0]
    assert other == pytest.approx(row, rel=1e-12)


def test_ranges_are_exact_and_have_both_ends(capsys: Captured) -> None:
    rows = answer(capsys, "M/M/1 --service 2.4847us --utilisation 0:.9:.1,.95 --percentiles 99.9")["rows"]
    assert [round(row["utilisation"], 12) for row in rows] == [
        0,
        0.1,
        0.2,
        0.3,
        0.4,
        0.5,
        0.6,
        0.7,
        0.8,
        0.9,
        0.95,
    ]
    assert rows[0]["response_time_s"] == pytest.approx(2.4847e-6, rel=1e-12)
    assert "p99.9_s" in rows[0] and "waiting_p99.9_s" in rows[0]


def test_the_table_has_units_and_says_how_it_was_had(capsys: Captured) -> None:
    assert run(["model", "queue", "M/M/8", "--service", "127us", "--utilisation", ".6,.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "From 60 % utilisation to 80 % utilisation the mean response time goes from 133 us to 163 us, "
        "its p99 goes from 593 us to 654 us."
    )
    assert lines[2] == "M/M/8, service 127 us"
    assert "utilisation" in lines[3] and "us" in lines[4].split()
    assert "163" in lines[6].split()
    assert lines[8].startswith("Means: exact (Erlang C")
    for number in (word for line in lines[5:7] for word in line.split()):
        assert len(number.replace(".", "").lstrip("0")) <= 3, number


@pytest.mark.parametrize("notation", ["M/M/1", "M/D/1", "M/M/8"])
def test_an_overloaded_queue_is_told_the_notation_with_places(notation: str, capsys: Captured) -> None:
    words = ("--service", "1ms", "--utilisation", "1.2")
    assert run(["model", "queue", notation, *words]) == 2
    advised = capsys.readouterr().err.rsplit("full: ", 1)[1].split()
    assert run(["model", "queue", *advised, *words]) == 0
    assert "the share lost is " in capsys.readouterr().out


def finite_numbers(value: Any) -> bool:
    """No NaN and no infinity anywhere in an answer."""
    if isinstance(value, dict):
        return all(finite_numbers(part) for part in value.values())
    if isinstance(value, list):
        return all(finite_numbers(part) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


SHOWN = [
    "M/M/1 --service 2.5us --utilisation 0,.5,.999999",
    "M/D/1 --service 2.5us --utilisation 0,.5,.999",
    "M/G/1 --service 40us --service-scv 4 --utilisation 0,.5,.99",
    "M/G/1 --service 40us --service-scv .0001 --utilisation .5",
    "M/M/512 --service 1ms --utilisation 0,.001,.5,.999",
    "M/D/8 --service 81us --utilisation 0,.8",
    "G/G/8 --service 81us --service-scv .3 --arrival-scv 0 --utilisation 0,.8",
    "M/M/inf --service 10ms --rate 0,5k/s",
    "M/M/1/1 --service 1us --utilisation 0,1,100",
    "M/D/1/5 --service 1ms --utilisation 0,.8,1,1.2,30",
    "M/M/512/512 --service 1ms --utilisation 0,1,2",
    "M/M/8 --service 127us --think 1ms --population 1,500",
    "M/M/8 --service 127us --population 1,500",
    "M/M/8/10 --service 1ms --think 4ms --population 1,40",
    "credits/8 --service 2.5us --distance 2 --utilisation 0,.5,.8",
    "fork-join/40 --service 1ms --utilisation 0,.5,.9",
    "fork-join/3 --quorum 2 --service 1ms",
]


@pytest.mark.parametrize("words", SHOWN)
def test_every_station_answers_in_json_and_in_a_table(words: str, capsys: Captured) -> None:
    found = answer(capsys, words)
    assert finite_numbers(found)
    for row in found["rows"]:
        assert {
            "utilisation",
            "throughput_per_s",
            "response_time_s",
            "queue_length",
            "p50_s",
            "p99_s",
        } <= set(row)
    assert run(["model", "queue", *words.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(("At ", "From ")) and "the mean response time " in lines[0]
    assert lines[2].startswith(found["model"])
    # A head, its units, a line for each load, and one that parts them from the method.
    assert "Means: " in lines[6 + len(found["rows"])]
    if ".999999" in words:
        assert "99.9999 % utilisation" in lines[0] and "0.999999" in lines[7].split()


def test_a_narrow_terminal_gets_all_columns(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["model", "queue", "M/M/8", "--service", "127us", "--utilisation", ".6,.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"133", "163", "654"} <= {word for line in lines for word in line.split()}
    assert max(map(len, lines)) <= 60


def test_a_closed_loop_says_where_it_saturates(capsys: Captured) -> None:
    found = answer(capsys, "M/M/8 --service 127us --think 1ms --population 1,500")
    assert [row["population"] for row in found["rows"]] == [1, 500]
    assert found["rows"][1]["throughput_per_s"] == pytest.approx(62_992.126, rel=1e-7)
    assert found["rows"][0]["saturation_population"] == pytest.approx(70.992, rel=1e-4)
    assert found["notes"] == ["N* = 71 clients: (service + think time) / (service time / servers)."]


def test_credits_say_how_far_they_reach(capsys: Captured) -> None:
    found = answer(capsys, "credits/8 --service 2.5us --distance 2 --utilisation .5")
    assert found["rows"][0]["covered_distance_km"] == pytest.approx(1.75, rel=1e-9)
    assert "8 credits reach 1.75 km (2 km by the rule" in found["notes"][1]


ERRORS = [
    ("M/M/1 --service 2.5us --utilisation 1", "unstable at a utilisation of 1"),
    ("M/M/1 --service 2.5us --utilisation=-.1", "invalid value -0.1 for --utilisation: expected 0 or more"),
    ("M/M/1 --service 2.5us --rate=-5", "invalid value '-5' for --rate: expected 0 or more"),
    ("M/M/1 --service 2.5us", "missing option --utilisation or --rate"),
    ("M/M/1 --service 2.5us --utilisation .1 --rate 5", "--utilisation cannot be used with --rate"),
    ("M/M/1 --service 2.5us --utilisation half", "invalid value 'half' for --utilisation"),
    ("M/M/1 --service 2.5us --utilisation 1e999999999", "invalid value '1e999999999' for --utilisation"),
    ("M/M/1 --service 2.5us --utilisation nan", "invalid value 'nan' for --utilisation"),
    ("M/M/1 --service 2.5us --utilisation 0:1", "a range FIRST:LAST:STEP"),
    ("M/M/1 --service 2.5us --utilisation 0:1:0", "rises by a step above 0"),
    ("M/M/1 --service 2.5us --utilisation 0:1:.00001", "100001 numbers"),
    ("M/M/1 --service 2.5 --utilisation .1", "invalid value '2.5' for --service: a unit is missing"),
    ("M/M/1 --service 0us --utilisation .1", "service time of 0 s"),
    ("M/M/x", "invalid value 'M/M/x' for NOTATION: expected M/M/c"),
    ("M/M/0 --service 1us --utilisation .1", "invalid value: 0 servers"),
    ("M/M/8 --service 1us --utilisation .1 --percentiles 0", "invalid value 0 for --percentiles"),
    ("M/M/8 --service 1us --utilisation .1 --percentiles 99,100", "invalid value 100 for --percentiles"),
    (
        "M/M/8 --service 1us --service 2us --utilisation .1",
        "invalid value for --service: 2 times for one station",
    ),
    ("M/M/1/0 --service 1us --utilisation .1", "invalid value: 0 places"),
    ("M/D/1 --service 2.5us --utilisation 1.2", "M/D/1: unstable at a utilisation of 1.2"),
    (
        "M/D/1/-3 --service 1us --utilisation .1",
        "invalid value 'M/D/1/-3' for NOTATION: expected M/M/c, M/D/c, M/G/1",
    ),
    ("M/G/1 --service 1us --service-scv=-1 --utilisation .1", "invalid value: -1 as the squared coefficient"),
    (
        "G/G/2 --service 1us --service-scv nan --utilisation .1",
        "invalid value 'nan' for --service-scv: expected a number",
    ),
    ("M/D/500 --service 1us --utilisation .1", "500 servers; expected 128 at most"),
    ("M/M/8/7 --service 1us --utilisation .1", "7 places in the system for 8 servers"),
    ("M/M/8 --service 1us --population 0", "invalid value: 0 clients"),
    ("M/M/8 --service 1us --population 1.5", "invalid value 1.5 for --population: expected whole numbers"),
    ("M/M/2/2 --service 1us --population 9", "think time of 0 s with fewer places"),
    ("credits/8 --service 2.5us --utilisation .1", "missing option --round-trip or --distance"),
    ("credits/8 --service 2.5us --distance -2 --utilisation .1", "invalid value for --distance:"),
    (
        "credits/8 --service 2.5us --distance 20 --utilisation .5",
        "8 credits over a round trip of 200 us",
    ),
    ("fork-join/3 --quorum 4 --service 1us", "quorum of 4 of 3 servers"),
    ("fork-join/3 --quorum 2 --service 1us --utilisation .5", "--quorum with a load"),
    (
        "M/M/1 --service 1e400s --utilisation .1",
        "invalid value '1e400s' for --service: expected a number of nanoseconds up to 1e100",
    ),
    (
        "M/M/1 --service 1us --rate 1e400/s",
        "invalid value '1e400/s' for --rate: expected a number per second up to 1e100",
    ),
    ("M/M/1/999999999999 --service 1us --utilisation .9", "999999999999 places; expected "),
    ("M/D/1/999999999999 --service 1us --utilisation .9", "999999999999 places; expected "),
    ("M/M/2/1000000001 --service 1us --utilisation .9", "places; expected "),
    ("credits/8 --service 2.5us --distance inf --utilisation .1", "invalid value 'inf' for --distance"),
    ("fork-join/100000 --quorum 50000 --service 1us", "100000 servers; expected 512 at most"),
    (
        "M/G/1 --service 1us --service-scv 1e308 --utilisation .9 --json",
        "invalid value: 1e+308 as the squared coefficient",
    ),
    ("M/M/999999999999 --simulate --service 1us --utilisation .5", "999999999999 servers; expected "),
    ("M/M/1 --simulate --service 1us --utilisation .5 --precision 1e-300", "expected "),
    (
        "M/M/1 --simulate --service 1us --utilisation inf",
        "invalid value 'inf' for --utilisation: expected numbers",
    ),
    ("M/M/1 --simulate --service 1us --utilisation .5,0", "--utilisation: expected loads above 0"),
    (
        "M/M/1 --simulate --service 1us --utilisation .5 --seed=-1",
        "invalid value '-1' for --seed: expected a whole number",
    ),
    (
        "M/M/1 --simulate --service 1us --utilisation .5 --percentiles nan",
        "invalid value 'nan' for --percentiles",
    ),
    (
        "M/M/8 --service 1us --utilisation .5 --quorum 2",
        "--quorum: cannot be used with M/M/c: expected --utilisation, --rate",
    ),
    (
        "M/M/8 --service 1us --utilisation .5 --think 1s",
        "--think: cannot be used with M/M/c: expected --utilisation, --rate",
    ),
    ("M/M/8 --service 1us --utilisation .5 --seed 5", "--seed: cannot be used with M/M/c"),
    (
        "M/M/8 --population 5 --service 1us --rate 5",
        "--rate: cannot be used with M/M/c/K/N: expected --think, --population",
    ),
    ("M/M/8//5 --population 5 --service 1us", "--population: duplicate number of clients"),
    ("M/M/8//0 --service 1us", "invalid value: 0 clients"),
    ("M/M/inf --service 1us --utilisation .5", "--utilisation: cannot be used with M/M/inf: expected --rate"),
    ("M/G/1 --service 1us --utilisation .5", "missing value for --service-scv: expected the variation of G"),
    (
        "M/G/8 --service 1us --utilisation .5 --service-scv 1 --arrival-scv 2",
        "invalid value for --arrival-scv: 2 with M; expected 1",
    ),
    (
        "M/D/8/20 --service 1us --utilisation .5",
        "invalid value 'M/D/8/20' for NOTATION: formulas are known of M/M/c, M/D/c, M/G/1, G/G/c",
    ),
    ("D/M/1 --service 1us --utilisation .5", "invalid value 'D/M/1' for NOTATION: formulas are known of"),
    ("M/M/inf//5 --service 1us", "invalid value 'M/M/inf//5' for NOTATION: formulas are known of"),
    (
        "M/M/8//5 --simulate --service 1us",
        "invalid value 'M/M/8//5' for NOTATION: --simulate takes A/S/c/K, credits/C, tandem/K/K",
    ),
    (
        "fork-join/3 --simulate --service 1us --rate 5",
        "invalid value 'fork-join/3' for NOTATION: --simulate takes",
    ),
    ("tandem/2/2 --service 1us --rate 5", "invalid value 'tandem/2/2' for NOTATION: formulas are known of"),
    ("tandem/2/2 --simulate --service 1us --rate 5", "invalid value for --service: 1 time for 2 stations"),
    ("G/M/1 --simulate --service 1us --rate 5", "missing value for --arrival-law: expected the law of G"),
    (
        "M/M/1 --simulate --service 1us --rate 5 --service-law constant",
        "--service-law: can only be used with G, not with M",
    ),
    ("M/M --service 1us --rate 5", "invalid value 'M/M' for NOTATION: expected M/M/c"),
    ("M/M/c --service 1us --rate 5", "invalid value 'M/M/c' for NOTATION: expected M/M/c"),
    ("mmc --service 1us --rate 5", "invalid value 'mmc' for NOTATION: expected M/M/c"),
    ("M/M/999999999999 --service 1us --utilisation .9", "999999999999 servers; expected "),
    ("M/M/2 --service 1us --population 999999999999", "999999999999 clients; expected "),
    ("M/M/inf --service 1us --rate=-1", "invalid value '-1' for --rate: expected 0 or more"),
]


@pytest.mark.parametrize(("words", "text"), ERRORS, ids=[words for words, _ in ERRORS])
def test_bad_input_is_one_clear_error(words: str, text: str, capsys: Captured) -> None:
    assert run(["model", "queue", *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert text in shown.err and shown.err.count("iodyno: error:") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("fit --csv nothing.csv --at inf", "nothing.csv: cannot be read"),
        ("fit --csv nothing.csv --outcome iops", "--outcome: it is for a campaign"),
        ("fit campaigns/c --columns a,b", "--columns: it is for --csv"),
        ("fit campaigns/c --at 5", "--at: it is for --scaling"),
        ("fit campaigns/c --scaling --hold-out 5", "--hold-out: it is for queues"),
        ("fit", "name the points once"),
        ("cost --csv nothing.csv --quantile .9", "--quantile: it is for --method quantile"),
        ("cost --csv nothing.csv --method huber --errors hc3", "--errors: it is for least squares"),
    ],
)
def test_an_option_without_an_effect_is_refused(words: str, text: str, capsys: Captured) -> None:
    assert run(["model", *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert text in shown.err and shown.err.count("iodyno: error:") == 1


@pytest.mark.parametrize("kind", [*FORMS.values(), *SIMULATED.values()], ids=lambda kind: kind.example)
def test_the_example_of_each_form_answers_and_is_in_the_help(kind: Kind, capsys: Captured) -> None:
    words = shlex.split(kind.example) + (["--precision", "20%"] if "--simulate" in kind.example else [])
    assert run(["model", "queue", *words, "--json"]) == 0
    assert finite_numbers(json.loads(capsys.readouterr().out))
    assert run(["model", "queue", "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"{kind.written}: " in shown and all(option in shown for option in kind.options)
    assert f"iodyno model queue {kind.example.split()[0]}" in shown


def test_a_notation_says_all_that_other_words_say(capsys: Captured) -> None:
    one = answer(capsys, "M/M/8//64 --service 127us --think 1ms")["rows"]
    assert one == answer(capsys, "m/m/8 --population 64 --service 127us --think 1ms")["rows"]
    assert one == answer(capsys, "M/M/8/inf/64 --service 127us --think 1ms")["rows"]
    assert one == answer(capsys, "M/M/8/64/64 --service 127us --think 1ms")["rows"]
    (lost,) = answer(capsys, "M/M/8/8/64 --service 127us --think 1ms")["rows"]
    assert lost["blocking_ratio"] > 0.1
    assert answer(capsys, "M/G/2 --service 1s --service-scv 1 --rate 1")["model"] == "G/G/2"


def test_notations_are_completed() -> None:
    ctx = click.Context(click.Command("queue"))
    found = [item.value for item in complete_notation(ctx, click.Argument(["notation"]), "m/m/")]
    assert found == ["M/M/8", "M/M/inf", "M/M/1/8"]
    assert "fork-join/8" in [item.value for item in complete_notation(ctx, click.Argument(["notation"]), "")]


PARTS = st.sampled_from(
    [
        "M",
        "m",
        "D",
        "G",
        "",
        "0",
        "1",
        "2",
        "8",
        "20",
        "inf",
        "credits",
        "fork-join",
        "tandem",
        "-1",
        "x",
        "1.5",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS, max_size=6).map("/".join) | st.text(max_size=20), st.booleans(), st.booleans())
def test_any_notation_is_answered_or_one_error(notation: str, closed: bool, simulated: bool) -> None:
    load = "--population=3 --think=1s" if closed else "--rate=.1"
    words = [
        "--service=1s",
        *load.split(),
        *(["--simulate", "--precision=50%"] if simulated else []),
        "--",
        notation,
    ]
    ran = CliRunner().invoke(command, words)
    assert ran.exception is None or isinstance(ran.exception, ExperimentError | SystemExit), notation
