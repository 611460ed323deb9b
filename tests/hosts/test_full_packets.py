"""A path that loses full packets is named before the first trial at the MTU that it does not carry."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from places import Notes, experiment, namespaces_of, run

from iodyno.core.errors import PreflightError
from iodyno.core.factor import Factor

pytestmark = pytest.mark.root


class _LongPacketsLost(Notes):
    """Loses packets of 2 KiB and more on the way out of the client, as a switch between does that has the usual MTU."""

    LONG = (0x8000, 0x4000, 0x2000, 0x1000, 0x0800)
    """Bits of the length in an IPv4 header, one of which such a packet has."""

    def on_stage(self, text: str) -> None:
        super().on_stage(text)
        if not text.startswith("checking"):
            return
        (namespace,) = [name for name in namespaces_of(os.getpid()) if name.endswith("-client")]
        filters = (
            f"tc filter add dev veth0 parent 1: protocol ip u32 match u16 {bit:#x} {bit:#x} at 2 flowid 1:3"
            for bit in self.LONG
        )
        commands = (
            "tc qdisc add dev veth0 root handle 1: htb default 1",
            "tc class add dev veth0 parent 1: classid 1:1 htb rate 10gbit quantum 60000",
            "tc class add dev veth0 parent 1: classid 1:3 htb rate 10gbit quantum 60000",
            "tc qdisc add dev veth0 parent 1:3 bfifo limit 1",
            *filters,
        )
        subprocess.run(["ip", "netns", "exec", namespace, "sh", "-ec", "\n".join(commands)], check=True)


def test_a_path_that_loses_full_packets_is_named_before_the_first_trial(tmp_path: Path) -> None:
    """Handshakes and small messages pass, so that it is seen in no connection."""
    asked = replace(
        experiment("netns", factors=(Factor("all.mtu", (1500, 9000)),)), tunables={"all.gso_max_segs": 1}
    )
    with pytest.raises(PreflightError, match="client cannot send data to server") as refused:
        asyncio.run(run(asked, tmp_path, notes=_LongPacketsLost()))
    assert refused.value.advice.startswith("with all.mtu 9000 no full packet arrives")
    assert not list(tmp_path.glob("*/trials/*"))
