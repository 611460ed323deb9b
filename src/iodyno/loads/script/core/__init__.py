"""Scripts: what groups of threads do on their connections, flowop by flowop, as uperf's profiles have it."""
