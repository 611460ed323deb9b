"""Loads on connections between hosts: streams and requests."""
