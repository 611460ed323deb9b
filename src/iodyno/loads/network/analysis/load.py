"""Analysis of streams and requests."""

from iodyno.core.outcome import not_of
from iodyno.loads.base.analysis import Load

_OF_REQUESTS = ("operations_per_s", "latency_from_schedule_p99_ns", "latency_p99_ns")
LOADS = {
    "stream": Load(not_of("stream"), felt=("goodput_bits_per_s",)),
    "request_response": Load(not_of("request_response"), answered=True, felt=_OF_REQUESTS),
    "connect_request_response": Load(not_of("connect_request_response"), felt=_OF_REQUESTS),
}
