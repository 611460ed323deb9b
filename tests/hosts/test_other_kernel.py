"""The agent's own tests in a guest, on a kernel that is not this machine's: Debian's, with vsock and SCTP."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import one_guest
import pytest

AGENT = Path(__file__).parents[2] / "agent"
TARGET = "x86_64-unknown-linux-gnu"
"""Named, so that the flags are those of the tests alone, and not of what builds them."""
MODULES = (*one_guest.VSOCK, *one_guest.SCTP)
RUN_S = 400.0
"""Most time of a guest, whose instructions are translated. Chosen: some six times what the longest takes on an idle machine."""

pytestmark = pytest.mark.root


def built(package: str, kind: tuple[str, ...]) -> Path:
    """The test program, with all that it needs in it."""
    flags = os.environ | {"RUSTFLAGS": "-C target-feature=+crt-static"}
    command = [
        "cargo",
        "test",
        "--no-run",
        "--locked",
        "--quiet",
        "--message-format=json",
        "--target",
        TARGET,
    ]
    command += ["--target-dir", "target/guest", "--package", package, *kind]
    made = subprocess.run(command, cwd=AGENT, env=flags, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    artifacts = [json.loads(line) for line in made.stdout.splitlines()]
    (program,) = [
        found for each in artifacts if each.get("profile", {}).get("test") and (found := each["executable"])
    ]
    return Path(program)


@pytest.mark.parametrize(
    ("package", "kind", "words"),
    [
        ("iodyno-sys", ("--lib",), ()),
        ("iodyno-sense", ("--lib",), ("exact::", "blocks::")),
        # That one needs Python.
        ("iodyno-sense", ("--test", "exact"), ("--skip", "another_process_is_not_the_agent")),
        ("iodyno-sense", ("--test", "block_times"), ()),
        ("iodyno-load", ("--test", "scripts"), ()),
        ("iodyno-load", ("--test", "pairs"), ("combinations::every_combination_carries_every_byte",)),
    ],
    ids=["calls", "programs", "exact", "block_times", "scripts", "combinations"],
)
def test_the_agent_passes_its_tests_on_another_kernel(
    package: str, kind: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    if why := one_guest.unavailable(MODULES):
        pytest.skip(f"no guest here: {why}")
    if shutil.which("cargo") is None:
        pytest.skip("there is no cargo to build the tests with")
    # On one CPU: where QEMU translates instructions for several, one may hang at an instruction that another one changes, as the
    # kernel does when programs are attached to tracepoints.
    cpus = 1 if package == "iodyno-sense" else 2
    said = one_guest.carried_out(built(package, kind), words, MODULES, tmp_path, RUN_S, cpus)
    results = re.findall(r"test result: (\w+)\. (\d+) passed; (\d+) failed", said)
    assert [(word, failed) for word, _, failed in results] == [("ok", "0")], said[-4000:]
    assert int(results[0][1]) > 0
