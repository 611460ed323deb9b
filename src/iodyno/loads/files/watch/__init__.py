"""View of a file program while it runs."""
