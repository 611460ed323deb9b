"""Options of sockets that are one number: in force where they are asked for, and refused where sockets have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iodyno.cli.main import run
from iodyno.core.workload import SOCKET_NUMBERS

_PACED = 100_000_000


@pytest.mark.root
def test_a_paced_stream_of_short_segments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tcp", "--connections", "2", "--seconds", "0.5", "--into", str(tmp_path), "--json"]
    words += [
        "--mss",
        "1000",
        "--pacing-rate",
        f"{_PACED}",
        "--dscp",
        "46",
        "--user-timeout",
        "5s",
        "--quick-ack",
        "on",
        "--not-sent-low-water",
        "64KiB",
    ]
    assert run(words) == 0, capsys.readouterr().err
    found = json.loads(capsys.readouterr().out)
    (point,) = found["points"]
    # Nobody paces it without: a hundred times as much.
    assert 0 < point["outcomes"]["goodput_bits_per_s"]["estimate"] < 1.1 * 2 * _PACED
    (manifest,) = (
        json.loads(each.read_text()) for each in Path(found["campaign"]).glob("trials/*/manifest.json")
    )
    for host in ("client", "server"):
        numbers = manifest["hosts"][host]["ready"]["socket"]["numbers"]
        assert (numbers["dscp"], numbers["pacing_rate"], numbers["user_timeout"]) == (46, _PACED, 5 * 10**9)
        assert 900 <= numbers["mss"] <= 1000 and numbers["not_sent_low_water"] == 65_536
    assert not [each for each in manifest["warnings"] if each["code"] == "option_not_obtained"]


def test_what_tcp_alone_has_is_refused_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tcp", "--transport", "unix", "--mss", "1000", "--into", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "--mss" in said and "sockets of TCP alone have it" in said


def test_every_number_is_an_option_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tcp", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"--{each.name.replace('_', '-')}" in shown for each in SOCKET_NUMBERS)
