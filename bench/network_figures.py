"""What the measurements of `bench.network` come to, each against the bar that is set for it: values in, rows out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from bench.ratio import paired

SIZES = (1024, 8192, 65536)
CONNECTIONS = (1, 4, 32, 100, 1000)
FLOWS = (1, 16, 64)

SAME: Mapping[str, tuple[str, ...]] = {
    "bulk": ("threads", "epoll", "round robin"),
    "tcp-rr": ("threads", "epoll"),
    "udp-rr": ("threads", "epoll"),
    "udp-send": ("read_write",),
}
"""Which of ours make the peers' own calls, by kind of cell."""
RINGS, SEGMENTS = ("packet", "xdp"), ("segments",)

Series = Mapping[str, Mapping[str, Sequence[float]]]
Rows = list[dict[str, object]]


@dataclass(frozen=True)
class Cell:
    """One cell: of each side and quantity (`rate`, `cost`) what was measured, in the order in which it was."""

    name: str
    ours: Series
    peers: Series

    @classmethod
    def of(cls, name: str, kept: Mapping[str, Any]) -> Self:
        """As it was kept."""
        return cls(name, kept["ours"], kept["peers"])

    @property
    def kind(self) -> str:
        """`bulk`, `tcp-rr`, `udp-rr` or `udp-send`."""
        return self.name.rpartition("-")[0]

    def best(self, sides: Series, names: Sequence[str] | None = None, quantity: str = "rate") -> str | None:
        """Who of these has the best median: the greatest rate, the least cost. None: nobody is there."""
        there = [name for name in (sides if names is None else names) if sides.get(name, {}).get(quantity)]
        if not there:
            return None
        return (max if quantity == "rate" else min)(
            there, key=lambda n: statistics.median(sides[n][quantity])
        )


@dataclass(frozen=True)
class _Bar:
    """A figure to reach: a ratio of ours to the best peer's, `least` or (for a cost) `most`."""

    figure: str
    least: float | None = None
    most: float | None = None

    def row(self, cell: str, ours: str, peer: str, ratio: tuple[float, float, float]) -> dict[str, object]:
        """The figure with its verdict.

        `met` and `missed` are said where all pairs agree; else the median decides, and that it is not sure is said.
        """
        median, low, high = ratio
        reached = self._reached(median)
        sure = self._reached(low) == self._reached(high)
        verdict = ("met" if reached else "missed") + ("" if sure else " by the median, not by every pair")
        bar = f">= {self.least:g}" if self.least is not None else f"<= {self.most:g}"
        return {
            "cell": cell,
            "figure": self.figure,
            "ours": ours,
            "peer": peer,
            "ratio": round(median, 3),
            "least": round(low, 3),
            "greatest": round(high, 3),
            "bar": bar,
            "verdict": verdict,
        }

    def _reached(self, ratio: float) -> bool:
        return ratio >= self.least if self.least is not None else ratio <= (self.most or 0.0)


_GOODPUT_SAME = _Bar("goodput, same calls", least=1.0)
_COST_OF_MOST = _Bar("CPU per GB, same calls, who moves most", most=1.0)
_COST_OF_LEAST = _Bar("CPU per GB, same calls, who needs least", most=1.0)
_GOODPUT_BEST = _Bar("goodput, best system calls, geometric mean over cells", least=1.25)
_RR_SAME = _Bar("exchanges/s, same calls", least=1.0)
_RR_BEST = _Bar("exchanges/s, best system calls", least=1.2)
_SENT_SAME = _Bar("datagrams/s, plain sockets", least=1.0)
_SENT_RINGS = _Bar("datagrams/s, packet rings or AF_XDP", least=2.0)
_SENT_SEGMENTS = _Bar("datagrams/s, segmentation offload", least=3.0)


def figures(cells: Mapping[str, Cell]) -> Rows:
    """Every figure of the cells that are there, in the order of the cells, and the mean over the bulk ones last."""
    rows: Rows = []
    for cell in cells.values():
        rows += _of_cell(cell)
    rows += _over_bulk([cell for cell in cells.values() if cell.kind == "bulk"])
    return rows or [
        {"cell": "-", "figure": "no cell has a peer and a measurement of ours", "verdict": "open"}
    ]


def _of_cell(cell: Cell) -> Iterator[dict[str, object]]:
    same = SAME[cell.kind]
    if cell.kind == "bulk":
        yield from _row(cell, _GOODPUT_SAME, same)
        yield from _row(cell, _COST_OF_MOST, same, "cost", chosen_by="rate")
        yield from _row(cell, _COST_OF_LEAST, same, "cost", chosen_by="cost")
    elif cell.kind in ("tcp-rr", "udp-rr"):
        yield from _row(cell, _RR_SAME, same)
        yield from _row(cell, _RR_BEST, None)
    else:
        yield from _row(cell, _SENT_SAME, same)
        yield from _row(cell, _SENT_RINGS, [name for name in cell.ours if name.startswith(RINGS)])
        yield from _row(cell, _SENT_SEGMENTS, SEGMENTS)


def _row(
    cell: Cell, bar: _Bar, names: Sequence[str] | None, quantity: str = "rate", chosen_by: str = "rate"
) -> Iterator[dict[str, object]]:
    # Both sides are chosen alike: who moves most may need more for a GB than who moves less.
    ours = cell.best(cell.ours, names, chosen_by)
    peer = cell.best(cell.peers, quantity=chosen_by)
    if ours is None or peer is None:
        return
    ratio = paired(cell.ours[ours][quantity], cell.peers[peer][quantity])
    yield bar.row(cell.name, ours, peer, ratio)


def _over_bulk(cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """The geometric mean over the cells, pair by pair: as many means as there are pairs, so that they have a range."""
    series = []
    for cell in cells:
        ours, peer = cell.best(cell.ours), cell.best(cell.peers)
        if ours is not None and peer is not None:
            pairs = zip(cell.ours[ours]["rate"], cell.peers[peer]["rate"], strict=True)
            series.append([mine / theirs for mine, theirs in pairs])
    if not series:
        return
    means = [math.exp(statistics.fmean(map(math.log, ratios))) for ratios in zip(*series, strict=False)]
    whole = math.exp(statistics.fmean(math.log(statistics.median(ratios)) for ratios in series))
    named = f"{len(series)} of {len(SIZES) * len(CONNECTIONS)} bulk cells"
    yield _GOODPUT_BEST.row(named, "each cell's best", "each cell's best", (whole, min(means), max(means)))
