"""Looks on while a campaign runs, or at one that is over: follows its feed, reads its store, and shows both alike.

It reaches no host and writes nothing into the campaign's folder, so that any number of watchers may come and go.
"""
