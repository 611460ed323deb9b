"""Strategies: what a campaign runs next, given what its trials have told; one file a strategy."""
