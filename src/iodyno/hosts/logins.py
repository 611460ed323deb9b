"""Bound on logins that are under way at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from weakref import WeakKeyDictionary

AT_A_SERVER = 8
"""Chosen: an ssh server drops some of those that come when 10 have not logged in yet (MaxStartups, sshd_config(5))."""
IN_ALL = 32
"""Chosen: each is a client on the lab's machine; more of them take no less time together, and longer each."""

_bounds: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, asyncio.Semaphore]] = WeakKeyDictionary()


@contextlib.asynccontextmanager
async def turn(server: str | None) -> AsyncIterator[None]:
    """Waits for a turn to log in there, and keeps it while the body runs; empty: no server of several hosts; None: no login."""
    if server is None:
        yield
        return
    bounds = _bounds.setdefault(asyncio.get_running_loop(), {"": asyncio.Semaphore(IN_ALL)})
    async with contextlib.AsyncExitStack() as stack:
        if server:
            # Its own turn first: who waits for a slow server holds nobody else up.
            await stack.enter_async_context(bounds.setdefault(server, asyncio.Semaphore(AT_A_SERVER)))
        await stack.enter_async_context(bounds[""])
        yield
