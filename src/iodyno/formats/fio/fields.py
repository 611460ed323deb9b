"""Values of fio that hold several: for reads and writes, from one size to another, lists of CPUs."""

from __future__ import annotations

import re

from iodyno.formats.fio import numbers
from iodyno.formats.mistakes import found


def direction(written: str, reads: float) -> str:
    """Of values for reads, writes and trims, the one that counts. Raises ValueError where both do and they differ."""
    parts = written.split(",")
    read = parts[0]
    write = parts[1] if len(parts) > 1 and parts[1].strip() else read
    if not read.strip():
        read = write
    if reads == 50.0 and read.strip() != write.strip():
        raise ValueError(
            f"found {found(written)}, other sizes for reads than for writes, which are not carried; allowed: one for both"
        )
    return write if reads == 0.0 else read


def size_range(written: str) -> tuple[int, int]:
    """`4k-16k`. Raises ValueError."""
    low, dash, high = written.partition("-")
    if not dash:
        raise ValueError(f"found {found(written)}, allowed: a range such as 4k-16k")
    bounds = sorted((numbers.size(low), numbers.size(high)))
    return bounds[0], bounds[1]


def cpus(written: str) -> tuple[int, ...]:
    """`0,2-3`. Raises ValueError."""
    if re.fullmatch(r"0x[0-9a-fA-F]+", written):
        mask = int(written, 16)
        return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
    found_cpus: list[int] = []
    for part in written.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None:
            raise ValueError(f"found {found(written)}, allowed: CPUs such as 0,2-3")
        found_cpus += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(dict.fromkeys(found_cpus))
