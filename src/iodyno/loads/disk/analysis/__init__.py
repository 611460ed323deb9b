"""Outcomes of a load on disks."""
