"""Analysis of streams and requests."""

from iodyno.core.outcome import not_of
from iodyno.loads.base.analysis import Load

LOADS = {kind: Load(not_of(kind)) for kind in ("stream", "request_response", "connect_request_response")}
