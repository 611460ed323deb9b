"""View of a load on disks while it runs."""
