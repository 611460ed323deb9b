"""View of streams and requests while they run."""
