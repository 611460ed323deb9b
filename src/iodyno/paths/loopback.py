"""One network namespace for both hosts, who meet on its loopback device: nothing lies between them."""

from __future__ import annotations

from collections.abc import Iterable

from iodyno.paths.veth import NamespacePath, VethEnd, bring_up, ip, namespace_name

ADDRESS = "127.0.0.1"


class LoopbackPath(NamespacePath):
    """The namespace, from `make` to `remove`. Its counters and limits are those of the load alone."""

    @classmethod
    async def make(cls, hosts: Iterable[str], mtu: int | None, *, tag: str = "") -> LoopbackPath:
        """Makes it. Raises AccessError."""
        # No CPUs: the kernel does the receiver's work on the sender's CPU, and steering cannot tell the two ends.
        end = VethEnd(namespace_name(f"{tag}both"), ADDRESS, (), device="lo", kind="loopback")
        path = cls(dict.fromkeys(hosts, end))
        try:
            await ip("netns", "add", end.namespace)
            await bring_up(end, mtu)
        except BaseException:
            path.remove()
            raise
        return path
