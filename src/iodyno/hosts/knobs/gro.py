"""Packets of one flow that arrive together are joined.

On a veth it is off from the start; turning it on gives the device a receive queue of its own (NAPI).
"""

from __future__ import annotations

from iodyno.hosts.knobs.offload import Offload

KNOB = Offload("gro", ("generic-receive-offload",))
