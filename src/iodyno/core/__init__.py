"""Values of the lab: standard library only, no clock, no randomness, no input or output."""
