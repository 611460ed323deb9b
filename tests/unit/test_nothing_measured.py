"""A campaign that ends before anything is measured leaves no folder, and one that cannot be stored says how it goes on."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from iodyno.cli.main import run
from iodyno.session import simulated

FILE = """name: short
question: What stays?
hosts:
  client: {access: simulated}
  server: {access: simulated}
workload: {kind: stream, sender: client, receiver: server}
factors: {connections: [1, 2]}
design: {replicates: 1}
windows: {warm_up: 100ms, measured: 300ms, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms}
"""


@pytest.mark.parametrize("job", ["calibration", "preflight", "background"])
def test_ctrl_c_before_the_first_trial_is_no_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], job: str
) -> None:
    prepare = simulated._Agent._prepare

    def pressed(agent: Any, asked: Any) -> None:
        if str(asked["trial"]).startswith(job):
            os.kill(os.getpid(), signal.SIGINT)
        prepare(agent, asked)

    monkeypatch.setattr(simulated._Agent, "_prepare", pressed)
    file = tmp_path / "short.yaml"
    file.write_text(FILE)
    assert run(["run", str(file), "--into", str(tmp_path / "into")]) == 130
    assert capsys.readouterr().err.endswith("iodyno: stopped; nothing was measured\n")
    assert not list((tmp_path / "into").iterdir())


@pytest.mark.parametrize(("target", "said"), [("/dev/null", "is no block device"), (".", "is a folder")])
def test_a_target_that_no_load_can_have_is_said_before_a_host_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    assert run(["disk", "--target", target, "--seconds", "1", "--into", str(tmp_path / "into")]) == 4
    err = capsys.readouterr().err
    assert f"{said}\n" in err and "opening the hosts" not in err
    assert not list((tmp_path / "into").iterdir())


def test_a_full_disk_names_the_command_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = tmp_path / "short.yaml"
    file.write_text(FILE)
    with monkeypatch.context() as disk:
        disk.setattr("iodyno.store.rows.write_parts", full)
        assert run(["run", str(file), "--into", str(tmp_path / "into")]) == 6
    (folder,) = (tmp_path / "into").iterdir()
    again = f"iodyno run {file} --resume {folder}"
    assert f"  try: free space, then `{again}`; finished trials are intact\n" in capsys.readouterr().err
    assert run(again.split()[1:]) == 0
