"""The rates of a job: fio limits reads and writes each by itself, by operations (`rate_iops`) or by bytes (`rate`); here one
rate of operations has a share of reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from iodyno.core import quantity
from iodyno.core.invalid import found, invalid
from iodyno.formats.mistakes import unknown
from iodyno.loads.disk.fio import numbers
from iodyno.loads.disk.fio.ini import Key
from iodyno.loads.disk.fio.reading import SectionReading

_LAWS = {"linear": "constant", "poisson": "poisson"}
_ROUNDED = Fraction(1, 100)
"""Chosen: a rate is whole operations per second here, and who rounds by more than that holds another one."""
_READS, _WRITES = "reads", "writes"


def rates(reading: SectionReading, reads: float, numjobs: int, block: str) -> dict[str, Any]:
    """Rate, arrivals and, where the rates of both directions say it, the share of reads of a job that has this share in
    percent by its mix, in blocks such as `4KiB` or `mix(...)`. Notes what cannot be carried.
    """
    key, limits = _limits(reading)
    if key is None:
        return {}
    used = [name for name, there in ((_READS, reads > 0), (_WRITES, reads < 100)) if there]
    limited = {name: limits[name] for name in used if limits[name]}
    if not limited:
        other = _WRITES if used == [_READS] else _READS
        reading.say(f"{_shown(key)} limits {other}, of which this job has none: it goes as fast as it can")
        return {}
    if len(limited) < len(used):
        (one,) = limited
        other = _WRITES if one == _READS else _READS
        reading.note(
            key,
            f"invalid value {found(key.value)}: it limits {one} and not {other}; expected a rate "
            "for each of the two, or two jobs that run at the same time, one that reads and one "
            "that writes",
        )
        return {}
    process = reading.word("rate_process", "linear").lower()
    if process not in _LAWS:
        reading.note(reading.keys["rate_process"], unknown(process, _LAWS))
        return {}
    if key.name == "rate":
        if "(" in block:
            reading.note(key, "bytes a second of drawn sizes are not carried: use rate_iops")
            return {}
        size = quantity.parse("size", block or "0")
        if not size:
            return {}  # which is noted of the block
        limited = {name: each / size for name, each in limited.items()}
    elif "(" in block:
        reading.say(
            f"{_shown(key)} is of operations, whatever their sizes; fio holds as many bytes per second as so many of the least"
            " size have"
        )
    return _held(reading, key, limited, reads, numjobs) | {"arrivals": _LAWS[process]}


def _limits(reading: SectionReading) -> tuple[Key | None, Mapping[str, Fraction]]:
    """The option that limits the job, and its numbers for reads and for writes; 0: no limit."""
    given: list[tuple[Key, Mapping[str, Fraction]]] = []
    none: Mapping[str, Fraction] = {}
    for name in ("rate_iops", "rate"):
        pair = reading.get(name, partial(_pair, name, reading.kb_base(name)), none)
        if any(pair.values()):
            given.append((reading.keys[name], pair))
    if len(given) > 1:
        last = reading.last("rate", "rate_iops")
        reading.note(last, "rate cannot be used with rate_iops, as in fio")
        return None, {}
    return given[0] if given else (None, {})


def _pair(name: str, kb_base: int, written: str) -> Mapping[str, Fraction]:
    """`1000` of each direction, `600,400` of reads and of writes, `,400` of writes alone. Raises ValueError."""
    parts = [part.strip() for part in written.split(",")][:2]  # a third one is of trims
    if not any(parts):
        raise ValueError(invalid(written, "a rate such as 1000"))
    read = numbers.size if name == "rate" else numbers.count
    each = [Fraction(read(part, kb_base) if part else 0) for part in parts]
    return {_READS: each[0], _WRITES: each[-1]}


def _held(
    reading: SectionReading, key: Key, limited: Mapping[str, Fraction], reads: float, numjobs: int
) -> dict[str, Any]:
    """The rate of all jobs together. Notes one that is no whole number."""
    total = sum(limited.values(), Fraction(0)) * numjobs
    held = round(total)
    if not held or abs(held - total) > total * _ROUNDED:
        reading.note(
            key,
            f"invalid value {found(key.value)}: it is {_number(total)} operations per "
            f"second{f' of {numjobs} jobs' if numjobs > 1 else ''}; expected a whole number of "
            "them, to 1 %",
        )
        return {}
    settings: dict[str, Any] = {"rate": f"{held}/s"}
    each = " and ".join(f"{_number(limit)} {name}" for name, limit in limited.items())
    of_each = " of each job" if numjobs > 1 else ""
    if len(limited) > 1:
        share = round(limited[_READS] / sum(limited.values()) * 10**6)
        settings["read"] = quantity.show("share", share)
        instead = (
            "" if share == round(reads * 10**4) else f" in place of the {reads:g}% of the mix, as in fio"
        )
        reading.say(
            f"{_shown(key)}: {each} per second{of_each}, drawn from one rate, {settings['read']} of it reads{instead}"
        )
    elif key.name == "rate":
        reading.say(f"{_shown(key)}: {each} per second{of_each}")
    if held != total:
        reading.say(f"{_shown(key)}: {_number(total)} operations per second are rounded to {held}")
    reading.say(
        "the rate is that of an open loop: operations begin when they are due, and response times count from there"
    )
    if numjobs > 1:
        reading.say(f"a rate of each of {numjobs} jobs: {held}/s for all together")
    return settings


def _shown(key: Key) -> str:
    return f"{key.name}={key.value}"


def _number(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.2f}"
