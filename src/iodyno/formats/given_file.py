"""Files that a user names: read up to a limit, and only what has an end.

A device such as /dev/zero never ends, and a FIFO may never begin: both look like files to whoever just opens them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

HEAD_BYTES = 65_536
"""Length of the head that tells kinds of files apart (chosen: comments before the first statement may be long)."""
TABLE_BYTES = 64 << 20
"""Longest table (chosen: more lines than any model is fitted to)."""


def read_given(path: str | os.PathLike[str], most_bytes: int, *, pipes: bool = False) -> bytes:
    """The bytes of the file; of one that is longer than `most_bytes`, so many and one more.

    `pipes`: it may also be the end of a pipe, for commands that others write to. Raises OSError, whose `strerror` says why,
    for whatever is no file.
    """
    try:
        mode = Path(path).stat().st_mode
    except ValueError as problem:  # a zero byte in the name
        raise OSError(None, str(problem)) from None
    if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
        raise OSError(None, "it is a folder" if stat.S_ISDIR(mode) else "it is no regular file")
    with Path(path).open("rb") as opened:
        return opened.read(most_bytes + 1)


def head_of(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of the file; none where it cannot be read, which whoever reads it will say."""
    try:
        return read_given(path, HEAD_BYTES)
    except OSError:
        return b""


def read_table(path: str | os.PathLike[str]) -> str:
    """The text of a table of measurements, also from a pipe. Raises OSError, and UnicodeDecodeError where it is no text."""
    raw = read_given(path, TABLE_BYTES, pipes=True)
    if len(raw) > TABLE_BYTES:
        raise OSError(None, f"it is larger than {TABLE_BYTES >> 20} MiB")
    return raw.decode("utf-8-sig")
