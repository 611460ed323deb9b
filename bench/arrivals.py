"""Open loops: whether the rate that was asked for is held, and how late operations begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from bench.rig import Trial, open_rig, trial
from iodyno.analysis.histogram import Histogram, merge
from iodyno.core.workload import Level

CASES: tuple[tuple[int, str, dict[str, Level]], ...] = (
    (1_000, "request_response", {"connections": 16}),
    (20_000, "request_response", {"connections": 64}),
    (200_000, "stream", {"connections": 8}),
)
"""Operations per second, and what they are: 200 000 requests a second are more than a core of the kernel's TCP answers."""
LAWS = ("constant", "poisson")


async def run(pairs: int) -> list[dict[str, object]]:
    """Rates held on one core (begun over due: within 0.1 %), and the median lateness (at most 20 us on an idle core)."""
    rows: list[dict[str, object]] = []
    async with open_rig() as (rig, pair):
        for rate, workload, settings in CASES:
            rig.experiment = replace(rig.experiment, workload=replace(rig.experiment.workload, kind=workload))
            for law in LAWS:
                told: dict[str, Level] = {"driver": "epoll", "size": 64, "answer": 64, "nagle": False}
                told |= settings | {"rate": rate, "arrivals": law}
                found = [_figures(await trial(rig, pair, told, 3.0)) for _ in range(pairs)]
                rows.append(
                    {
                        "workload": workload,
                        "arrivals": law,
                        "asked_per_s": rate,
                        **{
                            name: round(median(each[name] for each in found), 5 if "over" in name else 1)
                            for name in found[0]
                        },
                    }
                )
    return rows


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
