"""What a user expects of an outcome, such as `goodput >= 10Gbit/s`: the gate of a build or of a nightly run.

>>> parse("goodput >= 10Gbit/s")
Expectation(outcome='goodput_bits_per_s', relation='>=', bound=10000000000.0, text='goodput >= 10Gbit/s')
>>> parse("client.cpu_ns_per_kib < 900").met(850.0), parse("p99 <= 1ms").met(1_200_000.0), parse("loss = 0").met(0.0)
(True, False, True)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iodyno.core import quantity
from iodyno.core.invalid import invalid
from iodyno.core.outcome import OUTCOMES

NAMES: Mapping[str, str] = {
    "goodput": "goodput_bits_per_s",
    "throughput": "goodput_bits_per_s",
    "exchanges": "operations_per_s",
    "iops": "iops",
    "loss": "loss_ratio",
    "mean": "latency_mean_ns",
    "p50": "latency_p50_ns",
    "p99": "latency_p99_ns",
    "p999": "latency_p999_ns",
}
"""Short names of outcomes; every other is written as reports have it."""
_RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_KINDS: Mapping[str, tuple[quantity.Kind, float]] = {
    "bit/s": ("bit_rate", 1.0),
    "ns": ("duration", 1.0),
    "1/s": ("rate", 1.0),
    "1": ("share", 1e-6),
}
"""How a bound of an outcome in this unit is written, and what one of it is; of any other unit it is a number."""
_WRITTEN = re.compile(r"\s*(?P<name>[a-z][A-Za-z0-9_.-]*)\s*(?P<relation>>=|<=|>|<|=)\s*(?P<bound>\S.*?)\s*")
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


def parse(written: str) -> Expectation:
    """The expectation in the text. Raises ValueError with what was found and what is expected."""
    match = _WRITTEN.fullmatch(written) if len(written) < 200 else None
    if match is None:
        raise ValueError(invalid(written, FORM))
    outcome = NAMES.get(match["name"], match["name"])
    known = OUTCOMES.get(outcome.rpartition(".")[2])
    if known is None:
        raise ValueError(
            f"unknown outcome {match['name']!r}: expected {', '.join(NAMES)}, or one that reports name"
        )
    kind, one = _KINDS.get(known.unit, (None, 1.0))
    if kind is not None:
        bound = float(quantity.parse(kind, match["bound"])) * one
    else:
        try:
            bound = float(match["bound"])
        except ValueError:
            raise ValueError(invalid(match["bound"], f"a number of {known.unit}")) from None
    return Expectation(outcome, match["relation"], bound, " ".join(written.split()))
