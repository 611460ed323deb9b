"""Results of a script out of the accounts of both ends."""
