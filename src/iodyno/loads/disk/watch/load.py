"""Operations of a load on disks while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.loads.base.watch import Load


class StorageLoad(Load):
    """Operations per second of all clients."""

    def rate(self, host: str, progress: Mapping[str, Any], length_ns: int) -> str | None:
        """Return the operations per second so far."""
        if host not in self.workload.hosts:
            return None
        return f"{self.per_s(host, progress['operations'], length_ns):.0f} IO/s"


LOADS = {"disk": StorageLoad}
