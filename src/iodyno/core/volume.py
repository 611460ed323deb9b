"""The levels of `volume`: what may lie between a load and the bytes on a disk when the lab makes it.

How each is made is in `iodyno.paths.volumes`. To add one: describe it here, and give it a file and a line there.
"""

from __future__ import annotations

from collections.abc import Mapping

VOLUMES: Mapping[str, str] = {
    "file": "A file of the folder that is named, and nothing more.",
    "loop": "A block device over a file, through the page cache of that file.",
    "loop_direct": "The same, whose reads and writes of the file are direct: a block device on the disk.",
    "zram": "A block device in memory, compressed: the least that a block device costs.",
    "daemon": "A file that a daemon serves from a local file: what the client of the levels below costs by itself.",
    "nfs": "NFSv3 over TCP: a server in a network namespace of its own, a daemon as client.",
    "nbd": "A network block device over TCP: a server in a network namespace of its own, a daemon as client.",
    "iscsi": "iSCSI over TCP: a target in a network namespace of its own, a daemon as client.",
}
"""Every level of `volume`."""

SERVER, CLIENT_DAEMON = "server", "client_daemon"
ROLES = (SERVER, CLIENT_DAEMON)
"""Whose processes a volume may have, beside the load that uses it."""

OVER_NETWORK = frozenset({"nfs", "nbd", "iscsi"})
"""Levels with a server across a link."""
