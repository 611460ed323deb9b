"""The working set in a file: laid out once with known content, stamped, used again when the stamp matches.

The file is as long as the working set and one block more, which holds the stamp: a line that says what was laid out, and
whether that is complete. The stamp says `building` before the first byte of content is written and `complete` after the
last one is on the disk, so that a layout which was killed is known for what it is, and laid out anew. A file that has
bytes and no stamp belongs to somebody else: it is read as it is, and never written without an explicit word.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import stat
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from iodyno.core.errors import Interrupted, PreflightError

STAMP_BYTES = 4096
_MAGIC = b"iodyno working set "
_MARK = "user.iodyno.target"
_CHUNK_BYTES = 1 << 20
_UNIT_BYTES = 4096
_SEED = 20080813
"""Of the content: random bytes, so that nothing below compresses or joins them."""
_SAMPLES = 64
"""Blocks that are looked at before a layout is used again (chosen: a file that is wrong in a tenth of its blocks passes with
a chance of one in a thousand)."""
_SPARE_BYTES = 1 << 20
"""What a file system needs beside the content (chosen: some blocks of its own tables)."""

Progress = Callable[[int, int], None]
"""Hears of bytes laid out, and of how many there are."""
State = Literal["building", "complete"]


@dataclass(frozen=True)
class Stamp:
    """What a file says of itself. `pristine`: no load has written since."""

    size_bytes: int
    state: State
    pristine: bool = True
    version: int = 1


@dataclass(frozen=True)
class LaidOut:
    """What became of a file: `made`, `reused`, `rebuilt` (and why), or `foreign`: somebody else's, used as it is."""

    action: Literal["made", "reused", "rebuilt", "foreign"]
    why: str = ""


def lay_out(
    path: str,
    size_bytes: int,
    *,
    writes: bool,
    destroy: bool = False,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> LaidOut:
    """Makes the file hold a working set of `size_bytes`, or finds that it does.

    `writes`: the load will write, so that its content is not known from now on. `destroy`: it may be overwritten, whosever it
    is. Raises PreflightError when it cannot be had, and Interrupted when `stopped()` says so; what was begun is removed then.
    """
    with _told(path):
        found = _existing(path)
        if found is None:
            _check_room(path, size_bytes, 0)
            _build(path, size_bytes, writes, progress, stopped, fresh=True)
            return LaidOut("made")
        if found.st_size == 0:
            _check_room(path, size_bytes, 0)
            _build(path, size_bytes, writes, progress, stopped, fresh=False)
            return LaidOut("made")
        stamp = stamp_of(path)
        if stamp is None and not destroy and not _marked(path):
            return _foreign(path, found, size_bytes, writes)
        why = "it has lost its stamp" if stamp is None else wrong_with(path, stamp, size_bytes)
        if not why:
            if writes and stamp is not None and stamp.pristine:
                _write_stamp(path, Stamp(stamp.size_bytes, "complete", pristine=False))
            return LaidOut("reused")
        _check_room(path, size_bytes, found.st_blocks * 512)
        _build(path, size_bytes, writes, progress, stopped, fresh=False)
        return LaidOut("rebuilt", why)


def lay_empty(path: str, *, destroy: bool = False) -> LaidOut:
    """Makes the file empty, and marks it as one of this module: what a load that appends begins with. Raises PreflightError."""
    with _told(path):
        found = _existing(path)
        if found is not None and found.st_size and not destroy and not stamp_exists(path):
            return _foreign(path, found, 0, writes=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, 0)
            os.setxattr(descriptor, _MARK, b"1")
        finally:
            os.close(descriptor)
        return LaidOut("made" if found is None else "rebuilt", "a load that appends begins with nothing")


def remove(path: str) -> bool:
    """Removes a file that this module laid out; whether there was one. Raises PreflightError for a file of others."""
    with _told(path):
        found = _existing(path)
        if found is None:
            return False
        if found.st_size and stamp_of(path) is None and not _marked(path):
            raise PreflightError(
                "was not laid out by iodyno, and is left alone", where=path, advice="remove it yourself"
            )
        Path(path).unlink()
        return True


def stamp_exists(path: str) -> bool:
    """Whether the file is there, and was laid out by this module."""
    try:
        return _marked(path) or stamp_of(path) is not None
    except OSError:
        return False


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None: it has none, and so is not of this module. Raises OSError."""
    with Path(path).open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        # The stamp is the last whole block; a load that appends may have written behind it, in blocks too.
        place = (length - STAMP_BYTES) // _UNIT_BYTES * _UNIT_BYTES
        if place < 0:
            return None
        file.seek(place)
        return _parsed(file.read(STAMP_BYTES), place)


def wrong_with(path: str, stamp: Stamp, size_bytes: int) -> str:
    """Why a layout cannot be used again; empty when it can. Raises OSError."""
    if stamp.state != "complete":
        return "its layout was interrupted"
    if stamp.size_bytes < size_bytes:
        return f"it was laid out for {stamp.size_bytes} bytes, {size_bytes} are needed"
    found = Path(path).stat()
    if found.st_blocks * 512 < 0.99 * stamp.size_bytes:
        return "parts of it are not on the disk: holes are read from nowhere"
    units = stamp.size_bytes // _UNIT_BYTES
    with Path(path).open("rb") as file:
        for unit in random.Random(_SEED).choices(range(units), k=min(_SAMPLES, units)) if units else []:
            file.seek(unit * _UNIT_BYTES)
            held = file.read(_UNIT_BYTES)
            if len(held) != _UNIT_BYTES or (stamp.pristine and held != unit_content(unit)):
                return f"the block at {unit * _UNIT_BYTES} does not hold what was laid out"
    return ""


_BASE = b""


def unit_content(unit: int) -> bytes:
    """The 4 KiB that are laid out as block `unit`: its number, then bytes of a chunk of random ones."""
    base = _base()
    begin = unit * _UNIT_BYTES % _CHUNK_BYTES
    return unit.to_bytes(8, "little") + base[begin + 8 : begin + _UNIT_BYTES]


def _base() -> bytes:
    global _BASE  # noqa: PLW0603 - a megabyte of random bytes, made once
    if not _BASE:
        _BASE = random.Random(_SEED).randbytes(_CHUNK_BYTES)
    return _BASE


def _build(
    path: str,
    size_bytes: int,
    writes: bool,
    progress: Progress | None,
    stopped: Callable[[], bool],
    *,
    fresh: bool,
) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_EXCL if fresh else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        end = _stamp_at(size_bytes)
        os.ftruncate(descriptor, 0)
        # The mark of an unfinished layout first: whatever happens from here on, the file is known as ours.
        os.pwrite(descriptor, _stamped(Stamp(size_bytes, "building")), end)
        with contextlib.suppress(OSError):
            os.setxattr(descriptor, _MARK, b"1")
        os.fsync(descriptor)
        with contextlib.suppress(_NoReservation):
            _reserve(descriptor, end)
        chunk = bytearray(_base())
        for begin in range(0, end, _CHUNK_BYTES):
            if stopped():
                raise Interrupted("stopped", where=path)
            length = min(_CHUNK_BYTES, end - begin)
            for place in range(0, length, _UNIT_BYTES):
                chunk[place : place + 8] = ((begin + place) // _UNIT_BYTES).to_bytes(8, "little")
            _write_all(descriptor, memoryview(chunk)[:length], begin)
            if progress:
                progress(min(begin + length, size_bytes), size_bytes)
        os.fsync(descriptor)
        os.pwrite(descriptor, _stamped(Stamp(size_bytes, "complete", pristine=not writes)), end)
        os.fsync(descriptor)
        # Dropped, so that the first load finds the page cache as the next ones do.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except BaseException:
        # Half of a working set is of no use to anybody, and takes room.
        with contextlib.suppress(OSError):
            Path(path).unlink()
        raise
    finally:
        os.close(descriptor)


class _NoReservation(Exception):  # noqa: N818 - a way of this file system, not an error
    pass


def _reserve(descriptor: int, length: int) -> None:
    """Takes the room before anything is written, where the file system can do that."""
    try:
        os.posix_fallocate(descriptor, 0, length + STAMP_BYTES)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV, errno.ENOSYS):
            raise _NoReservation from error
        raise


def _write_all(descriptor: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written


def _marked(path: str) -> bool:
    """Whether the file carries the mark of this module, which outlives its stamp: a load that appends cuts the file."""
    try:
        return os.getxattr(path, _MARK) == b"1"
    except OSError:
        return False


def _existing(path: str) -> os.stat_result | None:
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        if Path(path).is_symlink():
            raise PreflightError(
                "is a link to nothing", where=path, advice="name the file that it is to be"
            ) from None
        return None
    if not stat.S_ISREG(found.st_mode):
        kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise PreflightError(
            f"is {kind}",
            where=path,
            advice="name a file, which is made where it is not there, or a device in /dev",
        )
    return found


def _foreign(path: str, found: os.stat_result, size_bytes: int, writes: bool) -> LaidOut:
    if writes:
        raise PreflightError(
            "holds bytes that iodyno did not write, and the load would overwrite them",
            where=path,
            advice=f"name another file, or give it up with --destroy {path}",
        )
    if found.st_size < size_bytes:
        raise PreflightError(
            f"is {found.st_size} bytes long, fewer than the {size_bytes} of the working set",
            where=path,
            advice="take a smaller working set, or name another file",
        )
    return LaidOut("foreign", "it is read as it is")


def _check_room(path: str, size_bytes: int, held_bytes: int) -> None:
    folder = Path(path).absolute().parent
    room = os.statvfs(folder)
    need = _stamp_at(size_bytes) + STAMP_BYTES + _SPARE_BYTES
    have = room.f_bavail * room.f_frsize + held_bytes
    if need > have:
        raise PreflightError(
            f"a working set of {_mib(size_bytes)} does not fit: {_mib(have)} are free there",
            where=path,
            advice="take a smaller working set, free space, or name a file on another disk",
        )


def _stamp_at(size_bytes: int) -> int:
    return -(-size_bytes // _UNIT_BYTES) * _UNIT_BYTES


def _stamped(stamp: Stamp) -> bytes:
    return (_MAGIC + json.dumps(asdict(stamp)).encode() + b"\n").ljust(STAMP_BYTES, b"\0")


def _write_stamp(path: str, stamp: Stamp) -> None:
    with Path(path).open("r+b") as file:
        file.seek(_stamp_at(stamp.size_bytes))
        file.write(_stamped(stamp))
        file.flush()
        os.fsync(file.fileno())


def _parsed(block: bytes, place: int) -> Stamp | None:
    if not block.startswith(_MAGIC):
        return None
    try:
        held = json.loads(block[len(_MAGIC) :].partition(b"\n")[0])
        stamp = Stamp(int(held["size_bytes"]), held["state"], bool(held["pristine"]), int(held["version"]))
    except (ValueError, KeyError, TypeError):
        return None
    return stamp if _stamp_at(stamp.size_bytes) == place and stamp.state in ("building", "complete") else None


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Errors of the file system in words."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOENT: "name a file in a folder that is there",
            errno.EACCES: "name a file that this account may write",
            errno.EROFS: "name a file on a file system that can be written",
            errno.ENOSPC: "free space, or take a smaller working set",
            errno.EDQUOT: "free space, or take a smaller working set",
            errno.EIO: "look at the log of the kernel: the disk may be broken",
        }.get(error.errno or 0, "look at the file and its folder")
        what = {errno.ENOENT: "the folder of the target is not there", errno.ENOSPC: "the disk is full"}
        text = what.get(error.errno or 0, f"cannot be laid out: {error.strerror}")
        raise PreflightError(text, where=path, advice=advice) from error
