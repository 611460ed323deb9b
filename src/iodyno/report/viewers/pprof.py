"""The profile of pprof (https://github.com/google/pprof/blob/main/proto/profile.proto), gzipped protocol buffers.

Two values a stack: samples, and CPU nanoseconds per MiB delivered (whole numbers, which a KiB would leave too few of), of a
load on disks per 1000 operations.
The owner of a stack is a label, so that `pprof -tagfocus` can keep one.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable

from iodyno.analysis.call_tree import merged_stacks
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.stacks import Function
from iodyno.report.function_tables import OWNER_WORDS, place_of_function

# Numbers of fields in profile.proto.
_SAMPLE_TYPE, _SAMPLE, _MAPPING, _LOCATION, _FUNCTION, _STRINGS, _COMMENT, _DEFAULT = 1, 2, 3, 4, 5, 6, 13, 14


def write(profile: PointProfile, title: str) -> bytes:
    """The profile, compressed; without a time in it, so that it is the same when written again."""
    texts: dict[str, int] = {"": 0}
    functions: dict[Function, int] = {}
    places: dict[str, int] = {}

    def text(written: str) -> int:
        return texts.setdefault(written, len(texts))

    cost, times = ("cpu_per_mib", 1024) if profile.per == "KiB" else ("cpu_per_1000_operations", 1000)
    types = [(text("samples"), text("count")), (text(cost), text("nanoseconds"))]
    out = bytearray()
    for kind, unit in types:
        out += _message(_SAMPLE_TYPE, _number(1, kind) + _number(2, unit))
    for stack in merged_stacks(profile):
        # Locations lead from the innermost frame outwards, and are numbered from 1.
        chain = [functions.setdefault(function, len(functions) + 1) for function in reversed(stack.functions)]
        values = (stack.samples, round(stack.ns_per_kib * times))
        label = _number(1, text("owner")) + _number(2, text(OWNER_WORDS[stack.owner]))
        out += _message(_SAMPLE, _packed(1, chain) + _packed(2, values) + _message(3, label))
    for function, number in functions.items():
        place = places.setdefault(place_of_function(function), len(places) + 1)
        line = _number(1, number)
        out += _message(_LOCATION, _number(1, number) + _number(2, place) + _message(4, line))
        named = _number(1, number) + _number(2, text(function.title)) + _number(3, text(function.title))
        out += _message(_FUNCTION, named + _number(4, text(place_of_function(function))))
    for name, number in places.items():
        # Names are there already: pprof need not look for symbols.
        out += _message(_MAPPING, _number(1, number) + _number(5, text(name)) + _number(7, 1))
    out += _number(_COMMENT, text(title)) + _number(_DEFAULT, types[1][0])
    for written in texts:
        out += _message(_STRINGS, written.encode())
    return gzip.compress(bytes(out), mtime=0)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first (protobuf.dev/programming-guides/encoding)."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(_varint, values)))
