"""Lock of a campaign's folder: one lab at a time runs a campaign.

A lab holds a lock of the kernel on `FILE` from before it looks into the folder until it has left it. The kernel lets go of it
however the lab ends, so that a file which a killed lab left behind locks nobody out. The lock of the feed will not do: that one
is tried for while the campaign runs already, and is missing where the feed cannot be written.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iodyno.campaign.feed import FEED
from iodyno.core.errors import StoreError
from iodyno.store.files import refuse_links
from iodyno.store.schema import BACKGROUND, BACKGROUNDS, DAMAGED, TRIALS

FILE = ".lock"
_WRITTEN = (FILE, TRIALS, BACKGROUND, *(f"{BACKGROUND}/{when}" for when in BACKGROUNDS), DAMAGED, FEED)
"""Files that a lab writes to or into in a campaign that is there already; all else it replaces."""
_WITHOUT_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
"""Errors of a file system that has no locks."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keeps every other lab out of the campaign in `folder`.

    Raises StoreError, which names the process, where another lab is in there, and where something that a lab writes into is a
    link; nothing in the folder was touched then. On a file system without locks it goes on without one.
    """
    refuse_links(folder, *_WRITTEN)
    try:
        descriptor = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise StoreError(
            f"cannot be written: {error.strerror}",
            where=str(folder),
            advice="name a folder that you may write to",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"this campaign is being run by {_holder(descriptor)}",
                where=str(folder),
                advice=f"wait for it, or watch it: iodyno watch {folder}",
            ) from None
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                raise StoreError(f"cannot be locked: {error.strerror}", where=str(folder)) from error
        _name(descriptor)
        yield
    finally:
        os.close(descriptor)


def _name(descriptor: int) -> None:
    """Writes down who holds the lock. Without this line the lock holds as well, so a full disk is no error here."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
    except OSError:
        return


def _holder(descriptor: int) -> str:
    """Such as `process 4711`, and the host where it is another one than this."""
    words = os.pread(descriptor, 256, 0).decode("utf-8", "replace").split()
    if not words:
        return "another process"
    elsewhere = f" on {words[1]}" if len(words) > 1 and words[1] != socket.gethostname() else ""
    return f"process {words[0]}{elsewhere}"
