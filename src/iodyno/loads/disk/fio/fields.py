"""Values of fio that hold several: for reads and writes, from one size to another, lists of CPUs."""

from __future__ import annotations

import re

from iodyno.core.invalid import found, invalid
from iodyno.loads.disk.fio import numbers


def direction(written: str, reads: float, default: str = "", what: str = "sizes") -> str:
    """Of values for reads, writes and trims, the one that counts for a load with this share of reads in percent; `default`
    where the value of a direction is left empty. One value alone is that of both. Raises ValueError where both count and differ.

    >>> direction("4k,8k", 100), direction("4k,8k", 0), direction("4k", 0), direction(",8k", 100, "4096")
    ('4k', '8k', '4k', '4096')
    """
    parts = [part.strip() for part in written.split(",")]
    read = parts[0] or default
    write = (parts[1] or default) if len(parts) > 1 else read
    if 0.0 < reads < 100.0 and read != write:
        raise ValueError(
            f"invalid value {found(written)}: other {what} for reads than for writes are not "
            "carried; expected one for both"
        )
    return write if reads == 0.0 else read


def size_range(written: str, kb_base: int = 1024) -> tuple[int, int]:
    """`4k-16k`. Raises ValueError."""
    low, dash, high = written.partition("-")
    if not dash:
        raise ValueError(invalid(written, "a range such as 4k-16k"))
    bounds = sorted((numbers.size(low, kb_base), numbers.size(high, kb_base)))
    return bounds[0], bounds[1]


def cpu_mask(written: str) -> tuple[int, ...]:
    """`cpumask`: a bit for each CPU. Raises ValueError.

    >>> cpu_mask("5"), cpu_mask("0xc")
    ((0, 2), (2, 3))
    """
    mask = numbers.count(written)
    if not mask:
        raise ValueError(invalid(written, "a mask with a bit for each CPU, such as 3"))
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def cpus(written: str) -> tuple[int, ...]:
    """`0,2-3`. Raises ValueError."""
    if re.fullmatch(r"0x[0-9a-fA-F]+", written):
        mask = int(written, 16)
        return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
    found_cpus: list[int] = []
    for part in written.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if match is None:
            raise ValueError(invalid(written, "CPUs such as 0,2-3"))
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(invalid(written, "CPUs such as 0,2-3, the lower one first"))
        found_cpus += range(first, last + 1)
    return tuple(dict.fromkeys(found_cpus))
