"""Queueing theory: formulas that can be checked against a book. Imports nothing of the rest of iodyno but errors."""
