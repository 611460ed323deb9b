"""Devices of the lab's own machine that loads use, held to a rate for a trial. What is laid out on a host, its agent lays out
(`iodyno.hosts.target`).
"""
