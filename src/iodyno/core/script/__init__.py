"""Scripts: what groups of strands do on their connections, flowop by flowop, as uperf's profiles have it."""
