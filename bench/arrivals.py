"""Open loops: whether the rate that was asked for is held, and how late operations begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median

from bench.testbed import Trial, open_testbed, trial
from iodyno.analysis.arrivals import LATE_GAPS, LATE_LEAST_NS
from iodyno.analysis.histogram import Histogram, merge
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level

CASES: tuple[tuple[int, str, str, dict[str, Level]], ...] = (
    (1_000, "tcp", "request_response", {"connections": 16, "engine": "epoll"}),
    (20_000, "tcp", "request_response", {"connections": 64, "engine": "epoll"}),
    (200_000, "tcp", "stream", {"connections": 8, "engine": "epoll"}),
    (200_000, "udp", "stream", {"transport": "udp", "connections": 8, "engine": "epoll"}),
    (
        200_000,
        "udp, sendmmsg",
        "stream",
        {"transport": "udp", "connections": 8, "engine": "epoll", "syscalls": "batch", "batch": 64},
    ),
    (
        200_000,
        "udp, segments",
        "stream",
        {"transport": "udp", "connections": 8, "engine": "epoll", "syscalls": "segments", "batch": 64},
    ),
)
"""Operations per second, and what they are: 200 000 requests a second are more than a core of the kernel's TCP answers.
At 200 000 a second a call for each is the better part of a core, so that other system calls are beside it."""
LAWS = ("constant", "poisson")
HELD, LATE_US = 0.001, 20.0
"""Figures to reach: begun within so much of what was due, and the median lateness."""


async def run(pairs: int) -> list[dict[str, object]]:
    """Rates held on one core (begun over due: within 0.1 %), and the median lateness (at most 20 us on an idle core)."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        for rate, way, workload, settings in CASES:
            testbed.experiment = replace(
                testbed.experiment, workload=replace(testbed.experiment.workload, kind=workload)
            )
            for law in LAWS:
                told: dict[str, Level] = {
                    "size": 64,
                    "response_size": 64,
                    **settings,
                    "rate": rate,
                    "arrivals": law,
                }
                if "transport" not in told:
                    told["nagle"] = False
                row: dict[str, object] = {
                    "workload": workload,
                    "way": way,
                    "arrivals": law,
                    "asked_per_s": rate,
                }
                try:
                    found = [_figures(await trial(testbed, pair, told, 3.0)) for _ in range(pairs)]
                except TrialError as problem:
                    await testbed.recover(problem)
                    rows.append(
                        {**row, **dict.fromkeys(_COLUMNS, "-"), "verdict": f"cannot be had: {problem}"[:120]}
                    )
                    continue
                middle = {name: median(each[name] for each in found) for name in _COLUMNS}
                rows.append(
                    {
                        **row,
                        **{n: round(v, 5 if "over" in n else 1) for n, v in middle.items()},
                        "verdict": _verdict(rate, middle),
                    }
                )
    return rows


_COLUMNS = ("begun_over_due", "late_p50_us", "late_p99_us", "response_p50_us", "response_p99_us")


def _verdict(rate: int, found: Mapping[str, float]) -> str:
    """Whether the figures are met, and whether a campaign would count such a trial."""
    void_us = max(LATE_GAPS * 1e6 / rate, LATE_LEAST_NS / 1e3)
    if found["late_p50_us"] > void_us:
        return f"void: the median is over {void_us:.0f} us late"
    missed = [] if abs(found["begun_over_due"] - 1) <= HELD else ["the rate"]
    missed += [] if found["late_p50_us"] <= LATE_US else ["the lateness"]
    return f"missed: {' and '.join(missed)}" if missed else "met"


def _figures(found: Trial) -> dict[str, float]:
    records = [record for record in found.records["client"] if record["window"] == "measured"]
    values: dict[str, int] = {}
    for record in records:
        for reading in record["sensors"]:
            for metric, _, value in reading["values"] if reading["sensor"] == "arrivals" else ():
                values[metric] = values.get(metric, 0) + value
    late = merge(_histograms(record["load"]["lateness"] for record in records))
    response = merge(_histograms(record["load"]["response_time"] for record in records))
    return {
        "begun_over_due": values["arrivals.begun"] / max(1, values["arrivals.due"]),
        "late_p50_us": (late.quantile(0.5) or 0.0) / 1e3,
        "late_p99_us": (late.quantile(0.99) or 0.0) / 1e3,
        "response_p50_us": (response.quantile(0.5) or 0.0) / 1e3,
        "response_p99_us": (response.quantile(0.99) or 0.0) / 1e3,
    }


def _histograms(stored: Iterable[dict[str, list[int]]]) -> Iterable[Histogram]:
    for one in stored:
        yield Histogram(one["count"], one["sum_ns"], tuple(one["buckets"]), tuple(one["counts"]))  # type: ignore[arg-type]
