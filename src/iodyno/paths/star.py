"""Namespaces that are each joined with one in the middle by a pair of virtual Ethernet devices of their own.

For a load of one host on several. No bridge stands between them: each pair is a network of its own, and what one of the
outer hosts gets passes no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iodyno.paths.veth import (
    DEVICE,
    NamespacePath,
    VethEnd,
    bring_up,
    ip,
    namespace_prefix,
    plain,
    receive_on,
)

MOST_OUTER = 250
"""Hosts around the one in the middle: each pair takes a network of 4 addresses of 198.18.0.0/22 (RFC 2544)."""


class StarPath(NamespacePath):
    """The namespaces and the pairs of devices between them, from `make` to `remove`."""

    @classmethod
    async def make(
        cls, hub: str, cpus: Mapping[str, Sequence[int]], mtu: int | None = None, *, tag: str = ""
    ) -> StarPath:
        """Makes all of them; `cpus` names the hosts, `hub` that in the middle. Raises AccessError."""
        prefix = f"{namespace_prefix()}-{tag}"
        outer = [host for host in cpus if host != hub]
        middle, *addresses = _addresses(len(outer))
        inner = VethEnd(f"{prefix}{plain(hub)}", middle, tuple(cpus[hub]), addresses=(middle,))
        ends = {hub: inner}
        for host, address in zip(outer, addresses, strict=True):
            name = f"{prefix}{plain(host)}"
            ends[host] = VethEnd(name, address, tuple(cpus[host]), addresses=(address,))
        path = cls({host: ends[host] for host in cpus})
        try:
            for end in ends.values():
                await ip("netns", "add", end.namespace)
            for number, host in enumerate(outer):
                near = DEVICE if number == 0 else f"veth{number}"
                far = ends[host].namespace
                await ip(
                    *("-n", inner.namespace, "link", "add", near, "type", "veth"),
                    *("peer", "name", DEVICE, "netns", far),
                )
                if number:
                    await _join(inner, near, _middle(number), mtu)
            for end in ends.values():
                await bring_up(end, mtu)
        except BaseException:
            path.remove()
            raise
        return path


async def _join(inner: VethEnd, device: str, address: str, mtu: int | None) -> None:
    """Brings up a further device of the host in the middle."""
    inside = ("-n", inner.namespace)
    await ip(*inside, "address", "replace", f"{address}/30", "dev", device)
    if mtu:
        await ip(*inside, "link", "set", device, "mtu", str(mtu))
    await ip(*inside, "link", "set", device, "up")
    await receive_on(inner, device)


def _middle(number: int) -> str:
    return f"198.18.{number // 64}.{4 * (number % 64) + 1}"


def _addresses(outer: int) -> list[str]:
    """Of the middle in its first network, then of each outer host in its own."""
    return [_middle(0), *(f"198.18.{n // 64}.{4 * (n % 64) + 2}" for n in range(outer))]
