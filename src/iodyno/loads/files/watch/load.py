"""Operations of a file program while it runs."""

from iodyno.loads.disk.watch.load import StorageLoad

LOADS = {"files": StorageLoad}
