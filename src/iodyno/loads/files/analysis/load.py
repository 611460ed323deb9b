"""Analysis of a file program."""

from iodyno.loads.disk.analysis.load import StorageLoad

LOADS = {"files": StorageLoad()}
