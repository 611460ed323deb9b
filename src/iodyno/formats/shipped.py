"""Files that ship with iodyno: `study:tcp-transmit`, an experiment, or `example:three-tier`, a model, in the place of a file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from iodyno.core.errors import ExperimentError

_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Shelf:
    """Files that are named `KIND:NAME`: in the package, or in the checkout that the package is read from."""

    kind: str
    installed: Path
    checkout: Path

    @property
    def folder(self) -> Path:
        """The folder that they lie in."""
        return self.installed if self.installed.is_dir() else self.checkout

    @property
    def files(self) -> dict[str, Path]:
        """Each file by its name, which has no suffix."""
        return {path.stem: path for path in sorted(self.folder.iterdir()) if path.suffix in _SUFFIXES}


STUDIES = Shelf("study", _PACKAGE / "_studies", _PACKAGE.parents[1] / "studies")
EXAMPLES = Shelf("example", _PACKAGE / "_examples", _PACKAGE.parents[1] / "docs" / "examples")
_SUFFIXES = (".yaml", ".pl", ".csv")
_COMMANDS = {
    "drawn-nfs-fc": "cost --csv {} --per iops",
    "mm8-response": "pdq {} 8 0.000127",
    "published-nfs-fc": "cost --published {} --unit '% of 8 cores' --standard-error 0.018 --residual-df 624",
    "request-cost": "cost --csv {}",
    "three-tier": "network {}",
}


def studies() -> dict[str, str]:
    """Return the question of each study, as its file begins, by name."""
    found = {}
    for name, path in STUDIES.files.items():
        with path.open(encoding="utf-8") as file:
            found[name] = file.readline().removeprefix("#").strip()
    return found


def examples() -> dict[str, str]:
    """Return a command that reads the example, of each by name."""
    return {
        name: f"iodyno model {_COMMANDS[name].format(f'{EXAMPLES.kind}:{name}')}" for name in EXAMPLES.files
    }


def path_of(written: str) -> str:
    """Return the file that `study:NAME` or `example:NAME` means, and anything else as it is.

    Raises ExperimentError for a name that none has.
    """
    kind, colon, name = written.partition(":")
    shelf = next((each for each in (STUDIES, EXAMPLES) if colon and each.kind == kind), None)
    if shelf is None:
        return written
    known = shelf.files
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ExperimentError(
            f"unknown {kind} {name!r}: expected one of {', '.join(known)}{meant}",
            where="FILE",
            advice="iodyno studies",
        )
    return str(known[name])


def addresses(begun: str, shelf: Shelf) -> list[str]:
    """Return the names with their kind that begin so; none before the kind is written."""
    if not begun.startswith(f"{shelf.kind}:"):
        return []
    return [address for name in shelf.files if (address := f"{shelf.kind}:{name}").startswith(begun)]
