"""Finds the program files of the agent and of the reducer of traces, and the build that the agent must be of."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.core.errors import INSTALL_AGAIN, AccessError

if TYPE_CHECKING:
    from iodyno.hosts.access import AgentProgram

AGENT, HEAT = "iodyno-agent", "iodyno-heat"
_PACKAGED = Path(__file__).resolve().parent.parent / "_bin"


def find_agent() -> AgentProgram:
    """The first agent that is there: `$IODYNO_AGENT`, the package's, the interpreter's scripts, the PATH.

    Raises AccessError, which names every place that was looked at.
    """
    # Imported here: the reducer of traces needs the path alone, and must not wait for asyncio.
    from iodyno.hosts.access import AgentProgram

    path, digest = _checked(AGENT, _places(AGENT))
    return AgentProgram(path, digest, expected_build(), for_machine=_find_agent_for)


def _find_agent_for(machine: str) -> AgentProgram:
    """Return the agent for hosts of another architecture: beside the named one, or else in the package. Raises AccessError."""
    from iodyno.hosts.access import AgentProgram

    named = os.environ.get("IODYNO_AGENT")
    path = Path(f"{named}-{machine}") if named else _PACKAGED / f"{AGENT}-{machine}"
    advice = f"install a wheel that has it, or in a checkout: IODYNO_ARCHITECTURES='{os.uname().machine} {machine}' pip install ."
    return AgentProgram(*_checked(f"{AGENT} for a {machine}", [path], advice), expected_build())


def program_path(name: str = AGENT) -> Path:
    """Return the path of a program for what runs on this machine alone. Raises AccessError as `find_agent`."""
    return _checked(name, _places(name))[0]


_ADVICE = f"{INSTALL_AGAIN}, or set IODYNO_AGENT to the agent; iodyno-heat lies beside it"


def _checked(name: str, places: Iterable[Path], advice: str = _ADVICE) -> tuple[Path, str]:
    """Return the path, and the hash of the file, which is that of the one that was built, where that is noted beside it."""
    import hashlib

    looked = []
    for path in places:
        if _is_program(path):
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            built = _noted(path.parent / "BUILD")[1].get(path.name, digest)
            if built != digest:
                raise AccessError(
                    f"the program {name} is not as it was built: its SHA-256 is {digest[:16]}..., not {built[:16]}...",
                    where=str(path),
                    advice=f"{INSTALL_AGAIN}, and look why the disk does not keep it",
                )
            return path, digest
        looked.append(str(path))
    raise AccessError(
        f"the program {name} is not there",
        where=", ".join(looked),
        advice=advice,
    )


def expected_build() -> str:
    """Hash of the sources that an agent must be built from: it lies beside the named agent, or else in the package.

    Raises AccessError when there is none.
    """
    path = _PACKAGED / "BUILD"
    if named := os.environ.get("IODYNO_AGENT"):
        beside = Path(named).parent / "BUILD"
        path = beside if beside.is_file() else path
    if build := _noted(path)[0]:
        return build
    raise AccessError(
        "iodyno does not know which build of the agent is its own",
        where=str(path),
        advice=INSTALL_AGAIN,
    )


def _noted(file: Path) -> tuple[str, dict[str, str]]:
    """The build of an agent and the hashes of programs by their names, as their build has noted them; empty: it has not."""
    try:
        build, *hashes = file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return "", {}
    return build, dict(zip(hashes[1::2], hashes[::2], strict=False))


def run_agent() -> None:
    """Console entry `iodyno-agent`: becomes the agent's program."""
    try:
        program = find_agent()
    except AccessError as error:
        sys.stderr.write(f"iodyno-agent: error: {error}\n")
        sys.exit(error.exit_code)
    os.execv(program.path, [AGENT, *sys.argv[1:]])


def _places(name: str) -> Iterator[Path]:
    if named := os.environ.get("IODYNO_AGENT"):
        # Who names an agent does not want another one, nor what goes with it.
        yield Path(named) if name == AGENT else Path(named).with_name(name)
        return
    yield _PACKAGED / f"{name}-{os.uname().machine}"
    yield Path(sysconfig.get_path("scripts")) / name
    if found := shutil.which(name):
        yield Path(found)


def _is_program(path: Path) -> bool:
    """Tell whether this is a compiled program: the console script of the same name would only call itself."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(4) == b"\x7fELF"
    except OSError:
        return False
