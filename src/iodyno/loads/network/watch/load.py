"""Rates of streams and requests while they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.loads.base.watch import Load, bits


class StreamLoad(Load):
    """Goodput of a stream."""

    def rate(self, host: str, progress: Mapping[str, Any], length_ns: int) -> str | None:
        """Return the goodput of the measured window so far."""
        workload = self.workload
        listens = host in workload.receivers
        if not listens and host not in workload.senders:
            return None
        way = self.settings.get("direction", "forward")
        if way != "both" and listens != (way == "forward"):
            return None
        # What the application of this end got makes the goodput of reports, too.
        return bits(8 * self.per_s(host, int(progress["bytes"]), length_ns))


class RequestLoad(Load):
    """Exchanges a second."""

    def rate(self, host: str, progress: Mapping[str, Any], length_ns: int) -> str | None:
        """Return the exchanges a second so far: requests of the ends that ask whose whole answer came."""
        if host not in self.workload.senders:
            return None
        return f"{self.per_s(host, int(progress['operations']), length_ns):.0f} exchanges/s"


LOADS = {"stream": StreamLoad, "request_response": RequestLoad, "connect_request_response": RequestLoad}
