"""What the instrument itself is capable of: the clocks of the hosts, and how fast the lab can speak with them."""

from __future__ import annotations

from typing import Any

from iodyno.campaign.rig import Rig, together


async def calibrate(rig: Rig) -> dict[str, Any]:
    """Facts by host: its clocks as it measured them, offset and round trip of the control stream in ns."""
    hosts = list(rig.sessions)
    fits = await together(rig.sessions[host].probe_clock() for host in hosts)
    return {
        host: {"clock": rig.sessions[host].hello["clock"], "control": fit.as_json()}
        for host, fit in zip(hosts, fits, strict=True)
    }
