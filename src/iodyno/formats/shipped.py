"""Experiments that ship with iodyno: `study:tcp-transmit` in the place of a file."""

from __future__ import annotations

import difflib
from pathlib import Path

from iodyno.core.errors import ExperimentError

PREFIX = "study:"
_PACKAGE = Path(__file__).parents[1]


def folder() -> Path:
    """Return the folder that they lie in: in the package, or in the checkout that the package is read from."""
    installed = _PACKAGE / "_studies"
    return installed if installed.is_dir() else _PACKAGE.parents[1] / "studies"


def studies() -> dict[str, str]:
    """Return the question of each study, as its file begins, by name."""
    found = {}
    for path in sorted(folder().glob("*.yaml")):
        with path.open(encoding="utf-8") as file:
            found[path.stem] = file.readline().removeprefix("#").strip()
    return found


def path_of(written: str) -> str:
    """Return the file that `study:NAME` means, and anything else as it is. Raises ExperimentError for a name that none has."""
    if not written.startswith(PREFIX):
        return written
    name, known = written.removeprefix(PREFIX), studies()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ExperimentError(
            f"unknown study {name!r}: expected one of {', '.join(known)}{meant}",
            where="FILE",
            advice="iodyno studies",
        )
    return str(folder() / f"{name}.yaml")
