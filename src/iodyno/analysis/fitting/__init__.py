"""Models fitted to measurements: what a curve through the points says, how well, and what it must not say."""
