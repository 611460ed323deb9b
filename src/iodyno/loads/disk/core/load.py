"""Parameters of a load on disks."""

from iodyno.core.workload import Workload
from iodyno.loads.base.core import Load
from iodyno.loads.disk.core.parameters import PARAMETERS

WORKLOAD = Workload(
    name="disk",
    help="Blocks of a file or a device, read and written (docs/guides/disks.md). Each of its hosts does it for itself.",
    parameters=PARAMETERS,
    alone=True,
)

LOADS = {WORKLOAD.name: Load(WORKLOAD)}
