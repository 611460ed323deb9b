"""The section `workload` of a load between hosts."""
