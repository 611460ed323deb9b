"""Evidence for a limiter outside the hosts: metrics that other programs hold, against what the experiment says is full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean, median

from iodyno.analysis.limiter.rules import NEAR_ABOVE
from iodyno.analysis.metrics import MetricData
from iodyno.core.limiter import Evidence, Suspect

OUTSIDE = "outside_resource"


def suspects(metrics: Mapping[str, MetricData], spans: Iterable[tuple[int, int]]) -> Iterator[Suspect]:
    """A suspect for each metric that has `full`: in how many of the intervals `spans` of the measured window (in ns since the
    load began) it was, by the mean of what was read in each.
    """
    each = list(spans)
    for name, metric in metrics.items():
        if metric.full is None or not each:
            continue
        steps = metric.steps()
        values = [
            fmean(inside)
            for begin, end in each
            if (inside := [value for at, since, value in steps if at > begin and since < end])
        ]
        if not values:
            continue
        over = sum(value >= metric.full for value in values)
        near = sum(NEAR_ABOVE * metric.full <= value < metric.full for value in values)
        evidence = Evidence(
            signal=name,
            value=median(values),
            unit=metric.unit,
            threshold=metric.full,
            above=True,
            over=over,
            windows=len(each),
            source=metric.source,
            cite="`full` of the experiment file",
        )
        source = name.partition(".")[0]
        yield Suspect(f"{source}.{OUTSIDE}", (over + near / 2) / len(each), over / len(each), (evidence,))
