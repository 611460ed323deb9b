"""Job of a load on disks, its targets and volumes, and checks before the first trial."""
