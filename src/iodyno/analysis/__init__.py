"""Numbers in, numbers out: outcomes with intervals from stored trials. Draws nothing and starts nothing."""
