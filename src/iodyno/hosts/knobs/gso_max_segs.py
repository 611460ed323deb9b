"""The most packets that a segment handed to the device is cut into."""

from __future__ import annotations

from iodyno.hosts.knobs.link import LinkAttribute

KNOB = LinkAttribute("gso_max_segs", high="tso_max_segs")
