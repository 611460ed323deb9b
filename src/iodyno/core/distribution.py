"""Sizes, arrivals and places that are drawn, as people write them: `uniform(64, 9000)`, `mix(64B: 7, 1500B: 1)`,
`trace(file)`, `zones(5%: 50%, 95%: 50%)`.

>>> parse_sizes("exponential(1KiB, most=64KiB)")
Sizes(law='exponential', values=(1024, 65536), weights=(), file=None)
>>> parse_sizes("mix(1500B: 1, 64: 7)").text, parse_sizes("mix(1500B: 1, 64: 7)").greatest
('mix(1500B: 1, 64B: 7)', 1500)
>>> parse_zones("zones(5%: 50%, 15%: 30%, 80%: 20%)")
((50000, 500000), (150000, 300000), (800000, 200000))
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from iodyno.core import quantity
from iodyno.core.invalid import invalid

LARGEST = 2**30
"""Largest message: what one write may hand to the kernel (agent/core/src/job.rs)."""
_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_ZONES = "zones(5%: 50%, 15%: 30%, 80%: 20%), the share of the space and that of the operations of each"
_WHOLE = 10**6
_FORMS = "uniform(64, 9000), exponential(1KiB, most=64KiB), mix(64B: 7, 1500B: 1), trace(file)"


@dataclass(frozen=True)
class Sizes:
    """A law of message sizes in bytes.

    `values`: least and greatest (uniform), mean and greatest (exponential), or the sizes of a mix, with their `weights`.
    A trace's are those in `file`, one a line.
    """

    law: str
    values: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    file: str | None = None

    @property
    def greatest(self) -> int | None:
        """The greatest size that may be drawn; None: the file of the trace says it."""
        return max(self.values) if self.values else None

    @property
    def text(self) -> str:
        """As people write it."""
        shown = [quantity.show("size", value) for value in self.values]
        if self.law == "exponential":
            return f"exponential({shown[0]}, most={shown[1]})"
        if self.law == "mix":
            parts = (f"{size}: {weight}" for size, weight in zip(shown, self.weights, strict=True))
            return f"mix({', '.join(parts)})"
        return f"{self.law}({', '.join(shown) if self.file is None else self.file})"


def parse_sizes(written: str) -> Sizes:
    """The law of sizes. Raises ValueError with what was found and what is allowed."""
    law, inside = _call(written, _FORMS)
    parts = [part.strip() for part in inside.split(",")]
    if law == "trace":
        return Sizes(law, file=_file(written, inside))
    if law == "uniform" and len(parts) == 2:
        least, greatest = (_size(written, part) for part in parts)
        if least > greatest:
            raise ValueError(f"invalid value {written!r}: the least size is above the greatest")
        return Sizes(law, (least, greatest))
    if law == "exponential" and len(parts) == 2 and parts[1].replace(" ", "").startswith("most="):
        mean, most = _size(written, parts[0]), _size(written, parts[1].partition("=")[2])
        if mean > most:
            raise ValueError(f"invalid value {written!r}: the mean is above the greatest size")
        return Sizes(law, (mean, most))
    if law == "mix" and all(":" in part for part in parts):
        pairs = [part.partition(":") for part in parts]
        weights = tuple(quantity.parse("count", weight.strip()) for _, _, weight in pairs)
        if not any(weights) or max(weights) >= 2**32:
            raise ValueError(invalid(written, "weights of 0 to 2^32 - 1, not all of them 0"))
        return Sizes(law, tuple(_size(written, size) for size, _, _ in pairs), weights)
    raise ValueError(invalid(written, _FORMS))


def checked_sizes(written: str) -> str:
    """The text of the law in its usual form. Raises ValueError like `parse_sizes`."""
    return parse_sizes(written).text


def trace_file(written: str) -> str | None:
    """The file of `trace(file)`; None when the text is nothing of that kind."""
    match = _CALL.fullmatch(written)
    return _file(written, match[2]) if match is not None and match[1] == "trace" else None


def checked_arrivals(written: str) -> str:
    """`trace(file)` in its usual form. Raises ValueError with what is allowed."""
    file = trace_file(written)
    if file is None:
        raise ValueError(invalid(written, "trace(file)"))
    return f"trace({file})"


def parse_zones(written: str) -> tuple[tuple[int, int], ...]:
    """The zones of a working set, in order: their shares of the space and of the operations, in millionths.

    Raises ValueError with what was found and what is allowed.
    """
    law, inside = _call(written, _ZONES)
    pairs = [part.partition(":") for part in inside.split(",")]
    if law != "zones" or not all(colon for _, colon, _ in pairs):
        raise ValueError(invalid(written, _ZONES))
    zones = tuple(
        (quantity.parse("share", space.strip()), quantity.parse("share", operations.strip()))
        for space, _, operations in pairs
    )
    for name, shares in zip(("space", "operations"), zip(*zones, strict=True), strict=True):
        if sum(shares) != _WHOLE:
            raise ValueError(
                f"invalid value {written!r}: the shares of {name} are "
                f"{quantity.show('share', sum(shares))}; expected 100%"
            )
    if not all(space for space, _ in zones):
        raise ValueError(f"invalid value {written!r}: a zone without space")
    return zones


def checked_zones(written: str) -> str:
    """Zones in their usual form. Raises ValueError like `parse_zones`."""
    show = partial(quantity.show, "share")
    return f"zones({', '.join(f'{show(space)}: {show(share)}' for space, share in parse_zones(written))})"


def _call(written: str, forms: str) -> tuple[str, str]:
    match = _CALL.fullmatch(written)
    if match is None:
        raise ValueError(invalid(written, forms))
    return match[1], match[2]


def _file(written: str, inside: str) -> str:
    file = inside.strip().strip("'\"")
    if not file:
        raise ValueError(f"invalid value {written!r}: the file of the trace is missing")
    return file


def _size(written: str, part: str) -> int:
    size = quantity.parse("size", part.strip())
    if not 1 <= size <= LARGEST:
        raise ValueError(invalid(written, "sizes of 1B to 1GiB"))
    return size
