"""Options that commands of models share: loads, times, percentiles; and what is wrong with them, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import click

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.quantity import Kind, parse_exact

Read = Callable[[click.Context, click.Parameter, Any], Any]

MOST_LOADS = 10_000
"""Chosen: what a table or a figure can still use; a range with a mistyped step is millions."""


def numbers(kind: Kind | None = None) -> Read:
    """Reads numbers with commas between them, and ranges `first:last:step` with both ends: `0,.2,.4` or `0:.9:.1`.

    Quantities come in their base unit. Raises ExperimentError with the option as its place.
    """

    def read(
        _ctx: click.Context, option: click.Parameter, written: str | None
    ) -> tuple[Fraction, ...] | None:
        if written is None:
            return None
        where = option.opts[0]
        found = [number for part in written.split(",") for number in _part(part.strip(), kind, where)]
        if len(found) > MOST_LOADS:
            raise ExperimentError(
                f"invalid value: {len(found)} numbers; expected {MOST_LOADS} at most", where=where
            )
        return tuple(found)

    return read


def seconds(_ctx: click.Context, option: click.Parameter, written: str | None) -> float | None:
    """Reads a time with its unit, such as 127us, in seconds. Raises ExperimentError with the option as its place."""
    if written is None:
        return None
    return float(quantity_of("duration", written, option.opts[0]) / 10**9)


def _part(part: str, kind: Kind | None, where: str) -> list[Fraction]:
    bounds = part.split(":")
    if len(bounds) == 1:
        return [_one(part, kind, where)]
    if len(bounds) != 3:
        raise ExperimentError(
            invalid(part, "a number, or a range FIRST:LAST:STEP"), where=where, advice="0:.9:.1"
        )
    first, last, step = (_one(bound, kind, where) for bound in bounds)
    if step <= 0 or last < first:
        raise ExperimentError(
            invalid(part, "a range that rises by a step above 0"), where=where, advice="0:.9:.1"
        )
    count = (last - first) // step + 1
    if count > MOST_LOADS:
        raise ExperimentError(f"invalid value: {count} numbers; expected {MOST_LOADS} at most", where=where)
    return [first + index * step for index in range(int(count))]


def _one(written: str, kind: Kind | None, where: str) -> Fraction:
    if kind:
        return quantity_of(kind, written, where)
    try:
        # By float first: 1e400 is none, and a fraction with a billion digits takes the memory of the machine.
        if not math.isfinite(float(written)):
            raise ValueError
        return Fraction(written)
    except (ValueError, ZeroDivisionError):
        raise ExperimentError(
            invalid(written, "numbers with commas between them, or FIRST:LAST:STEP"),
            where=where,
            advice="0,.2,.4,.6,.8 or 0:.9:.1",
        ) from None


def quantity_of(kind: Kind, written: str, where: str) -> Fraction:
    """A quantity in its base unit. Raises ExperimentError with the option as its place."""
    try:
        return parse_exact(kind, written.strip())
    except ValueError as problem:
        lacks = kind == "duration" and "a unit is missing" in str(problem)
        raise ExperimentError(
            str(problem), where=where, advice=f"{where} {written.strip()}us" if lacks else ""
        ) from None


def whole(found: tuple[Fraction, ...], where: str) -> list[int]:
    """Whole numbers. Raises ExperimentError for another one."""
    for number in found:
        if number.denominator != 1:
            raise ExperimentError(invalid(float(number), "whole numbers"), where=where)
    return [int(number) for number in found]


def open_load(command: Callable[..., Any]) -> Callable[..., Any]:
    """--utilisation or --rate: what is offered."""
    utilisation = click.option(
        "--utilisation", "--utilization", "utilisations", callback=numbers(), metavar="LIST",
        help="Offered load as a share of all servers: 0,.2,.4 or 0:.9:.1.",
    )  # fmt: skip
    rate = click.option(
        "--rate", "rates", callback=numbers("rate"), metavar="LIST",
        help="Offered load in arrivals per second, instead: 20k/s, or 1000:9000:1000.",
    )  # fmt: skip
    return utilisation(rate(command))


def arrivals_per_s(
    utilisations: tuple[Fraction, ...] | None,
    rates: tuple[Fraction, ...] | None,
    service_s: float,
    servers: int = 1,
) -> list[float]:
    """The loads in arrivals per second. Raises ExperimentError unless just one of the two options is there."""
    if (utilisations is None) == (rates is None):
        both = rates is not None
        what = (
            "--utilisation cannot be used with --rate" if both else "missing option --utilisation or --rate"
        )
        raise ExperimentError(what, advice="--utilisation .5,.8 or --rate 20k/s")
    if rates is not None:
        return [float(rate) for rate in rates]
    assert utilisations is not None
    if min(utilisations) < 0:
        raise ExperimentError(invalid(float(min(utilisations)), "0 or more"), where="--utilisation")
    if service_s <= 0 or servers < 1:
        # The model says what is wrong with them; no load can be made of them here.
        return [0.0]
    return [float(share * servers) / service_s for share in utilisations]


percentiles = click.option(
    "--percentiles", "percents", callback=numbers(), default="50,99", show_default=True, metavar="LIST",
    help="Percentiles of response and waiting time, in per cent.",
)  # fmt: skip


def quantiles(percents: tuple[Fraction, ...]) -> dict[str, float]:
    """Names such as p99.9 and their quantiles as ratios. Raises ExperimentError for one outside (0, 100)."""
    for percent in percents:
        if not 0 < percent < 100:
            raise ExperimentError(
                invalid(float(percent), "per cent between 0 and 100, without both"),
                where="--percentiles",
                advice="50,99,99.9",
            )
    return {f"p{float(percent):.12g}": float(percent / 100) for percent in percents}
