"""Levels of `volume`: how each is made, and what it needs; one line a level."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from iodyno.core.errors import AccessError
from iodyno.paths.volumes import block, daemon, file_system, iscsi, nbd, nfs
from iodyno.paths.volumes.volume import Place, Volume

_MAKERS: Mapping[str, tuple[Callable[[], str | None], Callable[[Place], Awaitable[Volume]]]] = {
    "file": (lambda: None, block.make_plain),
    "loop": (block.no_loop, block.make_loop),
    "loop_direct": (block.no_loop, block.make_loop_direct),
    "daemon": (daemon.unavailable, daemon.make),
    "nfs": (nfs.unavailable, nfs.make),
    "nbd": (nbd.unavailable, nbd.make),
    "iscsi": (iscsi.unavailable, iscsi.make),
}


def unavailable(level: str) -> str | None:
    """Why this machine cannot have the level; None: it may."""
    return _MAKERS[level][0]()


async def make(level: str, place: Place) -> Volume:
    """Makes a volume; its `close` takes it away. Raises AccessError."""
    if why := unavailable(level) or (
        file_system.unavailable(place.file_system) if place.with_files else None
    ):
        raise AccessError(
            why, where=f"volume {level}", advice="leave the level out, or install what it needs"
        )
    try:
        return await _MAKERS[level][1](place)
    except OSError as error:
        place_of_error = f": {error.filename}" if error.filename else ""
        raise AccessError(
            f"it cannot be made: {error.strerror or error}",
            where=f"volume {level}{place_of_error}",
            advice="name a folder that you may write to, with room: volume_folder",
        ) from error
