"""Parameters and outcomes of a load on disks."""
