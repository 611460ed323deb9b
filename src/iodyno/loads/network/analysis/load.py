"""Analysis of streams and requests."""

from iodyno.core.outcome import not_of
from iodyno.loads.base.analysis import Load

LOADS = {
    "stream": Load(not_of("stream")),
    "request_response": Load(not_of("request_response"), answered=True),
    "connect_request_response": Load(not_of("connect_request_response")),
}
