"""Run folder, where a lab notes on its machine what the next one finds and removes after a crash, and which lab noted it.

What is named there is unmounted, detached and removed with the rights of this account, so that nobody else may write there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from iodyno.core.errors import AccessError

RUN = (
    Path("/run/iodyno")
    if os.geteuid() == 0
    else Path(os.environ.get("XDG_RUNTIME_DIR") or Path.home() / ".cache") / "iodyno"
)


def folder(kind: str) -> Path:
    """Makes the folder for notes of a kind, where there is none. Raises AccessError when others may write there, and OSError."""
    made = RUN / kind
    RUN.parent.mkdir(parents=True, exist_ok=True)
    # Others may see that something is noted, as in `journal.rs`, but not what.
    for path, mode, writers in ((RUN, 0o755, stat.S_IWOTH), (made, 0o700, stat.S_IWGRP | stat.S_IWOTH)):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            wrong = "is no folder"
        elif found.st_uid != os.geteuid():
            wrong = f"belongs to another account ({found.st_uid})"
        elif found.st_mode & writers:
            wrong = "can be written by other accounts"
        else:
            continue
        raise AccessError(
            f"{wrong}: what others note there is not trusted",
            where=str(path),
            advice="look who made it and why, and remove it; the next run makes it anew",
        )
    return made


def left(kind: str) -> list[Path]:
    """List what labs that are gone have noted of a kind. Raises AccessError as `folder`."""
    if not os.path.lexists(RUN / kind):
        return []
    return sorted(path for path in folder(kind).iterdir() if is_gone(path.name))


def maker(pid: int | None = None) -> str:
    """Return the prefix of a lab's names, by default of this one's: its process, and the start of that, as numbers come round."""
    pid = pid or os.getpid()
    return f"{pid}-{start_ticks(pid)}"


def is_gone(name: str) -> bool:
    """Tell whether the lab that made something of that name, which begins with its `maker`, is gone."""
    pid, started, *_ = [*name.split("-"), ""]
    return pid.isdecimal() and started.isdecimal() and start_ticks(int(pid)) != int(started)


def start_ticks(pid: int) -> int | None:
    """Start of the process in clock ticks since boot (field 22 of proc_pid_stat(5)); None: none such."""
    try:
        # The second field is the program's name in brackets and may hold anything, brackets too.
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return None
    # A zombie holds its number, but makes nothing any more.
    return None if fields[0] in "ZX" else int(fields[19])


def identity(path: Path) -> str:
    """A folder as it is noted: with the numbers that tell it from a later one of the same name."""
    found = path.lstat()
    return f"{found.st_dev}:{found.st_ino}:{path}"


def same(noted: str) -> Path | None:
    """The folder of that identity; None: it is gone, or another one or a link has its name."""
    path = Path(noted.split(":", 2)[2])
    try:
        return path if stat.S_ISDIR(path.lstat().st_mode) and identity(path) == noted else None
    except OSError:
        return None
