"""What the page cache took and gave back: pages that became dirty, and pages written back (sensor `writeback`)."""

from __future__ import annotations

from iodyno.analysis.dataset import Trial
from iodyno.analysis.measured import Measured, missing, total_ratio

SENSOR = "writeback"


def per_second(trial: Trial, name: str, metric: str) -> Measured:
    """Growth per second of `writeback.dirtied_bytes` or `writeback.written_bytes`, of the whole machine."""
    host = trial.hosts.get(name)
    if host is None:
        return missing("another host on the same machine reads its memory")
    parts = [
        (float(reading.values[metric, ""]), float(reading.span_ns))
        for reading in host.measured_readings(SENSOR)
        if (metric, "") in reading.values
    ]
    return total_ratio(parts, scale=1e9, note="of the whole machine", nothing=host.why_missing(SENSOR))
