"""Sections of an experiment file about streams and requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment, HostSpec, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.outcome import OF_SEVERAL, OUTCOMES, TIMES_OF_REQUESTS
from iodyno.core.workload import Level, Workload
from iodyno.formats import connection_points, host_groups, planned_points
from iodyno.formats import experiment_model as model
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import Load
from iodyno.loads.disk.core.outcomes import ONLY_OF_DISKS


class ConnectionsLoad(Load):
    """Parts of a load on connections."""

    beside = True

    def keys(self, workload: Workload) -> dict[str, Any]:
        """Return the key that says which sender has connections with which receiver."""
        return {"between": model.BETWEEN}

    def read(self, reading: Reading, kind: str, written: Any, path: Path) -> WorkloadSpec | None:
        """Return the workload, when it can be read; what cannot is noted."""
        return host_groups.between_hosts(reading, kind, written, path)

    def check_points(
        self,
        reading: Reading,
        workload: WorkloadSpec,
        factors: Mapping[str, Factor],
        hosts: Mapping[str, HostSpec],
        tunables: Mapping[str, Level],
    ) -> None:
        """Check what comes together at points, on these hosts."""
        connection_points.check(reading, workload, factors, hosts, tunables)

    def refuse(self, experiment: Experiment, design: Design, file: str) -> None:
        """Raises ExperimentError where a point cannot be had."""
        planned_points.refuse_connections(experiment, design, file)


class ExchangesLoad(ConnectionsLoad):
    """Parts of requests, each with a response."""

    outcomes = frozenset(OUTCOMES) - ONLY_OF_DISKS - TIMES_OF_REQUESTS.keys() - frozenset(OF_SEVERAL)


LOADS = {"stream": ConnectionsLoad()} | dict.fromkeys(
    ("request_response", "connect_request_response"), ExchangesLoad()
)
