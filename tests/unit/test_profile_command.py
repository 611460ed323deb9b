"""`iodyno profile`: the table, and what other viewers are given."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from made_calls import cost, receiver, sender
from made_campaign import Call, Truth, changed, make_campaign

from iodyno.cli.main import run

CALLS = (*sender(), Call(("odd;file:odd;name",), 3.0, mode="user"))
GO = shutil.which("go")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truth = changed(
        Truth(background=0.0),
        cost_ns_per_kib={"client": cost(CALLS), "server": cost(receiver())},
        calls={"client": CALLS, "server": receiver()},
    )
    folder = tmp_path_factory.mktemp("profile") / "c"
    return make_campaign(folder, [({"connections": 1, "size": 65536}, truth)])


def exported(campaign: Path, form: str, tmp_path: Path) -> bytes:
    path = tmp_path / "out"
    assert run(["profile", str(campaign), "--format", form, "--output", str(path)]) == 0
    return path.read_bytes()


def test_the_answer_comes_first_on_a_screen(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if not line.startswith("warning: ")]) <= 15
    assert max(map(len, lines)) <= 130
    assert (
        lines[0].startswith("client, connections=1,size=64KiB: ")
        and " of CPU time a KiB, over 3 trials." in lines[0]
    )
    assert lines[1].startswith("Of the functions _copy_from_iter takes most by itself: ")
    assert "of the layers copy: " in lines[1]
    assert sum(" ±" in line or "[" in line for line in lines[3:]) >= 6
    # An answer by what it is ranked by, and as many functions as are asked for.
    assert run(["profile", str(campaign), "--by", "inclusive", "--top", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " takes most with all that it calls: " in lines[1]
    assert len(lines[lines.index("Cost by function") :]) == 3 + 2 + 2


def test_without_call_stacks_the_advice_is_how_they_are_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_campaign(tmp_path / "c", [({"size": 1024}, Truth())])
    assert run(["profile", str(folder)]) == 6
    assert "try: run again: " in (said := capsys.readouterr().err) and "--profile" in said


def test_the_tables(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--top", "3", "-v"]) == 0
    out = capsys.readouterr().out
    assert "load, kernel" in out and "interrupts on an idle CPU, kernel" in out
    rows = [line for line in out.splitlines() if " kernel " in line and "load" in line]
    assert rows[0].startswith("_copy_from_iter")
    assert "12000 samples of busy CPUs" in out


def test_json(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", str(campaign), "--json", "--host", "server"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["host"] == "server" and found["samples"] == 12000
    assert sum(each["exclusive_ratio"]["estimate"] for each in found["functions"]) == pytest.approx(1)
    assert {each["name"] for each in found["mechanisms"]} >= {"bytes_per_read", "packets_per_poll"}


def test_folded_stacks_hold_every_sample(campaign: Path, tmp_path: Path) -> None:
    lines = exported(campaign, "folded", tmp_path).decode().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 12000
    assert any(";tcp_sendmsg_[k];" in line and line.startswith("load;clone3;") for line in lines)
    # A semicolon in a name would make two frames of one.
    assert next(line for line in lines if "odd" in line).startswith("load;odd:name ")


def test_speedscope_has_valid_frames_and_weights(campaign: Path, tmp_path: Path) -> None:
    found = json.loads(exported(campaign, "speedscope", tmp_path))
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = found["shared"]["frames"]
    assert sum(profile["endValue"] for profile in found["profiles"]) == 12000
    for profile in found["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= frame < len(frames) for sample in profile["samples"] for frame in sample)


def test_pprof_is_the_same_when_written_again(campaign: Path, tmp_path: Path) -> None:
    first = exported(campaign, "pprof", tmp_path)
    assert first == exported(campaign, "pprof", tmp_path)
    assert b"tcp_sendmsg_locked" in gzip.decompress(first)


@pytest.mark.skipif(GO is None, reason="go is not installed: pprof cannot be asked what it reads")
def test_pprof_reads_the_same_shares(campaign: Path, tmp_path: Path) -> None:
    exported(campaign, "pprof", tmp_path)
    assert GO is not None
    command = [GO, "tool", "pprof", "-top", "-sample_index=samples", "-nodecount=50", str(tmp_path / "out")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    if "no such tool" in ran.stderr or "cannot find package" in ran.stderr:
        pytest.skip(f"this go has no pprof: {ran.stderr.strip()[:200]}")
    assert ran.returncode == 0, ran.stderr
    assert "Showing nodes accounting for 12000, 100% of 12000 total" in ran.stdout
    row = next(line.split() for line in ran.stdout.splitlines() if line.endswith(" tcp_sendmsg"))
    # Flat, flat%, sum%, cumulative, its share: 145 of 210 ns of the sender's calls.
    assert row[0] == "0"
    assert float(row[4].rstrip("%")) == pytest.approx(100 * 145 / cost(CALLS), abs=3)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--point", "size=1KiB"], 2, "no point is 'size=1KiB'"),
        (["--host", "mars"], 2, "expected client, server"),
        (["--format", "folded", "--output", "no/such/folder/file"], 6, "cannot be written"),
        (["--format", "svg"], 2, "svg"),
    ],
)
def test_mistakes(
    campaign: Path, words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", str(campaign), *words]) == code
    assert said in capsys.readouterr().err
