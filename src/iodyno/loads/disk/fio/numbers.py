"""Numbers as fio writes them: sizes, durations, ranges, shares, and arithmetic in brackets.

As fio reads them: `k`, `kb` and `ki` are kb_base, `kib` is the other of 1000 and 1024 ("If kb_base is 1024, use opposite
units", parse.c); a number may be hexadecimal; durations without a unit are seconds, or what the option says.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

from iodyno.core.invalid import found, invalid

_SIZE = re.compile(r"(\d+)([kmgtp]?)(i?)(b?)|(0x[0-9a-f]+)", re.IGNORECASE)
_TERM = re.compile(r"(\d+(?:\.\d+)?|\.\d+)([kmgtp]?)(i?)(b?)|(0x[0-9a-f]+)", re.IGNORECASE)
"""Of arithmetic in brackets, which has fractions, too."""
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_TIMES_NS = {
    "d": 86_400 * 10**9, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000,
    "msec": 10**6, "usec": 1000,
}  # fmt: skip
MOST = 1 << 62
_MAX_TERMS = 200


def size(written: str, kb_base: int = 1024) -> int:
    """Bytes. Raises ValueError, also for what fio takes and reads as something else than it says: of `1.5m` it reads the 1.

    >>> size("4k"), size("1G"), size("0x1000"), size("4k", 1000), size("(4k*3)"), size("(1.5*1m)")
    (4096, 1073741824, 4096, 4000, 12288, 1572864)
    >>> size("4ki"), size("4kib"), size("4ki", 1000), size("4kib", 1000)
    (4096, 4000, 4000, 4096)
    """
    text = written.strip()
    if text.startswith("("):
        # Within brackets a k is 1024 in any case (exp/expression-parser.l of fio).
        return _checked(computed(text, lambda term: _bytes(_TERM, term, 1024)), written)
    if _SIZE.fullmatch(text) is None:
        raise ValueError(
            f"invalid value {found(written)}{_read_as(text)} expected a size such as 4k, 1536k or 10g"
        )
    return _checked(_bytes(_SIZE, text, kb_base), written)


def _bytes(pattern: re.Pattern[str], text: str, kb_base: int) -> float:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError
    digits, unit, binary, of_bytes, hexadecimal = match.groups()
    if hexadecimal:
        return int(hexadecimal, 16)
    factor = 2024 - kb_base if binary and of_bytes else kb_base
    unit_bytes: int = factor ** _POWERS[unit.lower()]
    return (float(digits) if "." in digits else int(digits)) * unit_bytes


def _read_as(text: str) -> str:
    """State fio's reading of a number behind which is nothing that it looks at (`str_to_decimal` of its parse.c), in words."""
    match = re.match(r"(0x[0-9a-f]+)|(\d+)(?![kmgtp%\d])", text, re.IGNORECASE)
    return f": it is {int(match[0], 16 if match[1] else 10)} to fio;" if match else ":"


def opposite(written: str, kb_base: int = 1024) -> bool:
    """Tell whether units such as kib, which are powers of 1000 where kb_base is 1024, stand in it.

    >>> opposite("4kib"), opposite("4KiB,8k"), opposite("4k"), opposite("4kib", 1000)
    (True, True, False, False)
    """
    return kb_base == 1024 and re.search(r"\d[kmgtpe]ib", written, re.IGNORECASE) is not None


def _checked(value: float, written: str) -> int:
    if not 0 <= value <= MOST:
        raise ValueError(invalid(written, "0 to 2^62"))
    return int(value)


def count(written: str, kb_base: int = 1024) -> int:
    """A whole number, which may have a unit: 10k are 10240, as fio has it. Raises ValueError.

    >>> count("10k"), count("10k", 1000)
    (10240, 10000)
    """
    try:
        if "." in written:
            raise ValueError  # of which fio takes what stands before the point: 0.5 of a rate is 0, which is no limit
        return size(written, kb_base)
    except ValueError:
        raise ValueError(invalid(written, "a whole number")) from None


def duration_ns(written: str, unit: str = "s") -> int:
    """Nanoseconds; a bare number counts in `unit`. Raises ValueError.

    >>> duration_ns("30"), duration_ns("2m"), duration_ns("500ms"), duration_ns("100", "us")
    (30000000000, 120000000000, 500000000, 100000)
    """
    text = written.strip().lower()
    if text.startswith("("):
        return _computed_ns(text, unit, written)
    match = re.fullmatch(r"(\d+)([a-z]*)", text)
    if match is None or (match[2] and match[2] not in _TIMES_NS):
        raise ValueError(
            f"invalid value {found(written)}{_time_read_as(text, unit)} expected a duration such "
            "as 30, 90s, 5m or 500ms"
        )
    return _checked(int(match[1]) * _TIMES_NS[match[2] or unit], written)


def _computed_ns(text: str, unit: str, written: str) -> int:
    """Arithmetic of times: in microseconds where a unit stands in it, and whole seconds of an option that counts those."""

    def term(each: str) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)([a-z]*)", each)
        if match is None or (match[2] and match[2] not in ("d", "h", "m", "s", "ms", "us")):
            raise ValueError
        return (float(match[1]) if "." in match[1] else int(match[1])) * (_TIMES_NS[match[2] or "us"] // 1000)

    times = 1 if re.search(r"\d[a-z]", text) else _TIMES_NS[unit] // 1000
    found_us = int(computed(text, term) * times)
    return _checked(found_us // 10**6 * 10**9 if unit == "s" else found_us * 1000, written)


def _time_read_as(text: str, unit: str) -> str:
    """State fio's reading of a time that is none (`get_mult_time` of its parse.c), in words."""
    match = re.match(r"(\d+)([a-z]?)([a-z]?)", text)
    if match is None:
        return ":"
    as_if = "ms" if match[2] + match[3] == "ms" else "us" if match[2] else unit
    return f": it is {match[1]}{as_if} to fio;"


def switch(written: str) -> bool:
    """0 or 1. A key without a value is 1. Raises ValueError."""
    if written.strip().lower() in ("", "1", "true", "yes", "on"):
        return True
    if written.strip().lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(invalid(written, "0, 1"))


def percent(written: str) -> float:
    """A share in percent. Raises ValueError."""
    text = written.strip().removesuffix("%").strip()
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise ValueError(invalid(written, "0 to 100"))
    return value


def whole_percent(written: str) -> float:
    """A share in percent of an option that is a whole number to fio: of `70.5` it reads 70, of `70%` nothing. Raises ValueError.

    >>> whole_percent("70")
    70.0
    """
    if not re.fullmatch(r"\s*\d+\s*", written):
        raise ValueError(invalid(written, "0 to 100, a whole number without a sign, as fio reads no other"))
    return percent(written)


def split(written: str, kb_base: int = 1024) -> list[tuple[int, float]]:
    """`bssplit`: sizes with their shares in percent; those without one share what is left. Raises ValueError.

    >>> split("4k/10:64k/50:32k/")
    [(4096, 10.0), (65536, 50.0), (32768, 40.0)]
    """
    pairs: list[tuple[int, float | None]] = []
    for entry in written.split(":"):
        text, _, share = entry.partition("/")
        pairs.append((size(text, kb_base), percent(share) if share.strip() else None))
    given = sum(share for _, share in pairs if share is not None)
    open_ones = sum(1 for _, share in pairs if share is None)
    if given > 100.0001 or (not open_ones and abs(given - 100) > 1):
        raise ValueError(f"invalid value: shares that add up to {given:g} %; expected 100 %")
    rest = (100 - given) / open_ones if open_ones else 0.0
    return [(each, rest if share is None else share) for each, share in pairs]


def zones(written: str) -> list[tuple[float, float]]:
    """`random_distribution=zoned:`: (accesses, space) of each zone in percent; without space: of what is left. Raises ValueError.

    >>> zones("50/5:30/15:20/")
    [(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]
    """
    pairs = [(entry.partition("/")[0], entry.partition("/")[2].strip()) for entry in written.split(":")]
    given = [(percent(accesses), percent(space) if space else None) for accesses, space in pairs]
    taken = sum(space for _, space in given if space is not None)
    open_ones = sum(1 for _, space in given if space is None)
    all_zones = [
        (accesses, (100 - taken) / open_ones if space is None else space) for accesses, space in given
    ]
    for name, shares in zip(("accesses", "space"), zip(*all_zones, strict=True), strict=True):
        if abs(sum(shares) - 100) > 1e-6 or min(shares) < 0:
            raise ValueError(
                f"invalid value {found(written)}: the {name} of all zones are {sum(shares):g} %; expected 100 %"
            )
    if not all(space for _, space in all_zones):
        raise ValueError(f"invalid value {found(written)}: a zone without space")
    return all_zones


def _divided(one: float, other: float) -> float:
    """As C has it: whole where both are."""
    return one // other if isinstance(one, int) and isinstance(other, int) else one / other


_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: _divided,
    ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


def computed(written: str, term: Callable[[str], float]) -> float:
    """Arithmetic with + - * / % and brackets over terms with units. Raises ValueError."""
    terms: dict[str, float] = {}

    def named(match: re.Match[str]) -> str:
        name = f"t{len(terms)}_"
        terms[name] = term(match[0])
        return name

    if len(written) > _MAX_TERMS:
        raise ValueError(invalid(written, "a shorter expression"))
    plain = re.sub(r"(?<![\w.])(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?[A-Za-z]*)", named, written)
    try:
        value = _value(ast.parse(plain, mode="eval").body, terms)
    except (SyntaxError, KeyError, ZeroDivisionError, OverflowError, MemoryError, RecursionError, ValueError):
        raise ValueError(invalid(written, "numbers with + - * / % and brackets")) from None
    return value


def _value(node: ast.expr, terms: Mapping[str, float]) -> float:
    if isinstance(node, ast.Name):
        return terms[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, terms), _value(node.right, terms))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, terms)
    raise ValueError
