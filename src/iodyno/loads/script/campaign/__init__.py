"""Job of a script, and checks before the first trial."""
