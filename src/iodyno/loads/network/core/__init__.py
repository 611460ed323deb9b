"""Parameters of a load on connections."""
