"""A network namespace with a tap device, at whose other end a virtual machine is; or with two of them, joined by a bridge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.paths.veth import (
    ADDRESSES,
    NamespacePath,
    VethEnd,
    bring_up,
    ip,
    ip_batch,
    namespace_name,
    settle,
)

DEVICE = "tap0"
TAPS = ("tap0", "tap1")
BRIDGE = "bridge0"


class GuestPath(NamespacePath):
    """The namespace and its device, from `make` to `remove`. Both hosts have it: one is in it, the other behind it.

    `taps`, `addresses`: of each host behind a device, the device and its address.
    """

    def __init__(
        self, ends: Mapping[str, VethEnd], taps: Mapping[str, str], addresses: Mapping[str, str]
    ) -> None:
        super().__init__(ends)
        self.taps, self.addresses = taps, addresses

    @classmethod
    async def make(cls, cpus: Mapping[str, Sequence[int]], mtu: int | None, *, tag: str = "") -> GuestPath:
        """Makes it; the first of `cpus` is the host in the namespace. Raises AccessError."""
        (_, own), (inside, _) = cpus.items()
        name = namespace_name(f"{tag}host")
        end = VethEnd(name, ADDRESSES[0], tuple(own), {}, DEVICE, "guest", (ADDRESSES[0],))
        path = cls(dict.fromkeys(cpus, end), {inside: DEVICE}, {inside: ADDRESSES[1]})
        try:
            await ip("netns", "add", name)
            # It stays when a virtual machine ends, for the next one.
            await ip("-n", name, "tuntap", "add", "dev", DEVICE, "mode", "tap", "vnet_hdr")
            await bring_up(end, mtu)
        except BaseException:
            path.remove()
            raise
        return path


class GuestsPath(GuestPath):
    """A namespace in which a bridge joins two tap devices, with a host behind each."""

    @classmethod
    async def make(cls, cpus: Mapping[str, Sequence[int]], mtu: int | None, *, tag: str = "") -> GuestsPath:
        """Makes it. Raises AccessError."""
        name = namespace_name(f"{tag}bridge")
        taps = dict(zip(cpus, TAPS, strict=True))
        # What a host sends leaves this kernel by the device of the other: there it is shaped, and what comes in there is for it.
        ends = {
            host: VethEnd(name, address, tuple(own), {}, other, "guest", (address,))
            for (host, own), address, other in zip(cpus.items(), ADDRESSES, reversed(TAPS), strict=True)
        }
        path = cls(ends, taps, dict(zip(cpus, ADDRESSES, strict=True)))
        try:
            await ip("netns", "add", name)
            await ip_batch(
                f"link add {BRIDGE} type bridge",
                *(f"tuntap add dev {tap} mode tap vnet_hdr" for tap in TAPS),
                *(f"link set {tap} master {BRIDGE}" for tap in TAPS),
                *(f"link set {device} mtu {mtu}" for device in (*TAPS, BRIDGE) if mtu),
                *(f"link set {device} up" for device in ("lo", *TAPS, BRIDGE)),
                namespace=name,
            )
            for end in ends.values():
                await settle(end)
        except BaseException:
            path.remove()
            raise
        return path
