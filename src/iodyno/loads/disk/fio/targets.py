"""The files of jobs: their names, and where they are in a directory that stands for those of the job file."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from iodyno.core.invalid import found
from iodyno.loads.disk.fio.ini import Section

MOST_FILES = 64
"""Of a job (chosen: more are a fileset)."""


def names_of(section: Section, count: int) -> tuple[bool, list[str]]:
    """Return whether each of several workers has files of its own, and the names of the files of one, which are `count` where the
    job names none.
    """
    written = section.keys["filename"].value if "filename" in section.keys else ""
    names = [name.replace("\\:", ":") for name in re.split(r"(?<!\\):", written) if name]
    if names:
        return False, names
    if section.name.startswith("/dev/"):
        return False, [section.name]  # a job that is called as a device is of that device
    return True, [f"{section.name}.0.{number}" for number in range(count)]


class Targets:
    """Places of the files of all jobs of a job file. Those that are different ones stay different in a target directory."""

    def __init__(self, sections: Sequence[Section], target: str | None) -> None:
        self.target = target
        kept: dict[str, int] = {}
        for section in sections if target is not None else ():
            directory = section.keys["directory"].value if "directory" in section.keys else ""
            for name in names_of(section, MOST_FILES)[1]:
                kept.setdefault(_whole(name, directory), _kept(name))
        self.names = _apart(kept)

    def path(self, named: str, directory: str) -> tuple[str, str]:
        """The path of a file, and what is to be said about it, if anything. Raises ValueError."""
        if self.target is None:
            device = named.startswith("/dev/")
            return named if device else str(Path(directory or ".", named).absolute()), ""
        inside = os.path.normpath(named)
        if inside == "/" or PurePath(inside).parts[:1] in ((), ("..",)):
            raise ValueError(
                f"invalid value {found(named)}: it is not within the target directory {self.target}; "
                "expected a file in it"
            )
        whole = _whole(named, directory)
        name = self.names.get(whole, _tail(whole, _kept(named), 0))
        said = ""
        if name != _tail(whole, _kept(named), 0):
            said = f"{whole}: {name} in the target directory {self.target}, where jobs have other files of that name"
        elif named.startswith("/"):
            said = f"filename {named}: {name} in the target directory {self.target}"
        return str(Path(self.target, name).absolute()), said


def _whole(named: str, directory: str) -> str:
    """The path of a file without `..`, as it is written: no link is followed, which may be of another host."""
    return os.path.normpath(Path(directory or ".", named).absolute())


def _kept(named: str) -> int:
    """Count the parts of its path that a file has in the target directory: of an absolute name the last, else all of the name."""
    return 1 if named.startswith("/") else len(PurePath(os.path.normpath(named)).parts)


def _tail(whole: str, kept: int, more: int) -> str:
    """The last parts of a path, with so many of those before them in the name of the file: folders are not made."""
    parts = PurePath(whole).parts[1:]
    folder, before = parts[-kept:-1], parts[max(0, len(parts) - kept - more) : len(parts) - kept]
    return "/".join((*folder, "-".join((*before, *parts[-1:]))))


def _apart(kept: Mapping[str, int]) -> dict[str, str]:
    """A name of each file that no other has, with no more of its path than that takes."""
    more = dict.fromkeys(kept, 0)
    while True:
        names = {whole: _tail(whole, kept[whole], more[whole]) for whole in kept}
        twice = _twice(names.values())
        short = [
            whole
            for whole, name in names.items()
            if name in twice and kept[whole] + more[whole] < len(PurePath(whole).parts) - 1
        ]
        if not short:
            break
        for whole in short:
            more[whole] += 1
    taken: set[str] = set()
    for whole, name in names.items():
        number = 1
        while names[whole] in taken:  # /a-b/c and /a/b-c
            number += 1
            names[whole] = f"{name}-{number}"
        taken.add(names[whole])
    return names


def _twice(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}
