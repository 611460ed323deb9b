"""A network namespace with a tap device, at whose other end a virtual machine is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.paths.veth import ADDRESSES, NamespacePath, VethEnd, bring_up, ip, namespace_prefix

DEVICE = "tap0"


class GuestPath(NamespacePath):
    """The namespace and its device, from `make` to `remove`. Both hosts have it: one is in it, the other behind it."""

    guest_address = ADDRESSES[1]

    @classmethod
    async def make(cls, cpus: Mapping[str, Sequence[int]], mtu: int | None, *, tag: str = "") -> GuestPath:
        """Makes it; the first of `cpus` is the host in the namespace. Raises AccessError."""
        (_, own), *_ = cpus.items()
        name = f"{namespace_prefix()}-{tag}host"
        end = VethEnd(name, ADDRESSES[0], tuple(own), {}, DEVICE, "guest", (ADDRESSES[0],))
        path = cls(dict.fromkeys(cpus, end))
        try:
            await ip("netns", "add", name)
            # It stays when a virtual machine ends, for the next one.
            await ip("-n", name, "tuntap", "add", "dev", DEVICE, "mode", "tap", "vnet_hdr")
            await bring_up(end, mtu)
        except BaseException:
            path.remove()
            raise
        return path
