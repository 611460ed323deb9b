"""From measurements to decisions: intervals that hold at every look, rules for stopping, noise, verdicts, change points."""
