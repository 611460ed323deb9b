"""The pages of a file that are in the page cache; as a program, `page_cache.py FILE` keeps them out until its input ends.

What streams have left behind is given up at each look, and the rest of what is there at two looks in a row: what was read ahead
is read by then, and no stream comes round so soon. It is a program because looks in time must not wait for a lab that waits for a
CPU. It needs the standard library alone.
"""

import contextlib
import ctypes
import mmap
import os
import re
import select
import sys
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_LEAST_BIT = bytes(value & 1 for value in range(256))
"""Of what mincore(2) says of a page; the others are reserved."""
_CHUNK = 4 << 20
_LOOK_EVERY_S = 0.4
"""Chosen: a look takes 10 ms of a CPU for each GiB of the image, and what was read at random counts as uncached only as long as
little of it is there."""
_NICENESS = -10
_AHEAD_PAGES = (2 << 20) // mmap.PAGESIZE
"""Chosen: more than a stream is read ahead."""


class Pages:
    """The pages of a file that are in the page cache. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)
        try:
            self.size_bytes = os.fstat(self._file).st_size
            # A copy, of which no page is ever made: what is mapped for reading alone has no address in Python.
            self._mapped = mmap.mmap(self._file, self.size_bytes, access=mmap.ACCESS_COPY)
            self._begin = ctypes.c_char.from_buffer(self._mapped)
        except BaseException:
            os.close(self._file)
            raise

    def close(self) -> None:
        """Let go of the file."""
        del self._begin
        self._mapped.close()
        os.close(self._file)

    def resident(self) -> bytes:
        """Return for each page whether it is there: 1, or 0."""
        told = (ctypes.c_ubyte * -(-self.size_bytes // mmap.PAGESIZE))()
        if _LIBC.mincore(ctypes.byref(self._begin), ctypes.c_size_t(self.size_bytes), told):
            raise OSError(ctypes.get_errno(), "mincore")
        return bytes(told).translate(_LEAST_BIT)

    def resident_bytes(self) -> int:
        """Return how many bytes are there."""
        return min(self.resident().count(1) * mmap.PAGESIZE, self.size_bytes)

    def read(self) -> None:
        """Bring all of it there."""
        # Twice: what was asked for once is what a machine whose page cache is full gives up first.
        for _ in range(2):
            for place in range(0, self.size_bytes, _CHUNK):
                os.pread(self._file, _CHUNK, place)

    def give_all_up(self) -> None:
        """Have none of it there."""
        # What is not on disk yet cannot be given up (posix_fadvise(2)).
        os.fsync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def give_up(self, before: bytes, now: bytes) -> None:
        """Have none of the pages there that were at both looks, nor of a long row of them any but its end."""
        both = int.from_bytes(before, "little") & int.from_bytes(now, "little")
        left = bytearray(both.to_bytes(len(now), "little"))
        for found in re.finditer(b"\x01{%d,}" % (2 * _AHEAD_PAGES), now):
            left[found.start() : found.end() - _AHEAD_PAGES] = found[0][_AHEAD_PAGES:]
        # Each call may wait until every CPU has done work of the kernel: one for all pages up to the next that stays.
        stay = int.from_bytes(now, "little") * 2 - int.from_bytes(left, "little")
        for found in re.finditer(b"\x01[\x00\x01]*", stay.to_bytes(len(now), "little")):
            begin, end = (place * mmap.PAGESIZE for place in found.span())
            os.posix_fadvise(self._file, begin, end - begin, os.POSIX_FADV_DONTNEED)


def keep_out(pages: Pages) -> None:
    """Give up what need not be there, until the standard input ends. Raises OSError."""
    # Where the load leaves no CPU free, looks would come late, and streams round before them.
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    before = pages.resident()
    while not select.select([sys.stdin], [], [], _LOOK_EVERY_S)[0]:
        now = pages.resident()
        pages.give_up(before, now)
        before = now


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, OSError):
        keep_out(Pages(Path(sys.argv[1])))
