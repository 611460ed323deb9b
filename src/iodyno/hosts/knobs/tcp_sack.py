"""Selective acknowledgements, agreed on when a connection is made."""

from __future__ import annotations

from iodyno.hosts.knobs.sysctl import Sysctl

KNOB = Sysctl("tcp_sack", "net/ipv4/tcp_sack", kind=bool)
