"""The server's side of network volumes: a network namespace of its own, joined to the client's by a pair of devices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iodyno.core.volume import SERVER, VOLUMES
from iodyno.paths.veth import ip, may_make_namespaces, remove_leftovers, start_ticks
from iodyno.paths.volumes import daemon
from iodyno.paths.volumes.volume import Note, Place, Volume, end, make_file

_NETWORK = "198.18.{}"
"""Of the block kept for benchmarks (RFC 2544, RFC 6890), where nothing else is; one for each level, which may be there at a
time.
"""
_FIRST_NETWORK = 64


@dataclass(frozen=True)
class Export:
    """What a server exports: its folder, the image in it, and where it runs."""

    folder: Path
    image: Path
    namespace: str
    address: str
    log: Path


Serve = Callable[[Volume, Place, Export], Coroutine[Any, Any, str]]
"""Starts the server of an export, which answers when this returns; gives what the client daemon is told of it."""


def unavailable() -> str | None:
    """Why this machine cannot have a server and a client of network volumes; None: it can."""
    return may_make_namespaces() or daemon.unavailable()


async def make(level: str, place: Place, serve: Serve) -> Volume:
    """A server with an image of its own, a link to it, and the client daemon on it. Raises AccessError."""
    remove_leftovers()
    note = Note(level, place.tag)
    folder = place.folder / note.name
    note.add("folder", folder)
    volume = Volume(level, folder / "client" / "target", device=False, note=note)
    network = _NETWORK.format(_FIRST_NETWORK + list(VOLUMES).index(level))
    try:
        export = Export(
            folder / "server", folder / "server" / "image", note.name, f"{network}.2", folder / "server.log"
        )
        export.folder.mkdir(parents=True)
        (folder / "client").mkdir()
        make_file(export.image, place.size_bytes)
        await _link(note, place, level, network)
        block = await serve(volume, place, export)
        await daemon.attach(volume, place, folder / "client", block)
    except BaseException:
        for processes in volume.processes.values():
            for process in processes:
                await end(process)
        note.undo()
        raise
    volume.made |= {
        "file": str(export.image),
        "server_namespace": export.namespace,
        "server_address": export.address,
    }
    return volume


async def _link(note: Note, place: Place, level: str, network: str) -> None:
    """A pair of devices between the client's namespace and a new one for the server."""
    note.add("namespace", note.name)
    await ip("netns", "add", note.name)
    # A device's name has 15 characters at most (IFNAMSIZ).
    here = f"iov{os.getpid() % 10**7}{level[:4]}"
    note.add("link", f":{here}")
    await ip("link", "add", here, "type", "veth", "peer", "name", "veth0", "netns", note.name)
    client = ("-n", place.client_namespace) if place.client_namespace else ()
    if place.client_namespace:
        await ip("link", "set", here, "netns", place.client_namespace)
        note.add("link", f"{place.client_namespace}:{here}")
    await ip(*client, "address", "add", f"{network}.1/30", "dev", here)
    await ip(*client, "link", "set", here, "up")
    await ip("-n", note.name, "address", "add", f"{network}.2/30", "dev", "veth0")
    await ip("-n", note.name, "link", "set", "lo", "up")
    await ip("-n", note.name, "link", "set", "veth0", "up")


def listens(namespace_process: int, port: int) -> bool:
    """Whether something listens on a TCP port in the network namespace of a process (proc_net_tcp)."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines = (
                Path(f"/proc/{namespace_process}/net/{table}").read_text(encoding="ascii").splitlines()[1:]
            )
            # 0A is TCP_LISTEN (include/net/tcp_states.h).
            if any(fields[1].endswith(wanted) and fields[3] == "0A" for fields in map(str.split, lines)):
                return True
    return False


def add(volume: Volume, *processes: Any) -> None:
    """Notes processes of the server."""
    volume.processes.setdefault(SERVER, []).extend(processes)


def unique_number() -> int:
    """A number that no other lab on this machine has at the moment: from the process and its start."""
    return (os.getpid() * 7919 + (start_ticks(os.getpid()) or 0)) % 30_000 + 1
