"""Studies that ship are named where a file is, from wherever the command is given."""

from __future__ import annotations

import json
from pathlib import Path

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
