"""Two network namespaces joined by a process that copies every frame between two tap devices.

That is the way of a frame through a hypervisor without help from the kernel: out of one stack, into user space, into
the other stack. The process is the agent's program (`agent/cli/src/relay.rs`); its devices go with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.child import send_signal
from iodyno.core.errors import AccessError
from iodyno.paths.delay import unavailable
from iodyno.paths.veth import NamespacePath, VethEnd, bring_up, ends_of, ip

__all__ = ["TapPath", "unavailable"]

DEVICE = "tap0"
_QUEUE_FRAMES = 4096
"""Frames that wait for the process (chosen: more than the flows of a study have in flight; a device of 500 loses
bursts of TCP, and what is measured is then its recovery)."""
_RESPONSE_TIMEOUT_S = 5.0
_START_TIMEOUT_S = 10.0


class TapPath(NamespacePath):
    """Two namespaces and the relay between them, from `make` to `remove`."""

    def __init__(self, ends: Mapping[str, VethEnd], cpus: Sequence[int]) -> None:
        super().__init__(ends)
        self._cpus = tuple(cpus)
        self._process: asyncio.subprocess.Process | None = None

    @classmethod
    async def make(
        cls,
        program: Path,
        cpus: Mapping[str, Sequence[int]],
        mtu: int | None,
        *,
        offload: bool,
        tag: str = "",
    ) -> TapPath:
        """Makes both namespaces and starts the relay on the CPUs of both hosts. Raises AccessError."""
        path = cls(
            ends_of(cpus, tag, DEVICE, "relay_offload" if offload else "relay"),
            sorted({cpu for own in cpus.values() for cpu in own}),
        )
        try:
            for end in path.ends.values():
                await ip("netns", "add", end.namespace)
            await path._start(program, offload)
            for end in path.ends.values():
                await ip("-n", end.namespace, "link", "set", DEVICE, "txqueuelen", str(_QUEUE_FRAMES))
                await bring_up(end, mtu)
        except BaseException:
            path.remove()
            raise
        return path

    def remove(self) -> None:
        """Ends the relay, and with it its devices; removes the namespaces."""
        if self._process is not None:
            send_signal(self._process)
        super().remove()

    async def ended(self) -> None:
        """Waits for the end of the relay, which `remove` has killed."""
        if self._process is not None:
            # Also reads its streams to the end, which closes them.
            await self._process.communicate()

    def gone(self) -> str | None:
        """Return what of it is not there any more; None: all is there."""
        if self._process is not None and self._process.returncode is not None:
            return f"the relay has ended with exit status {self._process.returncode}"
        return super().gone()

    @contextlib.asynccontextmanager
    async def counted(self, facts: dict[str, Any]) -> AsyncIterator[None]:
        """Writes into `facts`, when the body has ended, what the relay copied and took in CPU time meanwhile."""
        before = await self._counts()
        facts["relay"] = {"cpus": list(self._cpus), "missing": "the trial did not end"}
        try:
            yield
        finally:
            after = await self._counts()
            if before is None or after is None:
                facts["relay"] |= {"missing": self.gone() or "the relay does not answer"}
            else:
                facts["relay"] |= {"missing": None, **_growth(before, after)}

    async def _start(self, program: Path, offload: bool) -> None:
        namespaces = [f"/run/netns/{end.namespace}" for end in self.ends.values()]
        allowed = os.sched_getaffinity(0)
        try:
            # The child inherits the CPUs of this thread: asyncio forks before it first waits.
            os.sched_setaffinity(0, self._cpus or allowed)
            self._process = await asyncio.create_subprocess_exec(
                *(str(program), "relay", *namespaces, "--device", DEVICE),
                *(("--offload",) if offload else ()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise AccessError(f"the relay does not start: {error}", where=str(program)) from error
        finally:
            os.sched_setaffinity(0, allowed)
        assert self._process.stdout is not None and self._process.stderr is not None
        said = b""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_S):
                said = await self._process.stdout.readline()
        if said.strip() != b"ready":
            send_signal(self._process)
            why = (await self._process.communicate())[1].decode(errors="replace").strip()
            raise AccessError(
                f"the relay did not start: {why.splitlines()[-1] if why else 'no word'}",
                where="path relay",
                advice="look whether tap devices can be made here (modprobe tun), or leave the level out",
            )

    async def _counts(self) -> dict[str, Any] | None:
        process = self._process
        if process is None or process.returncode is not None:
            return None
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
                process.stdin.write(b"counts\n")
                await process.stdin.drain()
                found: dict[str, Any] = json.loads(await process.stdout.readline())
        except (TimeoutError, OSError, ValueError):
            return None
        return found


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """By which the counts have grown; lists number by number."""
    return {
        name: [late - early for early, late in zip(before[name], value, strict=True)]
        if isinstance(value, list)
        else value - before[name]
        for name, value in after.items()
    }
