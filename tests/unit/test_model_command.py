"""`iodyno model`: words, tables, JSON and errors of the commands of single stations."""

from __future__ import annotations

import json
import math
from importlib import import_module
from typing import Any

import click
import pytest

from iodyno.cli.lazy import CommandEntry
from iodyno.cli.main import run
from iodyno.cli.model import MODELS

Captured = pytest.CaptureFixture[str]


def answer(capsys: Captured, words: str) -> dict[str, Any]:
    assert run(["model", *words.split(), "--json"]) == 0
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


def test_mmc_answers_as_the_issue_types_it(capsys: Captured) -> None:
    found = answer(capsys, "mmc --servers 8 --service 127us --utilisation 0,.2,.4,.6,.8 --percentiles 50,99")
    assert found["model"] == "M/M/8" and found["exact"] is True
    rows = found["rows"]
    assert [row["utilisation"] for row in rows] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8], rel=1e-12)
    assert [row["response_time_s"] for row in rows] == pytest.approx(
        [127e-6, 127.005e-6, 127.489e-6, 132.538e-6, 163.326e-6], rel=1e-5
    )
    assert rows[4]["queue_length"] == pytest.approx(1.83058, rel=1e-5)
    assert rows[4]["separate_response_time_s"] == pytest.approx(635e-6, rel=1e-9)
    assert rows[4]["p99_s"] == pytest.approx(654.327e-6, rel=1e-5)


def test_mm1k_answers_as_the_issue_types_it(capsys: Captured) -> None:
    row = answer(capsys, "mm1k --buffers 8 --service 2.5us --utilisation .9")["rows"][0]
    assert row["blocking_ratio"] == pytest.approx(0.0702712, rel=1e-5)
    assert row["offered_utilisation"] == pytest.approx(0.9, rel=1e-12)
    assert row["utilisation"] == pytest.approx(0.836756, rel=1e-5)
    other = answer(capsys, "mm1k --waiting-room 7 --service 2.5us --rate 360k/s")["rows"][0]
    assert other == pytest.approx(row, rel=1e-12)


def test_ranges_are_exact_and_have_both_ends(capsys: Captured) -> None:
    rows = answer(capsys, "mm1 --service 2.4847us --utilisation 0:.9:.1,.95 --percentiles 99.9")["rows"]
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
    assert run(["model", "mmc", "--servers", "8", "--service", "127us", "--utilisation", ".6,.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "M/M/8, service 127 us"
    assert "utilisation" in lines[1] and "us" in lines[2].split()
    assert "163.3" in lines[4].split()
    assert lines[5].startswith("Means: exact (Erlang C")


def finite_numbers(value: Any) -> bool:
    """No NaN and no infinity anywhere in an answer."""
    if isinstance(value, dict):
        return all(finite_numbers(part) for part in value.values())
    if isinstance(value, list):
        return all(finite_numbers(part) for part in value)
    return not isinstance(value, float) or math.isfinite(value)


SHOWN = [
    "mm1 --service 2.5us --utilisation 0,.5,.999999",
    "md1 --service 2.5us --utilisation 0,.5,.999",
    "mg1 --service 40us --service-scv 4 --utilisation 0,.5,.99",
    "mg1 --service 40us --service-scv .0001 --utilisation .5",
    "mmc --servers 512 --service 1ms --utilisation 0,.001,.5,.999",
    "mdc --servers 8 --service 81us --utilisation 0,.8",
    "ggc --servers 8 --service 81us --service-scv .3 --arrival-scv 0 --utilisation 0,.8",
    "mminf --service 10ms --rate 0,5k/s",
    "mm1k --buffers 1 --service 1us --utilisation 0,1,100",
    "md1k --waiting-room 4 --service 1ms --utilisation 0,.8,1,1.2,30",
    "mmck --servers 512 --waiting-room 0 --service 1ms --utilisation 0,1,2",
    "mmcn --servers 8 --service 127us --think 1ms --population 1,500",
    "mmcn --servers 8 --service 127us --population 1,500",
    "engset --servers 8 --service 1ms --think 4ms --waiting-room 2 --population 1,40",
    "credits --credits 8 --frame 2.5us --distance 2 --utilisation 0,.5,.8",
    "forkjoin --servers 40 --service 1ms --utilisation 0,.5,.9",
    "forkjoin --servers 3 --quorum 2 --service 1ms",
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
    assert run(["model", *words.split()]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(found["model"])
    # A head, its units and a line for each load.
    assert len(lines) >= 3 + len(found["rows"])
    assert "Means: " in lines[3 + len(found["rows"])]


def test_a_narrow_terminal_gets_a_line_for_each_column(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "60")
    assert run(["model", "mmc", "--servers", "8", "--service", "127us", "--utilisation", ".6,.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["response", "us", "132.5", "163.3"] in [line.split() for line in lines]
    assert max(len(line) for line in lines[1:-1]) <= 60


def test_a_closed_loop_says_where_it_saturates(capsys: Captured) -> None:
    found = answer(capsys, "mmcn --servers 8 --service 127us --think 1ms --population 1,500")
    assert [row["population"] for row in found["rows"]] == [1, 500]
    assert found["rows"][1]["throughput_per_s"] == pytest.approx(62_992.126, rel=1e-7)
    assert found["notes"] == ["N* = 70.99 clients: (service + think time) / (service time / servers)."]


def test_credits_say_how_far_they_reach(capsys: Captured) -> None:
    found = answer(capsys, "credits --credits 8 --frame 2.5us --distance 2 --utilisation .5")
    assert found["rows"][0]["covered_distance_km"] == pytest.approx(1.75, rel=1e-9)
    assert "8 credits reach 1.75 km (2 km by the rule" in found["notes"][1]


ERRORS = [
    ("mm1 --service 2.5us --utilisation 1", "unstable at a utilisation of 1"),
    ("mm1 --service 2.5us --utilisation=-.1", "--utilisation: found -0.1, allowed: 0 or more"),
    ("mm1 --service 2.5us --rate=-5", "--rate: found '-5', allowed: 0 or more"),
    ("mm1 --service 2.5us", "found neither --utilisation nor --rate"),
    ("mm1 --service 2.5us --utilisation .1 --rate 5", "found both --utilisation and --rate"),
    ("mm1 --service 2.5us --utilisation half", "--utilisation: found 'half'"),
    ("mm1 --service 2.5us --utilisation 1e999999999", "--utilisation: found '1e999999999'"),
    ("mm1 --service 2.5us --utilisation nan", "--utilisation: found 'nan'"),
    ("mm1 --service 2.5us --utilisation 0:1", "a range FIRST:LAST:STEP"),
    ("mm1 --service 2.5us --utilisation 0:1:0", "rises by a step above 0"),
    ("mm1 --service 2.5us --utilisation 0:1:.00001", "100001 numbers"),
    ("mm1 --service 2.5 --utilisation .1", "--service: found '2.5': a unit is missing"),
    ("mm1 --service 0us --utilisation .1", "service time of 0 s"),
    ("mmc --servers 0 --service 1us --utilisation .1", "found 0 servers"),
    ("mmc --servers 8 --service 1us --utilisation .1 --percentiles 0", "--percentiles: found 0"),
    ("mmc --servers 8 --service 1us --utilisation .1 --percentiles 99,100", "--percentiles: found 100"),
    ("mm1k --service 1us --utilisation .1", "found neither --buffers nor --waiting-room"),
    ("mm1k --buffers 8 --waiting-room 7 --service 1us --utilisation .1", "found both"),
    ("mm1k --buffers 0 --service 1us --utilisation .1", "found 0 places"),
    ("mm1k --waiting-room -1 --service 1us --utilisation .1", "--waiting-room: found -1"),
    ("md1 --service 2.5us --utilisation 1.2", "M/D/1: unstable at a utilisation of 1.2"),
    ("md1k --buffers -3 --service 1us --utilisation .1", "found -3 places"),
    ("mg1 --service 1us --service-scv=-1 --utilisation .1", "found -1 as the squared coefficient"),
    (
        "ggc --servers 2 --service 1us --service-scv nan --utilisation .1",
        "--service-scv: found 'nan', allowed: a number",
    ),
    ("mdc --servers 500 --service 1us --utilisation .1", "500 servers, allowed: 128 at most"),
    ("mmck --servers 8 --buffers 7 --service 1us --utilisation .1", "7 places in the system for 8 servers"),
    ("mmcn --servers 8 --service 1us --population 0", "found 0 clients"),
    ("mmcn --servers 8 --service 1us --population 1.5", "--population: found 1.5, allowed: whole numbers"),
    ("engset --servers 2 --service 1us --population 9", "think time of 0 s with fewer places"),
    ("credits --credits 8 --frame 2.5us --utilisation .1", "found neither --round-trip nor --distance"),
    ("credits --credits 8 --frame 2.5us --distance -2 --utilisation .1", "--distance: found"),
    (
        "credits --credits 8 --frame 2.5us --distance 20 --utilisation .5",
        "8 credits over a round trip of 200 us",
    ),
    ("forkjoin --servers 3 --quorum 4 --service 1us", "quorum of 4 of 3 servers"),
    ("forkjoin --servers 3 --quorum 2 --service 1us --utilisation .5", "--quorum with a load"),
    (
        "mm1 --service 1e400s --utilisation .1",
        "--service: found '1e400s', allowed: a number of nanoseconds up to 1e100",
    ),
    ("mm1 --service 1us --rate 1e400/s", "--rate: found '1e400/s', allowed: a number per second up to 1e100"),
    ("mm1k --buffers 999999999999 --service 1us --utilisation .9", "999999999999 places, allowed: "),
    ("md1k --buffers 999999999999 --service 1us --utilisation .9", "999999999999 places, allowed: "),
    ("mmck --servers 2 --waiting-room 999999999 --service 1us --utilisation .9", "places, allowed: "),
    ("credits --credits 8 --frame 2.5us --distance inf --utilisation .1", "--distance: found 'inf'"),
    ("forkjoin --servers 100000 --quorum 50000 --service 1us", "100000 servers, allowed: 512 at most"),
    (
        "mg1 --service 1us --service-scv 1e308 --utilisation .9 --json",
        "found 1e+308 as the squared coefficient",
    ),
    ("simulate --service 1us --utilisation .5 --servers 999999999999", "999999999999 servers, allowed: "),
    ("simulate --service 1us --utilisation .5 --precision 1e-300", "allowed: "),
    ("simulate --service 1us --utilisation inf", "--utilisation: found 'inf', allowed: a number"),
    ("simulate --service 1us --utilisation .5 --seed=-1", "--seed: found -1, allowed: a whole number"),
    ("simulate --service 1us --utilisation .5 --percentiles nan", "a percentile is nan, allowed: above 0"),
    ("mmc --servers 999999999999 --service 1us --utilisation .9", "999999999999 servers, allowed: "),
    ("mmcn --servers 2 --service 1us --population 999999999999", "999999999999 clients, allowed: "),
    ("usl --data nothing.csv --at inf", "--at: found 'inf'"),
    ("usl --data nothing.csv --outcome iops", "--outcome: it is for --campaign"),
    ("cost --csv nothing.csv --quantile .9", "--quantile: it is for --method quantile"),
    ("cost --csv nothing.csv --method huber --errors hc3", "--errors: it is for least squares"),
    ("mminf --service 1us --rate=-1", "--rate: found '-1', allowed: 0 or more"),
]


@pytest.mark.parametrize(("words", "text"), ERRORS, ids=[words for words, _ in ERRORS])
def test_bad_input_is_one_clear_error(words: str, text: str, capsys: Captured) -> None:
    assert run(["model", *words.split()]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert text in shown.err and shown.err.count("iodyno: error:") == 1
