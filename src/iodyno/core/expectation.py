"""What a user expects of an outcome, such as `goodput >= 10Gbit/s`: the gate of a build or of a nightly run.

>>> parse("goodput >= 10Gbit/s")
Expectation(outcome='goodput_bits_per_s', relation='>=', bound=10000000000.0, text='goodput >= 10Gbit/s')
>>> parse("p99.9 <= 1.5 ms", "disk", opened=True)
Expectation(outcome='response_time_p999_ns', relation='<=', bound=1500000.0, text='p99.9 <= 1.5 ms')
>>> [parse(f"client.cpu_ns_per_operation < {bound}").bound for bound in ("20us", "20 us/operation", "20000")]
[20000.0, 20000.0, 20000.0]
>>> parse("client.cpu_ns_per_kib < 900").met(850.0), parse("p99 <= 1ms").met(1_200_000.0), parse("loss <= 1%").met(0.01)
(True, False, True)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from iodyno.core import quantity
from iodyno.core.invalid import invalid
from iodyno.core.outcome import OUTCOMES
from iodyno.core.outcome_kind import OutcomeKind

_NAMES: Mapping[str, Mapping[str, str]] = {
    "tcp": {"goodput": "goodput_bits_per_s", "throughput": "goodput_bits_per_s", "loss": "loss_ratio"},
    "rr": {"goodput": "goodput_bits_per_s", "exchanges": "operations_per_s", "loss": "loss_ratio"},
    "disk": {"throughput": "bytes_per_s", "iops": "iops"},
}
_TIMES = {
    "tcp": ("write_service_time_{}_ns", "response_time_{}_ns"),
    "rr": ("latency_{}_ns", "latency_from_schedule_{}_ns"),
    "disk": ("service_time_{}_ns", "response_time_{}_ns"),
}
"""Times of an operation that a load reports: in a closed loop, and in an open one, where they count from when it was due."""
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_TIME_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_UNITS: Mapping[str, Mapping[str, int]] = {
    "bit/s": {f"{letter}bit/s": 1000**power for power, letter in enumerate(("", "k", "M", "G", "T"))},
    "B/s": {f"{letter}B/s": 1000**power for power, letter in enumerate(("", "k", "M", "G", "T"))}
    | {f"{letter}iB/s": 1024**power for power, letter in enumerate("KMGT", start=1)},
    "1/s": {"/s": 1, "k/s": 10**3, "M/s": 10**6, "G/s": 10**9},
    "ns": _TIME_UNITS,
}
"""Units that a bound must have, by that of the outcome, and how much of it each is: those that reports show, and their like."""
_KINDS: Mapping[str, quantity.Kind] = {"bit/s": "bit_rate", "1/s": "rate", "ns": "duration"}
"""What else people write, in the words of an experiment's file."""
_WRITTEN = re.compile(r"\s*(?P<name>[a-z][A-Za-z0-9_.-]*)\s*(?P<relation>>=|<=|>|<|=)\s*(?P<bound>\S.*?)\s*")
_BOUND = re.compile(r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?)\s*(\D*)")
FORM = "an outcome, one of >= <= > < =, and a bound, such as 'goodput >= 10Gbit/s', 'p99 <= 1ms' or 'client.cpu_ns_per_kib < 900'"


@dataclass(frozen=True)
class Expectation:
    """A bound of an outcome, in its unit; `text` is how it was written."""

    outcome: str
    relation: str
    bound: float
    text: str

    def met(self, estimate: float) -> bool:
        """Tell whether a value is as expected."""
        return _RELATIONS[self.relation](estimate, self.bound)


def short_names(load: str, *, opened: bool = False) -> dict[str, str]:
    """Return the short names of outcomes of `iodyno tcp`, `rr` or `disk`; `opened`: in an open loop.

    >>> short_names("disk")["p99"], short_names("rr")["p99"], "p90" in short_names("tcp")
    ('service_time_p99_ns', 'latency_p99_ns', False)
    """
    # Of connections in a closed loop there is no 90th percentile.
    named = (
        ("mean", "p50", "p90", "p99", "p999") if opened or load == "disk" else ("mean", "p50", "p99", "p999")
    )
    times = {name: _TIMES[load][opened].format(name) for name in named}
    return {**_NAMES[load], **times, "p99.9": times["p999"]}


def parse(written: str, load: str = "tcp", *, opened: bool = False) -> Expectation:
    """The expectation in the text, of what a load reports. Raises ValueError with what was found and what is expected."""
    match = _WRITTEN.fullmatch(written) if len(written) < 200 else None
    if match is None:
        raise ValueError(invalid(written, FORM))
    names = short_names(load, opened=opened)
    outcome = names.get(match["name"], match["name"])
    known = OUTCOMES.get(outcome.rpartition(".")[2])
    if known is None:
        raise ValueError(
            f"unknown outcome {match['name']!r}: expected {', '.join(names)}, or one that reports name"
        )
    text = " ".join(written.split())
    return Expectation(outcome, match["relation"], float(_bound(match["bound"], known)), text)


def _bound(written: str, known: OutcomeKind) -> Fraction:
    """The bound in the unit of the outcome. One without a unit is refused where that leaves open how much is meant."""
    match = _BOUND.fullmatch(written)
    number, unit = (Fraction(match[1]), match[2]) if match else (None, "")
    units, example = _units(known)
    if number is not None and number < 0 and known.possible[0] is not None:
        raise ValueError(invalid(written, "0 or more"))
    if number is not None and unit in units:
        share = known.name.endswith("_ratio") and known.possible[1] == 1
        if share and not unit and number >= 1:
            meant = f"; did you mean {match[1]}%?" if match and number <= 100 else ""
            raise ValueError(invalid(written, f"a share such as 1% or 0.01{meant}"))
        return number * units[unit]
    if number is not None and not unit:
        listed = ", ".join(units)
        raise ValueError(
            f"invalid value {written!r}: a unit is missing; expected one of {listed}, such as {example}"
        )
    if known.unit in _KINDS:
        return quantity.parse_exact(_KINDS[known.unit], written)
    raise ValueError(
        invalid(written, f"a number with one of {', '.join(filter(None, units))}, such as {example}")
    )


def _units(known: OutcomeKind) -> tuple[Mapping[str, Fraction | int], str]:
    """Units of a bound of this outcome, each as so many of the outcome's own, and an example. The empty one, a number alone, is
    what the name of the outcome says.
    """
    if known.unit in _UNITS:
        units = _UNITS[known.unit]
        bare = {"": 1} if known.name.endswith("iops") else {}
        examples = {"bit/s": "10Gbit/s", "B/s": "500MB/s", "1/s": "20k/s", "ns": "1ms"}
        return {**bare, **units}, examples[known.unit]
    if known.unit == "1":
        return {"": 1, "%": Fraction(1, 100)}, "1%"
    if known.unit == "B":
        return {
            unit: factor for unit in quantity.units("size") if (factor := quantity.parse("size", f"1{unit}"))
        }, "64KiB"
    first, _, per = known.unit.partition("/")
    if first in _TIME_UNITS:
        times = {unit: Fraction(each, _TIME_UNITS[first]) for unit, each in _TIME_UNITS.items()}
        return {"": 1, **times, **{f"{unit}/{per}": each for unit, each in times.items()}}, f"20us/{per}"
    return {"": 1, known.unit: 1}, f"20 {known.unit}"
