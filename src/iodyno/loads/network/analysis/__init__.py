"""Outcomes of a load on connections."""
