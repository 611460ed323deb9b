"""Studies and examples that ship are named where a file is, from wherever the command is given."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import command_server
import pytest
from places import iodyno as command

import iodyno


def test_a_study_stands_for_its_file(tmp_path: Path) -> None:
    listed = json.loads(command("studies", "--json", cwd=tmp_path).stdout)["studies"]
    files = sorted((Path(__file__).parents[2] / "studies").glob("*.yaml"))
    assert [Path(each["file"]).name for each in listed] == [path.name for path in files]
    assert all(each["question"].endswith(("?", ".")) and len(each["question"]) < 130 for each in listed)
    shown = command("check", "study:tcp-transmit", cwd=tmp_path)
    assert shown.returncode == 0 and "tcp-transmit" in shown.stdout
    assert iodyno.read("study:lock-manager").name == "lock-manager"


def test_a_name_that_no_study_has_is_answered_with_the_nearest(tmp_path: Path) -> None:
    shown = command("run", "study:tcp-transmt", cwd=tmp_path)
    assert shown.returncode == 2
    assert "unknown study 'tcp-transmt'" in shown.stderr and "did you mean tcp-transmit?" in shown.stderr
    with pytest.raises(iodyno.ExperimentError, match="unknown study"):
        iodyno.read("study:")


def test_the_command_that_stands_beside_an_example_reads_it(tmp_path: Path) -> None:
    listed = json.loads(command("studies", "--json", cwd=tmp_path).stdout)["examples"]
    files = sorted((Path(__file__).parents[2] / "docs" / "examples").iterdir())
    assert [Path(each["file"]).name for each in listed] == [path.name for path in files]
    for each in listed:
        shown = command(*shlex.split(each["command"])[1:], cwd=tmp_path)
        assert shown.returncode == 0 and shown.stdout, shown.stderr


def test_a_name_that_no_example_has_is_answered_with_the_nearest(tmp_path: Path) -> None:
    shown = command("model", "network", "example:three-teir", cwd=tmp_path)
    assert shown.returncode == 2 and "did you mean three-tier?" in shown.stderr


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("check study:tcp-o", ["study:tcp-options"]),
        ("model network example:th", ["example:three-tier"]),
        ("model cost --csv example:r", ["example:request-cost"]),
    ],
)
def test_a_shell_completes_what_ships(words: str, names: list[str]) -> None:
    typed = {"COMP_WORDS": f"iodyno {words}", "COMP_CWORD": str(len(words.split()))}
    asked = {**os.environ, "_IODYNO_COMPLETE": "bash_complete", **typed}
    shown = subprocess.run(command_server.iodyno(), env=asked, capture_output=True, text=True, timeout=600)
    assert shown.stdout.split() == [f"plain,{name}" for name in names]
