"""Loads, one folder a kind: all that is special to it, in folders named after the layers of the lab whose rules they obey."""
