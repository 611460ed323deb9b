"""What is shown of a load on disks while it runs."""
