"""Paths between two hosts: made by the lab, and removed by it."""
