"""Whether a target may be used for a load, and made ready for it."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from iodyno.core.disk_parameters import kind_of
from iodyno.core.errors import PreflightError
from iodyno.targets import block_device, layout
from iodyno.targets.layout import Progress


@dataclass(frozen=True)
class Ready:
    """A target that may be used. `device`: the block device that it is, or lies on, None where there is none; `in_memory`:
    it is nothing but memory. `action`: what became of its working set.
    """

    path: str
    kind: str
    action: str
    why: str = ""
    device: str | None = None
    file_system: str | None = None
    in_memory: bool = False


def make_ready(
    path: str,
    size_bytes: int | None,
    *,
    writes: bool,
    appends: bool = False,
    destroy: bool = False,
    progress: Progress | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Ready:
    """Looks at the target and lays its working set out. Raises PreflightError when it must not or cannot be used, and
    Interrupted.
    """
    kind = kind_of(path)
    if kind == "null":
        return Ready(path, kind, "none")
    if kind == "device":
        return _device(path, size_bytes, destroy)
    if size_bytes is None:
        raise PreflightError("needs a size", where=path, advice="say how many bytes of it are used")
    if appends:
        done = layout.lay_empty(path, destroy=destroy)
    else:
        done = layout.lay_out(
            path, size_bytes, writes=writes, destroy=destroy, progress=progress, stopped=stopped
        )
    below = block_device.under(path)
    return Ready(path, kind, done.action, done.why, below.device, below.file_system, below.in_memory)


def seen(path: str) -> Ready:
    """A target that the lab has made itself, as it is. Raises PreflightError."""
    try:
        below = block_device.under(path)
    except OSError as error:
        raise PreflightError(f"cannot be looked at: {error.strerror}", where=path) from error
    return Ready(path, kind_of(path), "none", "", below.device, below.file_system, below.in_memory)


def _device(path: str, size_bytes: int | None, destroy: bool) -> Ready:
    """A raw device. One in use is refused, whatever is said; one with content, unless it is named to be destroyed."""
    try:
        if not stat.S_ISBLK(Path(path).stat().st_mode):
            raise PreflightError(
                "is no block device", where=path, advice="name a file that is not in /dev, or a block device"
            )
        if used := block_device.users(path):
            raise PreflightError(
                "; ".join(used), where=path, advice="unmount or release it, or name another device"
            )
        held = block_device.content(path)
        if held and not destroy:
            raise PreflightError(
                "; ".join(held),
                where=path,
                advice=f"name a device whose content nobody needs, or give this one up with --destroy {path}",
            )
        length = block_device.size_bytes(path)
    except OSError as error:
        raise PreflightError(
            f"cannot be opened: {error.strerror}", where=path, advice="name a device that is there, as root"
        ) from error
    if length == 0:
        raise PreflightError("has no size: nothing is attached to it", where=path, advice="attach it first")
    if size_bytes is not None and length < size_bytes:
        raise PreflightError(
            f"has {length} bytes, fewer than the {size_bytes} of the working set",
            where=path,
            advice="take a smaller working set",
        )
    return Ready(path, "device", "none", device=block_device.under(path).device)
