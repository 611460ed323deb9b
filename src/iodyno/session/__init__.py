"""Speaks the wire with the agents of a campaign, one session a host."""
