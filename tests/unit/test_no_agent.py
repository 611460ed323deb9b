"""Programs that are no agents, and agents with something else in their stream: one error each, and no complaint of Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAID = {
    # More than a pipe and a reader hold, so that nobody ever comes to its end.
    "no_end": ("#!/bin/sh\nexec yes\n", {"session": "none of them from an agent", "guard": "exit status"}),
    "long_line": (
        "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x\nsleep 1\n",
        {"session": "none of them from an agent", "guard": "exit status", "target": "cannot be read"},
    ),
    "nonsense": (
        """#!/bin/sh\necho '{"said": "x"}'\nsleep 1\n""",
        {"session": "the agent ended", "guard": "lacks 'boot'", "target": "cannot be read"},
    ),
    "half_a_line": (
        """#!/bin/sh\necho '{"said": '\nsleep 1\n""",
        {"session": "the agent ended", "target": "cannot be read"},
    ),
}
LAB = """
import asyncio, sys, time
from pathlib import Path
from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram
from iodyno.hosts.guard import Guard
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.target import TargetKeeper
from iodyno.session.session import Session

async def start(what):
    access, program = LocalAccess("one", ()), AgentProgram(Path(sys.argv[1]), "0" * 64, "x")
    if what == "target":
        async with await TargetKeeper.start(access, program) as keeper:
            await keeper.see("/dev/null")
    else:
        await (Session if what == "session" else Guard).start(access, program)

try:
    asyncio.run(start(sys.argv[2]))
except AccessError as error:
    print(error)
# What outlives the event loop is complained of when it ends.
time.sleep(0.5)
"""


@pytest.mark.parametrize(
    ("name", "what"), [(name, what) for name, (_, said) in SAID.items() for what in said]
)
def test_what_is_no_agent_is_one_error(tmp_path: Path, name: str, what: str) -> None:
    program = tmp_path / "program"
    program.write_text(SAID[name][0])
    program.chmod(0o755)
    lab = subprocess.run(
        [sys.executable, "-c", LAB, str(program), what],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert SAID[name][1][what] in lab.stdout and "host one" in lab.stdout, lab.stdout + lab.stderr
    assert lab.returncode == 0 and not lab.stderr, lab.stderr
