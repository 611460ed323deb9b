"""The load that reads and writes blocks of files and devices."""
