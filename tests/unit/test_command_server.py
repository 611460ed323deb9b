"""The tests' own fork of the command says and ends as the real one does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import command_server
import pytest

ASKED = [["--version"], ["plan", "ž ±.yaml"], ["model"], ["schema"]]


@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_it_is_the_real_command(words: list[str], tmp_path: Path) -> None:
    real, forked = (
        subprocess.run([*command, *words], cwd=tmp_path, capture_output=True)
        for command in ([sys.executable, "-m", "iodyno"], command_server.iodyno())
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (real.returncode, real.stdout, real.stderr)


def test_it_ends_with_who_started_it(tmp_path: Path) -> None:
    program = "import signal, sys, time; print('begun', flush=True); time.sleep(1000)"
    started = subprocess.Popen(
        [command_server.folder() / "script", program], stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None and started.stdout.readline() == "begun\n"
    started.kill()
    # It holds the pipe until it is gone.
    assert started.stdout.read() == ""
    started.stdout.close()
    assert started.wait() == -9


def test_it_has_the_environment_the_files_and_the_end_of_who_starts_it(tmp_path: Path) -> None:
    program = "import os, sys; print(os.environ['WORD'], sys.stdin.read()); sys.exit('ended')"
    ran = subprocess.run(
        [command_server.folder() / "script", program],
        env=os.environ | {"WORD": "a=b\nc"}, input="from there", capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "a=b\nc from there\n", "ended\n")
