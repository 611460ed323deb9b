"""A network namespace of the lab's machine: a host of its own as far as the network goes.

Who makes the namespace, and what joins it to others, is a path (`iodyno.paths`).
"""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.hosts.local import LocalAccess


class NamespaceAccess(LocalAccess):
    """Starts agents in the named network namespace."""

    def __init__(self, name: str, namespace: str, address: str, cpus: Sequence[int] = ()) -> None:
        # `ip netns exec` becomes the agent (it does not fork) and shows it the sysfs of the namespace.
        super().__init__(name, cpus, prefix=("ip", "netns", "exec", namespace))
        self.reached.address = address
        self.reached.namespace = namespace
