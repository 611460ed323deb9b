"""How much of the memory that CPUs use is another NUMA node's (sensor `numa`), on the machine that a host is on."""

from __future__ import annotations

from iodyno.analysis.measured import Measured, total_ratio
from iodyno.analysis.trial import Trial

SENSOR = "numa"


def remote_pages(trial: Trial, name: str) -> Measured:
    """Share of the pages that CPUs were given."""
    return _share(trial, name, "numa.remote_pages", ("numa.local_pages", "numa.remote_pages"))


def remote_loads(trial: Trial, name: str) -> Measured:
    """Share of the loads that memory answered."""
    return _share(trial, name, "numa.remote_loads", ("numa.loads",))


def _share(trial: Trial, name: str, part: str, whole: tuple[str, ...]) -> Measured:
    host, pairs = trial.hosts[name], []
    for reading in host.measured_readings(SENSOR):
        each = (reading.values.total(metric) for metric in (part, *whole))
        if len(known := [value for value in each if value is not None]) > len(whole):
            pairs.append((known[0], sum(known[1:])))
    return total_ratio(pairs, nothing=host.why_missing(SENSOR))
