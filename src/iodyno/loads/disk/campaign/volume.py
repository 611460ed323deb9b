"""The volume of a load on storage: made for a level of `volume`, filled, and taken away with the testbed."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iodyno.core.errors import AccessError
from iodyno.core.experiment import Experiment
from iodyno.core.volume import VolumeKind
from iodyno.core.workload import Level
from iodyno.session.accesses import OpenHosts

if TYPE_CHECKING:
    from iodyno.paths.volumes.volume import Volume

_HERE = ("local", "netns")
_CHUNK = 1 << 20
_FOLDER = "/var/tmp"


async def open_volume(kind: VolumeKind, experiment: Experiment, hosts: OpenHosts) -> Volume:
    """Makes a volume for the clients of an experiment, for each as large as the largest working set. Raises AccessError."""
    from iodyno.paths.volumes import table
    from iodyno.paths.volumes.volume import Place

    clients: dict[str, str | None] = {}
    for client in experiment.workload.hosts:
        spec = experiment.hosts[client]
        if spec.access not in _HERE:
            raise AccessError(
                f"a volume is made on iodyno's machine, but host {client} is reached by {spec.access}",
                where=f"hosts.{client}",
                advice="give it access: local or netns, or a target of its own",
            )
        clients[client] = (hosts.accesses[client].reached.path or {}).get("namespace")
    folder = Path(str(experiment.workload.settings.get("volume_folder", _FOLDER)))
    place = Place(
        folder,
        _size(experiment),
        clients,
        # Names of folders and namespaces, in which options of a mount have no place.
        tag="-".join(re.sub("[^a-z0-9_]", "-", each) for each in (kind.level, *kind.beside)),
        keeps_nothing=kind.keeps_nothing,
        with_files=kind.with_files,
        file_system=kind.file_system,
        mount_options=kind.mount_options,
    )
    began = time.monotonic()
    volume = await table.make(kind.level, place)
    try:
        if not place.with_files:
            await _fill_all([volume.target_of(name) for name in clients], place.size_bytes)
    except BaseException as error:
        await volume.close()
        if isinstance(error, OSError):
            raise AccessError(
                f"the volume cannot be filled: {error}", where=f"volume {kind.level}"
            ) from error
        raise
    volume.made["ready_s"] = round(time.monotonic() - began, 3)
    volume.made |= {
        name: True
        for name, there in (("uncached", place.keeps_nothing), ("files", place.with_files))
        if there
    }
    for client in clients:
        reached = hosts.accesses[client].reached
        facts = volume.facts() | {"target": str(volume.target_of(client))}
        reached.path = {**(reached.path or {}), "kind": "volume", **facts}
    return volume


async def _fill_all(targets: Sequence[Path], size_bytes: int) -> None:
    """Fills all of them at a time. When it is stopped, nobody writes any more by the time that it ends: a target that is still
    open could not be taken away.
    """
    stop = threading.Event()
    filling = [asyncio.ensure_future(asyncio.to_thread(fill, target, size_bytes, stop)) for target in targets]
    try:
        await asyncio.gather(*map(asyncio.shield, filling))
    finally:
        stop.set()
        await asyncio.wait(filling)


def fill(target: Path, size_bytes: int, stop: threading.Event | None = None) -> None:
    """Writes every byte once, until `stop` is set: what was never written is read without a disk. Raises OSError.

    The bytes are drawn, so that what compresses has nothing to save.
    """
    with target.open("r+b", buffering=0) as file:
        left = size_bytes
        while left > 0:
            if stop and stop.is_set():
                return
            left -= file.write(os.urandom(min(_CHUNK, left)))
        os.fsync(file.fileno())


def _size(experiment: Experiment) -> int:
    """Bytes that the largest working set needs, or the largest file system."""
    levels: list[Level] = []
    for name in ("working_set", "volume_size"):
        levels.append(experiment.workload.settings.get(name, 0))
        for factor in experiment.factors:
            levels += factor.levels if factor.name == name else factor.together.get(name, ())
    return max(int(level) for level in levels) + int(experiment.workload.settings.get("offset", 0))
