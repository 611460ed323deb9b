"""The section `workload` of an experiment with a profile."""
