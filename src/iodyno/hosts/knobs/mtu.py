"""The largest packet of the device; jumbo frames are 9000. Both ends of a link need the same."""

from __future__ import annotations

from iodyno.hosts.knobs.link import LinkAttribute

KNOB = LinkAttribute("mtu", low="min_mtu", high="max_mtu")
