"""Network namespaces with nothing between them: hosts whose load needs no other end, such as disks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

from iodyno.paths.veth import NamespacePath, VethEnd, ip, namespace_prefix, plain

ADDRESS = "127.0.0.1"
_NUMBERS = itertools.count(1)


class UnlinkedPath(NamespacePath):
    """A namespace for each host, from `make` to `remove`."""

    @classmethod
    async def make(cls, hosts: Iterable[str]) -> UnlinkedPath:
        """Makes them. Raises AccessError."""
        # A lab may have several such paths at a time, as a testbed for each level of a volume.
        prefix = f"{namespace_prefix()}-{next(_NUMBERS)}"
        path = cls(
            {h: VethEnd(f"{prefix}-{plain(h)}", ADDRESS, (), device="lo", kind="unlinked") for h in hosts}
        )
        try:
            for end in path.ends.values():
                await ip("netns", "add", end.namespace)
            # The namespaces are each other's equals: their devices can come up at the same time.
            await asyncio.gather(
                *(ip("-n", e.namespace, "link", "set", "lo", "up") for e in path.ends.values())
            )
        except BaseException:
            path.remove()
            raise
        return path
