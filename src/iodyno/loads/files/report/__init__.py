"""Tables and sentences of a file program."""
