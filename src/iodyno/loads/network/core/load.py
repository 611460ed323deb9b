"""Parameters of streams and requests."""

from iodyno.core.workload import CONNECT_REQUEST_RESPONSE, REQUEST_RESPONSE, STREAM
from iodyno.loads.base.core import Load

LOADS = {each.name: Load(each) for each in (STREAM, REQUEST_RESPONSE, CONNECT_REQUEST_RESPONSE)}
