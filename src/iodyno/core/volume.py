"""The levels of `volume`: what may lie between a load and the bytes on a disk when the lab makes it.

How each is made is in `iodyno.paths.volumes`. To add one: describe it here, and give it a file and a line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VOLUMES: Mapping[str, str] = {
    "file": "A file of the folder that is named, and nothing more.",
    "loop": "A block device over a file, through the page cache of that file.",
    "loop_direct": "The same, whose reads and writes of the file are direct: a block device on the disk.",
    "daemon": "A file that a daemon serves from a local file: what the client of the levels below costs by itself.",
    "nfs": "NFSv3 over TCP: a server in a network namespace of its own, a daemon as client.",
    "nbd": "A network block device over TCP: a server in a network namespace of its own, a daemon as client.",
    "iscsi": "iSCSI over TCP: a target in a network namespace of its own, a daemon as client.",
}
"""Every level of `volume`."""

SERVER, CLIENT_DAEMON = "server", "client_daemon"
ROLES = (SERVER, CLIENT_DAEMON)
"""Whose processes a volume may have, beside the load that uses it."""

GENERATOR = "generator"
"""The role of the agents of clients beside the one that reads the machine."""

OVER_NETWORK = frozenset({"nfs", "nbd", "iscsi"})
"""Levels with a server across a link."""

FOR_MANY = OVER_NETWORK
"""Levels that serve several clients: one server, whose image has a part for each of them."""

MOST_CLIENTS = 60
"""Clients that one server has addresses for."""

MAY_KEEP_NOTHING = frozenset({"nbd"})
"""Levels whose server can be told to keep nothing of what it reads in its page cache (`server_cached: no`)."""

MAY_BE_SLOWER = frozenset({"nbd"})
"""Levels whose server can be told to take longer for each read and write (`device_delay`)."""

CREATE_FILES = "create_files"
"""The level of `work` whose operations are about files."""


FILE_SYSTEMS: Mapping[str, str] = {
    "ext4": "The file system of Linux that most hosts have.",
    "xfs": "The file system of large disks and many writers at a time.",
}
"""Every level of `file_system`: what each client has on its part of a volume. To add one: the command that makes it, in
`iodyno.paths.volumes.file_system`.
"""

MOUNT_OPTIONS = "sync,dirsync,noatime"
"""How it is mounted if nothing else is asked for. As over a protocol for files: what is made, written or removed is with the
server when the call returns. Else the page cache of the client would have it all, and a file that is soon removed would never
leave it.
"""


@dataclass(frozen=True)
class VolumeKind:
    """Kind of a volume: its level, and what it has beside. `keeps_nothing`: its server is to keep nothing in its page cache;
    `with_files`: each client has a file system on its part, of the kind `file_system`, mounted with `mount_options`.

    >>> str(VolumeKind("nbd", keeps_nothing=True))
    'nbd, server uncached'
    """

    level: str
    keeps_nothing: bool = False
    with_files: bool = False
    file_system: str = "ext4"
    mount_options: str = MOUNT_OPTIONS

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> VolumeKind | None:
        """That of the settings of a trial; None: they have no volume."""
        level = settings.get("volume")
        if level is None:
            return None
        with_files = settings.get("work") == CREATE_FILES or "volume_size" in settings
        keeps_nothing = settings.get("server_cached") == "no" and level in MAY_KEEP_NOTHING
        if not with_files:
            return cls(str(level), keeps_nothing)
        asked = {name: str(settings[name]) for name in ("file_system", "mount_options") if name in settings}
        return cls(str(level), keeps_nothing, with_files, **asked)

    @property
    def beside(self) -> tuple[str, ...]:
        """Properties beside its level, in words."""
        words = (
            ("server uncached", self.keeps_nothing),
            ("with files", self.with_files),
            (self.file_system, self.file_system != "ext4"),
            (f"mounted {self.mount_options}", self.mount_options != MOUNT_OPTIONS),
        )
        return tuple(word for word, there in words if there)

    def __str__(self) -> str:
        return ", ".join((self.level, *self.beside))
