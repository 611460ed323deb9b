"""The levels of `path`: what may lie between the two hosts of an experiment when the lab makes it.

How each is made is in `iodyno.paths` and `iodyno.session.path_levels`. To add a level: describe it here, and give it
a line there.
"""

from __future__ import annotations

from collections.abc import Mapping

PATHS: Mapping[str, str] = {
    "loopback": "Both hosts in one network namespace, over its loopback device.",
    "zone": "A network namespace each, joined by a pair of virtual Ethernet devices: what a container has.",
    "relay": "A namespace each, joined by a process that copies every frame between two tap devices.",
    "relay_offload": "The same, with segmentation and checksum offload: segments of up to 64 KiB are copied whole.",
    "sandbox": "The receiver runs in a gVisor sandbox (runsc, systrap), on the sandbox's own network stack.",
    "guest": "The receiver runs in a virtual machine (QEMU), on a kernel of its own, over virtio-net.",
    "sandboxes": "Each host runs in a gVisor sandbox of its own.",
    "guests": "Each host runs in a virtual machine of its own, joined by a bridge.",
}
"""Every level of `path`, from none in between to a kernel of its own."""

CARRIED_BY_OTHERS: Mapping[str, str] = {
    "relay": "the relay",
    "relay_offload": "the relay",
    "sandbox": "the sandbox's kernel",
    "guest": "the virtual machine",
    "sandboxes": "the sandboxes' kernels",
    "guests": "the virtual machines",
}
"""Levels whose cost is that of tasks that are not the agent's, and whose they are."""

OWN_KERNEL = frozenset({"sandbox", "guest", "sandboxes", "guests"})
"""Levels at which the receiver has a kernel of its own, which takes the packets where it runs."""
