"""Laws of sizes and arrivals as the agent has them (`agent/core/src/arrivals.rs`), with what files of traces hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iodyno.core import quantity
from iodyno.core.distribution import LARGEST, parse_sizes, trace_file
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level

_SECOND_NS = 10**9
TRACE_MOST = 100_000
"""Most lines of a trace (chosen: it travels in the job and is kept in the manifest of every trial)."""
_GAP_MOST_NS = 7 * 86_400 * _SECOND_NS


def arrivals(settings: Mapping[str, Level], seed: int) -> dict[str, Any] | None:
    """The arrivals of an open loop; None: a closed one. A rate alone means constant arrivals.

    `rate` counts operations, and an arrival makes `burst` of them. A trace without a rate keeps its own.
    """
    rate = settings.get("rate")
    law = str(settings.get("arrivals", "closed" if rate is None else "constant"))
    file = trace_file(law)
    if law == "closed":
        return None
    if rate is None and file is None:
        raise PreflightError(
            f"arrivals are {law}, and nothing says how many there are",
            where="workload",
            advice="set `rate`: operations per second",
        )
    described: dict[str, Any]
    period_ns = _SECOND_NS * int(settings.get("burst", 1))
    if file is not None:
        gaps_ns = _numbers(file, "duration", 0, _GAP_MOST_NS)
        if not any(gaps_ns):
            raise PreflightError(
                "all times between arrivals are 0", where=file, advice="at least one is not 0"
            )
        described = {"law": "trace", "gaps_ns": gaps_ns}
        if rate is None:
            rate, period_ns = len(gaps_ns), sum(gaps_ns)
    elif law == "bursty":
        described = {
            "law": "on_off",
            "on_ns": settings.get("on", 10_000_000),
            "off_ns": settings.get("off", 90_000_000),
        }
    else:
        described = {"law": law}
    return {
        "law": described,
        "operations": rate,
        "period_ns": period_ns,
        "per_connection": settings.get("rate_of", "job") == "connection",
        "seed": seed,
    }


def sizes(settings: Mapping[str, Level]) -> tuple[int, dict[str, Any] | None]:
    """The greatest message in bytes, and the law of the sizes where they are not all alike."""
    written = settings.get("sizes")
    if written is None:
        return int(settings["size"]), None
    law = parse_sizes(str(written))
    if law.file is not None:
        listed = _numbers(law.file, "size", 1, LARGEST)
        return max(listed), {"law": "trace", "sizes_bytes": listed}
    greatest = max(law.values)
    described: dict[str, Any]
    if law.law == "mix":
        described = {"law": "mix", "sizes_bytes": list(law.values), "weights": list(law.weights)}
    elif law.law == "uniform":
        described = {"law": "uniform", "least_bytes": law.values[0], "greatest_bytes": greatest}
    else:
        described = {"law": "exponential", "mean_bytes": law.values[0], "greatest_bytes": greatest}
    return greatest, described


def _numbers(file: str, kind: quantity.Kind, low: int, high: int) -> list[int]:
    """The quantities in a file, one a line; empty lines and what follows a `#` are passed over."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PreflightError(
            f"the trace cannot be read: {reason}",
            where=file,
            advice="name a text file with one value a line, from the folder where iodyno runs",
        ) from error
    found = []
    for number, line in enumerate(lines, start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        try:
            value = quantity.parse(kind, text)
        except ValueError as error:
            raise PreflightError(str(error), where=f"{file}, line {number}") from error
        if not low <= value <= high:
            allowed = f"{quantity.show(kind, low)} to {quantity.show(kind, high)}"
            raise PreflightError(f"found {text!r}, allowed: {allowed}", where=f"{file}, line {number}")
        found.append(value)
    if not 1 <= len(found) <= TRACE_MOST:
        raise PreflightError(f"the trace has {len(found)} values, allowed: 1 to {TRACE_MOST}", where=file)
    return found
