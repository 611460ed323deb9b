"""The load that does what a personality of Filebench says."""
