"""Writes a file whole: beside its place, then renamed to it, so that a reader meets the old content or the new.

The folder of a campaign may be somebody else's. A link in it is replaced, never followed: what is written there stays there.
"""

from __future__ import annotations

import os
from pathlib import Path

from iodyno.core.errors import StoreError
from iodyno.store.schema import CAMPAIGN, PARTIAL


def write_file(path: Path, content: bytes) -> None:
    """Replaces `path`, which is on the disk then. Raises OSError, and StoreError where a link would lead out of a campaign;
    what was there stays then.

    What is a link or a device, and in no campaign's folder, is written to, as a shell does: somebody named it.
    """
    path = path.absolute()
    campaign = next((folder for folder in path.parents if (folder / CAMPAIGN).is_file()), None)
    if campaign is None and (path.is_symlink() or (path.exists() and not path.is_file())):
        path.write_bytes(content)
        return
    if campaign is not None:
        refuse_links(campaign, *list(path.relative_to(campaign).parents)[:-1])
    # Of this process alone: two may write the same report.
    fresh = path.with_name(f"{PARTIAL}{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    try:
        with fresh.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def refuse_links(folder: Path, *places: Path | str) -> None:
    """Raises StoreError where one of these places in a campaign's folder is a link."""
    for place in (folder / each for each in places):
        if place.is_symlink():
            raise StoreError(
                f"is a link to {place.readlink()}: what is written into a campaign stays in its folder",
                where=str(place),
                advice="put in its place what it links to, if you know the campaign",
            )


def sync_folder(folder: Path) -> None:
    """Puts the names in a folder on the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
