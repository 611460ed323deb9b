"""The largest segment that TCP hands to the device: large segment offload as a number, not as a switch."""

from __future__ import annotations

from iodyno.hosts.knobs.link import LinkAttribute

KNOB = LinkAttribute("gso_max_size", high="tso_max_size")
