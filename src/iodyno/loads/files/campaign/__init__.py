"""Job of a file program, and checks before the first trial."""
