"""Namespaces of several hosts, any two that have data for each other joined by a pair of virtual Ethernet devices of their own.

No bridge stands between them: what one pair of hosts exchanges passes no other, and nobody pays for forwarding. A host has one
address, on all of its devices, and a route to each of the others over the device that leads there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import count

from iodyno.paths.veth import (
    DEVICE,
    NamespacePath,
    VethEnd,
    ip_batch,
    namespace_name,
    plain,
    receive_on,
    settle,
)

MOST_HOSTS = 1000
"""Addresses of 198.18.0.0/22 (RFC 2544), less those that end in 0 or 255."""
MOST_LINKS = 1024
"""Pairs of devices (chosen: to make one takes some 10 ms)."""


class MeshPath(NamespacePath):
    """The namespaces and the pairs of devices between them, from `make` to `remove`."""

    @classmethod
    async def make(
        cls,
        cpus: Mapping[str, Sequence[int]],
        links: Sequence[tuple[str, str]],
        mtu: int | None = None,
        *,
        tag: str = "",
    ) -> MeshPath:
        """Makes all of them; `cpus` names the hosts, `links` those that are to reach each other. Raises AccessError."""
        ends = {
            host: VethEnd(namespace_name(f"{tag}{plain(host)}"), address, tuple(own), addresses=(address,))
            for (host, own), address in zip(cpus.items(), _addresses(len(cpus)), strict=True)
        }
        path = cls(ends)
        numbers = {host: count() for host in ends}
        # Of each host: its devices, and whom each leads to.
        devices: dict[str, list[tuple[str, VethEnd]]] = {host: [] for host in ends}
        made = [f"netns add {end.namespace}" for end in ends.values()]
        for one, other in links:
            here, there = (_device(next(numbers[host])) for host in (one, other))
            near, far = ends[one], ends[other]
            made.append(
                f"link add {here} netns {near.namespace} type veth peer name {there} netns {far.namespace}"
            )
            devices[one].append((here, far))
            devices[other].append((there, near))
        try:
            await ip_batch(*made)
            await asyncio.gather(*(_bring_up(ends[host], devices[host], mtu) for host in ends))
        except BaseException:
            path.remove()
            raise
        return path


async def _bring_up(end: VethEnd, devices: Sequence[tuple[str, VethEnd]], mtu: int | None) -> None:
    """Gives the devices of a host its address, its settings and their routes, and switches them on."""
    lines = ["link set lo up"]
    for device, other in devices:
        lines += [
            f"address replace {end.address}/32 dev {device}",
            *([f"link set {device} mtu {mtu}"] if mtu else []),
            f"link set {device} up",
            f"route replace {other.address}/32 dev {device} src {end.address}",
        ]
    await ip_batch(*lines, namespace=end.namespace)
    await settle(end)
    for device, _ in devices[1:]:
        await receive_on(end, device)


def _device(number: int) -> str:
    return DEVICE if number == 0 else f"veth{number}"


def _addresses(hosts: int) -> list[str]:
    return [f"198.18.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
