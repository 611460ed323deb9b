"""Tables and sentences of a script."""
