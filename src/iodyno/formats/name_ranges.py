"""Names of many hosts in few characters: a node list of Slurm, `n[001-100],m7`, and a pattern of Ansible, `web[01:50]`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, product

from iodyno.core.invalid import found, invalid

MOST = 10_000
"""Chosen: ten times as many hosts as a name of an experiment may have."""

_NODES = re.compile(r"\s*((?:[^\s,\[\]]|\[[^\[\]]*\])+)\s*(,|\Z)")
_PART = re.compile(r"\[([^\[\]]*)\]")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_ANSIBLE = re.compile(r"\[(\w{1,9}):(\w{1,9})(?::(\d{1,9}))?\]")


def node_list(written: str) -> list[str]:
    """Names in the form of `scontrol show hostlist`. Raises ValueError.

    >>> node_list("n[001-003,7],m2")
    ['n001', 'n002', 'n003', 'n7', 'm2']
    """
    return list(dict.fromkeys(_limited(_of_nodes(written), written)))


def _of_nodes(written: str) -> Iterator[str]:
    end, more = 0, True
    while more:
        part = _NODES.match(written, end)
        if part is None:
            raise ValueError(invalid(written, "nodes such as n[001-100],m7"))
        yield from _expanded(part[1], _PART, _of_slurm, written)
        end, more = part.end(), part[2] == ","


def ansible_pattern(written: str) -> list[str]:
    """Names of a line of an inventory. Raises ValueError.

    >>> ansible_pattern("web[01:03].example.org"), ansible_pattern("db-[a:e:2]")
    (['web01.example.org', 'web02.example.org', 'web03.example.org'], ['db-a', 'db-c', 'db-e'])
    """
    if "[" in _ANSIBLE.sub("", written) or "]" in _ANSIBLE.sub("", written):
        raise ValueError(invalid(written, "a range such as web[01:50] or db-[a:f]"))
    return _limited(_expanded(written, _ANSIBLE, _of_ansible, written), written)


def _limited(names: Iterator[str], written: str) -> list[str]:
    taken = list(islice(names, MOST + 1))
    if len(taken) > MOST:
        raise _too_many(written)
    return taken


def _too_many(written: str) -> ValueError:
    return ValueError(f"invalid value {found(written)}: more than {MOST} names; expected fewer")


def _expanded(
    word: str, part: re.Pattern[str], values: Callable[[re.Match[str]], Iterator[str]], written: str
) -> Iterator[str]:
    pieces: list[list[str]] = []
    count, end = 1, 0
    for match in part.finditer(word):
        choices = list(islice(values(match), MOST + 1))
        count *= len(choices)
        if count > MOST:
            raise _too_many(written)
        pieces += [[word[end : match.start()]], choices]
        end = match.end()
    return map("".join, product(*pieces, [word[end:]]))


def _of_slurm(match: re.Match[str]) -> Iterator[str]:
    for part in match[1].split(","):
        numbers = _NUMBERS.fullmatch(part.strip())
        if numbers is None:
            raise ValueError(invalid(match[0], "numbers such as [001-100,7]"))
        yield from _numbers(numbers[1], numbers[2] or numbers[1], 1, match[0])


def _of_ansible(match: re.Match[str]) -> Iterator[str]:
    first, last, step = match[1], match[2], int(match[3] or 1)
    if first.isdecimal() and last.isdecimal():
        yield from _numbers(first, last, step, match[0])
        return
    letters = "abcdefghijklmnopqrstuvwxyz"
    both = letters if first in letters and last in letters else letters.upper()
    if len(first) != 1 or len(last) != 1 or not (first in both and last in both) or not step:
        raise ValueError(invalid(match[0], "two numbers or two letters, such as [01:50] or [a:f]"))
    if both.index(first) > both.index(last):
        raise ValueError(invalid(match[0], "the lower end first"))
    yield from both[both.index(first) : both.index(last) + 1 : step]


def _numbers(first: str, last: str, step: int, written: str) -> Iterator[str]:
    padded = len(first) > 1 and first.startswith("0")
    if padded and len(last) < len(first):
        raise ValueError(invalid(written, "ends with as many digits"))
    if int(first) > int(last) or not step:
        raise ValueError(invalid(written, "the lower end first"))
    for number in range(int(first), int(last) + 1, step):
        yield str(number).zfill(len(first) if padded else 0)
