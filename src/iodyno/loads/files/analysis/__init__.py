"""Results of a file program, flowop by flowop."""
