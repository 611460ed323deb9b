"""Files and devices of the lab's own machine that loads read and write: looked at, laid out, removed.

Nothing but the named target is written, and nothing of a user's is overwritten without the word `--destroy PATH`.
"""
