"""The volume of a load on storage: made for a level of `volume`, filled, and taken away with the rig."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from iodyno.core.errors import AccessError
from iodyno.core.experiment import Experiment
from iodyno.core.workload import Level
from iodyno.paths.volumes import table
from iodyno.paths.volumes.volume import Place, Volume
from iodyno.session.accesses import OpenHosts

_HERE = ("local", "netns")
_CHUNK = 1 << 20
_FOLDER = "/var/tmp"


async def open_volume(level: str, experiment: Experiment, hosts: OpenHosts) -> Volume:
    """Makes the volume for the one client of an experiment, as large as its largest working set. Raises AccessError."""
    client = experiment.workload.hosts[0]
    spec = experiment.hosts[client]
    if spec.access not in _HERE:
        raise AccessError(
            f"a volume is made on the lab's machine, but host {client} is reached by {spec.access}",
            where=f"hosts.{client}",
            advice="give it access: local or netns, or a target of its own",
        )
    reached = hosts.accesses[client].reached
    namespace = (reached.path or {}).get("namespace")
    folder = Path(str(experiment.workload.settings.get("volume_folder", _FOLDER)))
    place = Place(folder, _size(experiment), client_namespace=namespace)
    began = time.monotonic()
    volume = await table.make(level, place)
    try:
        await asyncio.to_thread(fill, volume.target, place.size_bytes)
    except BaseException as error:
        await volume.close()
        if isinstance(error, OSError):
            raise AccessError(f"the volume cannot be filled: {error}", where=f"volume {level}") from error
        raise
    volume.made["ready_s"] = round(time.monotonic() - began, 3)
    reached.path = {**(reached.path or {}), "kind": "volume", **volume.facts()}
    return volume


def fill(target: Path, size_bytes: int) -> None:
    """Writes every byte once: what was never written is read without a disk. Raises OSError.

    The bytes are drawn, so that what compresses has nothing to save.
    """
    with target.open("r+b", buffering=0) as file:
        left = size_bytes
        while left > 0:
            left -= file.write(os.urandom(min(_CHUNK, left)))
        os.fsync(file.fileno())


def _size(experiment: Experiment) -> int:
    """Bytes that the largest working set needs."""
    factors = experiment.factors
    levels: list[Level] = [experiment.workload.settings.get("working_set", 0)]
    for factor in factors:
        levels += factor.levels if factor.name == "working_set" else factor.together.get("working_set", ())
    return max(int(level) for level in levels) + int(experiment.workload.settings.get("offset", 0))
