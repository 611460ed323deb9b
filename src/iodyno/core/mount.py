"""Options of a mounted file system as an experiment writes them: `FOLDER OPTION,OPTION` (mount(8), nfs(5))."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.core import quantity
from iodyno.core.invalid import invalid


@dataclass(frozen=True)
class Choice:
    """Words of which exactly one holds; the first where the kernel shows none. `of`: what they are of: a mount, the file system
    with all its mounts, or a mount of NFS.
    """

    words: tuple[str, ...]
    of: str


CHOICES = (
    Choice(("strictatime", "relatime", "noatime"), "mount"),
    Choice(("diratime", "nodiratime"), "mount"),
    Choice(("async", "sync"), "file system"),
    Choice(("nolazytime", "lazytime"), "file system"),
    Choice(("hard", "soft", "softerr"), "nfs"),
    Choice(("cto", "nocto"), "nfs"),
    Choice(("ac", "noac"), "nfs"),
)
UNSHOWN: Mapping[str, str] = {"nconnect": "1"}
"""What holds of an option with a value that the kernel does not show."""

_OPTION = re.compile(r"[a-z][a-z0-9_.]{0,31}(=[A-Za-z0-9_.:/%+-]{1,64})?")
RECORD_SIZE = "recordsize"
"""Property of a data set of ZFS, which is set there and not where it is mounted (zfsprops(7)): for files that are made later."""
_SIZES = ("rsize", "wsize", RECORD_SIZE)
_RANGES: Mapping[str, tuple[int, int]] = {"nconnect": (1, 16), "timeo": (1, 65_535), "retrans": (0, 65_535)}
"""Of nfs(5). A wrong one would be found when the file system is not mounted any more."""
_ALLOWED = "a folder and options, such as `/data noatime,sync` or `/mnt rsize=64KiB,nconnect=4`"


def choice_of(option: str) -> Choice | None:
    """Return the choice that a word is one of; None: it is none."""
    return next((choice for choice in CHOICES if option in choice.words), None)


def checked_options(written: str) -> str:
    """Options of a mount that is yet to be made, as mount(8) takes them. Raises ValueError."""
    options = written.replace(" ", "")
    for option in options.split(","):
        if not _OPTION.fullmatch(option):
            raise ValueError(invalid(option, "options such as noatime,sync"))
    return options


def split(written: str) -> tuple[str, tuple[str, ...]]:
    """Folder and options of what `checked_mount` gave.

    >>> split("/my data noatime,sync")
    ('/my data', ('noatime', 'sync'))
    """
    folder, _, options = written.rpartition(" ")
    return folder, tuple(options.split(","))


def checked_mount(written: str) -> str:
    """`FOLDER OPTIONS` in its usual form. Raises ValueError with what is allowed.

    >>> checked_mount("/srv/  noatime,rsize=64KiB")
    '/srv noatime,rsize=65536'
    """
    folder, options = split(written.strip())
    folder = folder.strip()
    if not folder.startswith("/") or not folder.isprintable():
        raise ValueError(invalid(written, _ALLOWED))
    checked: dict[str, str] = {}
    for option in options:
        name, equals, value = option.partition("=")
        choice = choice_of(option)
        if not _OPTION.fullmatch(option) or not (choice or equals):
            words = (word for each in CHOICES for word in each.words)
            raise ValueError(invalid(option or written, f"{', '.join(words)}, or NAME=VALUE"))
        key = choice.words[0] if choice else name
        if key in checked:
            raise ValueError(f"invalid value: {checked[key]} and {option}; expected one of them")
        if name in _SIZES:
            value = str(quantity.parse("size", value))
        low, high = _RANGES.get(name, (0, 0))
        if high and not (value.isdecimal() and low <= int(value) <= high):
            raise ValueError(invalid(option, f"{name}={low} to {high}"))
        checked[key] = f"{name}={value}" if equals else option
    # Two slashes at the beginning mean something else to POSIX, and not to the kernel.
    return f"{posixpath.normpath('/' + folder.lstrip('/'))} {','.join(checked.values())}"
