"""Account of a trial beside its records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from iodyno.core.outcome import split_beside
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level


@dataclass
class Account:
    """Account of a trial beside its records; filled as it goes, so that a failed one tells how far it came.

    `path`: how the path was shaped for the trial, as asked and as obtained; None: it was left as it is. `settings`: what
    the workload was told, where the trial's own settings do not hold. `bystanders`: the same of the workloads beside, by name.
    `losses`: the clients that were lost on the way, where the trial went on without them. `targets`: what the files and
    devices of a load on disks are, by host. `metrics`: clocks of the sources of metrics that have times of their own.
    """

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    start: dict[str, Any] | None = None
    warnings: list[Warning] = field(default_factory=list)
    overhead_ns: int | None = None
    path: dict[str, Any] | None = None
    settings: dict[str, Level] = field(default_factory=dict)
    bystanders: dict[str, Account] = field(default_factory=dict)
    losses: list[dict[str, Any]] = field(default_factory=list)
    targets: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)

    def role(self, host: str) -> str:
        """Role of a host, also of one of a bystander's."""
        beside, name = split_beside(host)
        if beside:
            return self.bystanders[beside].role(name)
        return str(self.hosts[host]["role"])

    def warning(self, code: WarningCode, text: str, where: str = "") -> None:
        """Notes a warning."""
        self.warnings.append(Warning(code, text, where))
