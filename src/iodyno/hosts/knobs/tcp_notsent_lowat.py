"""Bounds what waits unsent in a socket, and so what a new message waits behind."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_notsent_lowat", "net/ipv4/tcp_notsent_lowat")
