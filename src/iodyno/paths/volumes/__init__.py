"""Volumes, which lie under a load on storage, made and removed by the lab: one file a kind, listed in `table`."""
