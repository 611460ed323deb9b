"""Goodput of streams and requests while they run."""

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
        got = self.delivered(progress, listens=listens)
        return None if got is None else bits(8 * self.per_s(host, got, length_ns))

    def delivered(self, progress: Mapping[str, Any], *, listens: bool) -> int | None:
        """Bytes that the application of this end got, which make the goodput of reports, too; None where it gets none."""
        way = self.settings.get("direction", "forward")
        gets = way == "both" or listens == (way == "forward")
        return int(progress["bytes"]) if gets else None


class RequestLoad(StreamLoad):
    """Goodput of requests and answers."""

    def delivered(self, progress: Mapping[str, Any], *, listens: bool) -> int | None:
        """Bytes that the application of this end got. An operation of the end that asks is a request whose whole answer came."""
        answer = int(self.settings.get("response_size", 1))
        return int(progress["bytes"] if listens else progress["operations"] * answer)


LOADS = {"stream": StreamLoad, "request_response": RequestLoad, "connect_request_response": RequestLoad}
