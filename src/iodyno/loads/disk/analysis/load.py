"""Analysis of a load on disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.analysis.outcomes import OF_DISK_HOST, OF_DISK_TRIAL
from iodyno.loads.base.analysis import Load


class StorageLoad(Load):
    """Answers of a load that reads and writes, and needs no other end."""

    rate = "iops"
    first_role = "alone"

    def known(
        self,
        hosts: Sequence[str],
        bystanders: Mapping[str, Mapping[str, Any]],
        groups: Mapping[str, Sequence[str]],
    ) -> list[str]:
        """Return the outcomes that trials of the load can have."""
        return [*OF_DISK_TRIAL, *(f"{host}.{name}" for host in hosts for name in OF_DISK_HOST)]

    def usual(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Return the outcomes that are shown where an experiment names none."""
        return (self.rate, "service_time_p50_ns", "service_time_p99_ns")


LOADS = {"disk": StorageLoad()}
