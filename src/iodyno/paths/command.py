"""Output of short commands of the system: every wait for one ends."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import Sequence

from iodyno.child import send_signal
from iodyno.core.errors import AccessError

DEADLINE_S = 30.0
"""After which a command of the network or of block devices is given up. They take milliseconds; a kernel that holds one of its
locks, or a file system over a server that is gone, answers never (chosen: longer than any machine is busy)."""
_KILLED_S = 1.0


async def answer_of(
    process: asyncio.subprocess.Process,
    words: Sequence[str],
    said: bytes | None = None,
    deadline_s: float = DEADLINE_S,
) -> tuple[bytes, bytes]:
    """Read the stdout and stderr of a process just started with pipes and told `said`; it is killed when it takes longer.

    Raises AccessError then.
    """
    try:
        async with asyncio.timeout(deadline_s):
            return await process.communicate(said)
    except TimeoutError:
        raise AccessError(
            f"no answer within {deadline_s:g} s; it was given up",
            where=f"`{' '.join(words[:9])}`",
            advice="look at the system log of this machine for what hangs",
        ) from None
    finally:
        if process.returncode is None:
            send_signal(process)
            # Not for long: what hangs in the kernel does not even end when it is killed.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _KILLED_S)


def quietly(*words: str, deadline_s: float = DEADLINE_S) -> bool:
    """Runs a command, whatever it says; whether it ended in time. Synchronous: it also runs while the lab is being stopped."""
    return checked(*words, deadline_s=deadline_s) is not None


def checked(*words: str, deadline_s: float = DEADLINE_S) -> str | None:
    """Return the stdout of a command, nothing when it cannot be started; None: it did not end in time. As `quietly`."""
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return ""
    try:
        return process.communicate(timeout=deadline_s)[0].decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_KILLED_S)
        return None
