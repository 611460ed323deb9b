"""View of a script while it runs."""
