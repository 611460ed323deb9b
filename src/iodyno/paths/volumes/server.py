"""The server's side of network volumes: a network namespace of its own, joined to the client's by a pair of devices."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.core.volume import SERVER, VOLUMES
from iodyno.paths.veth import ip, may_make_namespaces
from iodyno.paths.volumes import daemon, file_system
from iodyno.paths.volumes.volume import Note, Place, Volume, end, make_file
from iodyno.run_folder import start_ticks

_NETWORK = "198.18.{}"
"""Of the block kept for benchmarks (RFC 2544, RFC 6890), where nothing else is; one for each volume, which may be there at a
time.
"""
_FIRST_NETWORK = 64
_made = itertools.count()
_numbers = itertools.count()
_NETWORKS = 128
"""Volumes of one level at a time are few: those of a lab have numbers in turn."""


@dataclass(frozen=True)
class Export:
    """Export of a server: its folder, the image in it, and its place."""

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
    """A server with an image of its own; for each client a link to it and a daemon on a part of it. Raises AccessError."""
    note = Note(level, place.tag)
    folder = note.make_folder(place.folder)
    serial = next(_made)
    network = _NETWORK.format(
        _FIRST_NETWORK + (list(VOLUMES).index(level) + len(VOLUMES) * serial) % _NETWORKS
    )
    targets = {name: folder / "clients" / name / "target" for name in place.clients}
    volume = Volume(level, next(iter(targets.values())), device=False, note=note, targets=targets)
    try:
        export = Export(
            folder / "server", folder / "server" / "image", note.name, f"{network}.2", folder / "server.log"
        )
        export.folder.mkdir()
        volume.image = export.image
        make_file(export.image, place.size_bytes * len(targets))
        note.add("namespace", note.name)
        await ip("netns", "add", note.name)
        await ip("-n", note.name, "link", "set", "lo", "up")
        for number, namespace in enumerate(place.clients.values()):
            await _link(note, namespace, network, serial, number)
        block = await serve(volume, place, export)
        for number, (name, target) in enumerate(targets.items()):
            target.parent.mkdir(parents=True)
            mine = block if len(targets) == 1 else daemon.part_of(block, number, place.size_bytes)
            await daemon.attach(volume, place, target=target, namespace=place.clients[name], block=mine)
            if place.with_files:
                volume.targets[name] = await file_system.on(volume, target, place)
        volume.target = next(iter(volume.targets.values()))
    except BaseException:
        try:
            for processes in volume.processes.values():
                for process in processes:
                    await end(process)
        finally:
            note.undo()
        raise
    volume.made |= {
        "file": str(export.image),
        "server_namespace": export.namespace,
        "server_address": export.address,
        "clients": len(targets),
    }
    return volume


async def _link(note: Note, client: str | None, network: str, serial: int, number: int) -> None:
    """A pair of devices between a client's namespace and the server's, with a network of four addresses, of which there are
    enough for `MOST_CLIENTS`. All clients reach the server at the address that the first one has a link to.
    """
    server, here, there = f"{network}.2", f"{network}.{4 * number + 1}", f"{network}.{4 * number + 2}"
    # A device's name has 15 characters at most (IFNAMSIZ).
    device, end = f"iov{os.getpid() % 2**22:x}{serial % 256:x}.{number}", f"veth{number}"
    # By the end in the volume's own namespace: the other one's name may be a later lab's.
    note.add("link", f"{note.name}:{end}")
    await ip("link", "add", device, "type", "veth", "peer", "name", end, "netns", note.name)
    inside = ("-n", client) if client else ()
    if client:
        await ip("link", "set", device, "netns", client)
    await ip(*inside, "address", "add", f"{here}/30", "dev", device)
    await ip(*inside, "link", "set", device, "up")
    await ip("-n", note.name, "address", "add", f"{there}/30", "dev", end)
    await ip("-n", note.name, "link", "set", end, "up")
    if number:
        # Clients of one namespace have a way already.
        with contextlib.suppress(AccessError):
            await ip(*inside, "route", "add", server, "via", there)


def listens(namespace_process: int, port: int) -> bool:
    """Tell whether something listens on a TCP port in the network namespace of a process (proc_net_tcp)."""
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
    """A number that nothing else on this machine has at the moment: from the process and its start, another one each time."""
    return (os.getpid() * 7919 + (start_ticks(os.getpid()) or 0) + next(_numbers)) % 30_000 + 1
