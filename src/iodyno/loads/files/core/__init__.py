"""Personalities of Filebench: what was written, what it means with values for its variables, what an agent is told."""
