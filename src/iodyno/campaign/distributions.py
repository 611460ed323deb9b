"""Laws of sizes and arrivals as the agent has them (`agent/core/src/arrivals.rs`), with what files of traces hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from iodyno.core.distribution import parse_sizes, trace_file
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level
from iodyno.formats import value_traces

_SECOND_NS = 10**9
_RARE_GAPS = 21
"""Mean gaps that a gap of a Poisson process is longer than once in 10^9 (exp(-21))."""
_LATE = 2
"""Times its length that a pause may take (chosen: what moves then needs time, too, and a busy machine wakes late)."""


def arrivals(
    settings: Mapping[str, Level], seed: int, place: tuple[int, int] = (0, 1)
) -> dict[str, Any] | None:
    """The arrivals of an open loop; None: a closed one. A rate alone means constant arrivals.

    `rate` counts operations, and an arrival makes `burst` of them. A trace without a rate keeps its own. `place`: that of the
    sender among all of them, and how many they are: the rate of a job is divided among them, and each draws for itself.
    """
    sender, senders = place
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
        gaps_ns = value_traces.gaps_ns(file)
        described = {"law": "trace", "gaps_ns": gaps_ns}
        if rate is None:
            rate, period_ns = len(gaps_ns), sum(gaps_ns)
    elif law == "bursty":
        described = {
            "law": "on_off",
            "on_ns": settings.get("burst_on", 10_000_000),
            "off_ns": settings.get("burst_off", 90_000_000),
        }
    else:
        described = {"law": law}
    per_connection = settings.get("rate_of", "job") == "connection"
    if law == "constant" and not per_connection and sender:
        # Together they come as evenly as those of one sender.
        described["earlier_ns"] = period_ns * sender // int(rate or 1)
    return {
        "law": described,
        "operations": rate,
        "period_ns": period_ns if per_connection else period_ns * senders,
        "per_connection": per_connection,
        "seed": seed + sender,
    }


def longest_silence_s(jobs: Collection[Mapping[str, Any]]) -> float:
    """Longest time without a byte that the load asks for itself: until an arrival, and while the ends pause and compute. With 0,
    nothing pauses.
    """
    pauses_ns: int = sum(job.get(f"{what}_ns", 0) for job in jobs for what in ("think", "compute"))
    return max(_until_arrival_s(job.get("arrivals")) for job in jobs) + _LATE * pauses_ns / _SECOND_NS


def _until_arrival_s(arrivals: Mapping[str, Any] | None) -> float:
    """Longest time without an arrival that is no wonder, of all connections together; 0 in a closed loop."""
    if arrivals is None:
        return 0.0
    law = arrivals["law"]
    gap_ns = arrivals["period_ns"] / arrivals["operations"]
    if law["law"] == "constant":
        silence_ns = 2 * gap_ns
    elif law["law"] == "trace":
        gaps_ns = law["gaps_ns"]
        silence_ns = 2 * gap_ns * max(gaps_ns) * len(gaps_ns) / sum(gaps_ns) if sum(gaps_ns) else 2 * gap_ns
    else:
        silence_ns = _RARE_GAPS * gap_ns + law.get("off_ns", 0)
    return float(silence_ns / _SECOND_NS)


def sizes(settings: Mapping[str, Level]) -> tuple[int, dict[str, Any] | None]:
    """The greatest message in bytes, and the law of the sizes where they are not all alike."""
    written = settings.get("sizes")
    if written is None:
        return int(settings["size"]), None
    law = parse_sizes(str(written))
    if law.file is not None:
        listed = value_traces.sizes_bytes(law.file)
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
