"""Totals of a campaign since it is watched, summed up by host: counters that only grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from iodyno.watch.facts import STATISTICS, Sample


@dataclass
class Totals:
    """`amounts`: by statistic, host, first and second dimension; `time_ns`: sum of timed operations by host and type;
    `states`: the last rate of each gauge by statistic and host."""

    amounts: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    time_ns: Counter[tuple[str, str]] = field(default_factory=Counter)
    states: dict[tuple[str, str], float] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)

    def add(self, sample: Sample) -> None:
        """Adds a sample."""
        self.records[sample.host] += 1
        for statistic, first, second, amount in sample.facts:
            if statistic in _GAUGES:
                self.states[statistic, sample.host] = amount / sample.length_ns if sample.length_ns else 0.0
            else:
                self.amounts[statistic, sample.host, first, second] += amount
        for name, histogram in sample.times.items():
            self.time_ns[sample.host, name] += histogram.sum_ns


_GAUGES = frozenset(statistic.name for statistic in STATISTICS if statistic.gauge)
