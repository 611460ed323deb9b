"""A queue that was simulated: each number with its interval, for one load or a row for each of several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iodyno.analysis.queueing.simulation import Interval, Simulated
from iodyno.report.form import Block, Row, Shown
from iodyno.report.numbers import digits, three_digits
from iodyno.report.table import Cell, Column, Table

_SHOWN = (
    ("throughput_per_s", "throughput", "/s"),
    ("blocking_ratio", "turned away", "%"),
    ("utilisation", "utilisation", "%"),
    ("waiting_time_s", "mean waiting time", "s"),
    ("response_time_s", "mean response time", "s"),
    ("number_in_system", "mean number in system", ""),
)


def simulated_queue(loads: Sequence[float], found: Sequence[Simulated], seed: int) -> Shown:
    """Return what was found at each of the loads, in arrivals per second."""
    values = [_values(one, seed) for one in found]
    if len(found) == 1:
        return Shown(lambda: _blocks(found[0]), lambda: values[0], lambda: [_row(values[0])])
    values = [{"arrivals_per_s": load, **one} for load, one in zip(loads, values, strict=True)]
    return Shown(lambda: _range_blocks(loads, found), lambda: {"rows": values}, lambda: map(_row, values))


def _values(found: Simulated, seed: int) -> dict[str, Any]:
    def bounds(interval: Interval) -> dict[str, float]:
        return {"value": interval.value, "low": interval.low, "high": interval.high}

    shown: dict[str, Any] = {name: bounds(getattr(found, name)) for name, _, _ in _SHOWN}
    shown |= {f"p{p:g}_s": bounds(interval) for p, interval in found.quantiles_s.items()}
    return shown | {
        "arrivals": found.arrivals,
        "seed": seed,
        "precise": found.precise,
        "method": found.method,
    }


def _row(values: Mapping[str, Any]) -> Row:
    """Return the values as a line of CSV, the bounds of each beside it."""
    row: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            row |= {name: value["value"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        else:
            row[name] = value
    return row


def _named(found: Simulated) -> list[tuple[str, Interval, str]]:
    rows = [(what, getattr(found, name), unit) for name, what, unit in _SHOWN]
    return rows + [(f"response time, p{p:g}", interval, "s") for p, interval in found.quantiles_s.items()]


def _blocks(found: Simulated) -> Iterator[Block]:
    yield _answer(found) + "\n"
    cells = [(what, *_shown(interval, unit)) for what, interval, unit in _named(found)]
    columns = (Column(""), Column("", right=True), Column("95 % interval"))
    yield Table("", columns, tuple(tuple(map(Cell, each)) for each in cells))
    yield f"95 % intervals; {found.method}"
    if not found.precise:
        yield "warning: the intervals are wider than asked for: this load needs longer runs than are made"


def _answer(found: Simulated) -> str:
    """State the rate, and what a request takes."""
    rate, mean = (
        " ".join(_shown(interval, unit))
        for interval, unit in ((found.throughput_per_s, "/s"), (found.response_time_s, "s"))
    )
    longest = max(found.quantiles_s, default=None)
    more = (
        "" if longest is None else f", its p{longest:g} {' '.join(_shown(found.quantiles_s[longest], 's'))}"
    )
    return f"At a throughput of {rate} the mean response time is {mean}{more}."


def _range_blocks(loads: Sequence[float], found: Sequence[Simulated]) -> Iterator[Block]:
    """Yield a row for each load."""
    means = [" ".join(_shown(one.response_time_s, "s")) for one in (found[0], found[-1])]
    ends = f"From {three_digits(loads[0])}/s to {three_digits(loads[-1])}/s"
    yield f"{ends} the mean response time goes from {means[0]} to {means[1]}.\n"
    heads = ("arrivals", *(what for what, _, _ in _named(found[0])))
    rows = (
        (f"{three_digits(load)}/s", *(" ".join(_shown(interval, unit)) for _, interval, unit in _named(one)))
        for load, one in zip(loads, found, strict=True)
    )
    yield Table("", tuple(map(Column, heads)), tuple(tuple(map(Cell, row)) for row in rows))
    yield f"95 % intervals; {found[0].method.partition(';')[0]}"
    if wide := [f"{three_digits(load)}/s" for load, one in zip(loads, found, strict=True) if not one.precise]:
        yield f"warning: the intervals at {', '.join(wide)} are wider than asked for: longer runs are not made"


def _shown(interval: Interval, unit: str) -> tuple[str, str]:
    factor, name = 1.0, unit
    if unit == "%":
        factor, name = 100.0, " %"
    elif unit == "s":
        factor, name = next(
            (scale, f" {short}")
            for scale, short, least in (
                (1.0, "s", 1.0),
                (1e3, "ms", 1e-3),
                (1e6, "us", 1e-6),
                (1e9, "ns", 0.0),
            )
            if interval.value >= least
        )
    low, value, high = (
        three_digits(bound * factor) for bound in (interval.low, interval.value, interval.high)
    )
    if low == high and interval.low != interval.high:
        # So narrow that its bounds need more.
        half = factor * (interval.high - interval.low) / 2
        low, value, high = (
            digits(bound * factor, half) for bound in (interval.low, interval.value, interval.high)
        )
    return f"{value}{name}", f"[{low}, {high}]"
