"""Finds the agent's program file, and the build that it must be of."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.core.errors import AccessError

if TYPE_CHECKING:
    from iodyno.hosts.access import AgentProgram

PROGRAM = "iodyno-agent"
_PACKAGED = Path(__file__).resolve().parent.parent / "_bin"


def find_agent() -> AgentProgram:
    """The first agent that is there: `$IODYNO_AGENT`, the package's, the interpreter's scripts, the PATH.

    Raises AccessError, which names every place that was looked at.
    """
    # Imported here: the reducer of traces needs the path alone, and must not wait for asyncio and a hash.
    import hashlib

    from iodyno.hosts.access import AgentProgram

    path = program_path()
    return AgentProgram(path, hashlib.sha256(path.read_bytes()).hexdigest(), expected_build())


def program_path() -> Path:
    """Where it is, without a look into it: for what runs on this machine alone.

    Raises AccessError, which names every place that was looked at.
    """
    looked = []
    for path in _places():
        if _is_program(path):
            return path
        looked.append(str(path))
        if "IODYNO_AGENT" in os.environ:
            break  # who names an agent does not want another one
    raise AccessError(
        "the agent's program is not there",
        where=", ".join(looked),
        advice="run `make build` or `pip install .` in the project, or set IODYNO_AGENT to the program",
    )


def expected_build() -> str:
    """Hash of the sources that an agent must be built from: it lies beside the named agent, or else in the package.

    Raises AccessError when there is none.
    """
    path = _PACKAGED / "BUILD"
    if named := os.environ.get("IODYNO_AGENT"):
        beside = Path(named).parent / "BUILD"
        path = beside if beside.is_file() else path
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise AccessError(
            "the lab does not know which build of the agent is its own",
            where=str(path),
            advice="run `make build`, or `pip install .` in the project",
        ) from error


def run_agent() -> None:
    """Console entry `iodyno-agent`: becomes the agent's program."""
    try:
        program = find_agent()
    except AccessError as error:
        sys.stderr.write(f"iodyno-agent: error: {error}\n")
        sys.exit(error.exit_code)
    os.execv(program.path, [PROGRAM, *sys.argv[1:]])


def _places() -> Iterator[Path]:
    if named := os.environ.get("IODYNO_AGENT"):
        yield Path(named)
    yield _PACKAGED / PROGRAM
    yield Path(sysconfig.get_path("scripts")) / PROGRAM
    if found := shutil.which(PROGRAM):
        yield Path(found)


def _is_program(path: Path) -> bool:
    """Whether this is a compiled program: the console script of the same name would only call itself."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(4) == b"\x7fELF"
    except OSError:
        return False
