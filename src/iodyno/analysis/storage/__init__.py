"""Results of loads on disks: rates and times by class, clients, devices, and whether the page cache was what it was to be."""
