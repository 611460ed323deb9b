"""The smaller studies run as they ship, but for hosts that are made here and shorter windows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from places import data_link, ssh_place

STUDIES = Path(__file__).parents[2] / "studies"
IODYNO = Path(sys.executable).parent / "iodyno"
SHORT = "  windows: {warm_up: 50ms, measured: 300ms, drain: 50ms, interval: 100ms}\n"

pytestmark = pytest.mark.root


def campaign_of(study: str, changes: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """Runs the quick form of the study with lines that begin like the keys of `changes` changed; its points."""
    lines = (STUDIES / study).read_text(encoding="utf-8").splitlines()
    for start, line in changes.items():
        places = [index for index, text in enumerate(lines) if text.startswith(start)]
        assert places, f"{study} has no line that begins with {start!r}"
        lines[places[-1]] = line
    text = "\n".join(line for line in lines if "windows:" not in line or not line.startswith("  "))
    path = folder / study
    path.write_text(f"{text}\n{SHORT}", encoding="utf-8")
    ran = subprocess.run(
        [IODYNO, "run", path, "--quick", "--json"],
        cwd=folder, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    outcome = json.loads(ran.stdout)
    assert outcome["failed"] == []
    shown = subprocess.run(
        [IODYNO, "report", outcome["campaign"], "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(shown.stdout)["points"]
    return found


def test_tcp_transmit_over_ssh(tmp_path: Path) -> None:
    with (
        ssh_place(tmp_path / "a", 3) as first,
        ssh_place(tmp_path / "b", 4) as second,
        data_link(first, second) as at,
    ):
        hosts = {
            name: json.dumps({"access": "ssh", **place.options, "address": address})
            for name, place, address in zip(("client", "server"), (first, second), at, strict=True)
        }
        changes = {f"  {name}: {{access": f"  {name}: {written}" for name, written in hosts.items()}
        changes |= {
            "      levels:": "      levels: [1, 8]",
            "        window:": "        window: [256k, 256k]",
        }
        points = campaign_of("tcp-transmit-ssh.yaml", changes, tmp_path)
    assert {(p["levels"]["connections"], p["levels"]["size"]) for p in points} == {
        (connections, size) for connections in (1, 8) for size in (65536, 8192, 1024)
    }
    for point in points:
        assert point["outcomes"]["goodput_bits_per_s"]["estimate"] > 0
        assert point["outcomes"]["client.cpu_ns_per_kib"]["n"] == 3


def test_tcp_options(tmp_path: Path) -> None:
    points = campaign_of("tcp-options.yaml", {}, tmp_path)
    assert len(points) == 8
    for point in points:
        assert set(point["levels"]) == {"size", "nagle", "congestion_control"}
        assert point["outcomes"]["goodput_bits_per_s"]["estimate"] > 0
        assert not any("option_not_obtained" in str(warning) for warning in point["warnings"])
