"""The lab's end of a guard: a process on a host that sets what it is told and takes it back when the lab is gone.

The other end, with the journal, is `agent/cli/src/guard/`. Lines of JSON, a question and its answer at a time; between
them a beat a second, so that a guard on the far side of a dead link notices.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.hosts import logins
from iodyno.hosts.access import MOST_FOREIGN_BYTES, Access, AgentProgram, AgentStreams, end_at_once, ended

Look = dict[str, Any]
"""Something to read: `{"file": path}` or `{"run": words}`."""
Step = dict[str, Any]
"""Something to do: `{"write": {"file": path, "text": text}}` or `{"run": words}`."""

BEAT_S = 1.0
RESPONSE_TIMEOUT_S = 60.0
"""Longer than what a guard gives one command (20 s), since a question may be of several."""
HELD_FOR_S = 12.0
"""Time to wait for a host that another lab holds: a guard gives a lab up that is silent for 10 s."""


@dataclass(frozen=True)
class Seen:
    """Text that was read, or the reason why it could not be."""

    text: str | None
    error: str | None = None


_NET_ADMIN = 12
"""The bit of CAP_NET_ADMIN (linux/capability.h)."""
_RESTORING_S = 60.0
"""Time that restoring may take (chosen: the link of a device may need 15 s to come up again)."""
JOURNALS_OF_ROOT = "/run/iodyno/tunables"
"""Folder in which guards of root keep their journals (`agent/cli/src/guard/journal.rs`); nobody else can look into it."""
_JOURNALS_HERE = Path(JOURNALS_OF_ROOT)


async def restore_here(program: AgentProgram) -> None:
    """Restores what a lab that is gone left in the lab's own network namespace.

    Agents do it where they start; but none may start here, where the hosts are others or nothing is left to be measured. Where
    nothing is left, nothing is started.
    """
    try:
        if not os.access(_JOURNALS_HERE, os.W_OK) or not any(_JOURNALS_HERE.iterdir()):
            return
    except FileNotFoundError:  # a guard that ends removes the folder with its last journal
        return
    restoring = await asyncio.create_subprocess_exec(
        *(program.path, "restore"), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_RESTORING_S):
            await restoring.wait()
    except TimeoutError:
        raise AccessError(
            f"what a run left set is not restored within {_RESTORING_S:g} s",
            where=str(_JOURNALS_HERE),
            advice="iodyno restore",
        ) from None
    finally:
        # What it has not come to is in the journal still.
        if restoring.returncode is None:
            await end_at_once(restoring)


class RefusedError(Exception):
    """The guard did not do what it was told; says why."""


class GuardLostError(Exception):
    """The guard does not answer any more. `host`: whose it is; `tunable`: what it was setting then, if anything."""

    def __init__(self, why: str, host: str, tunable: str = "") -> None:
        super().__init__(why)
        self.host = host
        self.tunable = tunable


class Guard:
    """A guard that has said hello. `namespace` tells network namespaces apart, on one machine and over all."""

    def __init__(self, name: str, streams: AgentStreams) -> None:
        self.name = name
        self.namespace = ""
        self.initial_namespace = False
        self._streams = streams
        self._lock = asyncio.Lock()
        self._lost = False
        self._beating: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, access: Access, program: AgentProgram) -> Guard:
        """Starts a guard on the host. Raises AccessError."""
        async with logins.turn(access.reached.server):
            guard = cls(access.name, await access.start(program, "guard"))
        try:
            hello = await guard._hear()
        except GuardLostError:
            status = await ended(guard._streams.process)
            raise access.trouble(status or 0, guard._streams.process.last_words()) from None
        except BaseException:
            await end_at_once(guard._streams.process)
            raise
        try:
            guard.namespace = f"{hello['boot']}/{hello['namespace']}"
            guard.initial_namespace = bool(hello["initial_namespace"])
        except KeyError as lacking:
            await end_at_once(guard._streams.process)
            raise AccessError(f"its first word lacks {lacking}", where=f"host {access.name}") from None
        guard._beating = asyncio.create_task(guard._beat())
        return guard

    @property
    def alive(self) -> bool:
        """True as long as it can still be spoken to."""
        return not self._lost

    async def claim(self, owner: str) -> dict[str, list[str]]:
        """Makes the host's settings this lab's; gives what was left by a lab that is gone, and is restored now.

        Raises AccessError when another lab has them, or when there can be no journal; GuardLostError.
        """
        until = asyncio.get_running_loop().time() + HELD_FOR_S
        while True:
            try:
                answer = await self._ask({"do": "claim", "owner": owner})
            except RefusedError as why:
                advice = "free the place named, or leave the tunables out"
                raise AccessError(
                    f"no tunable can be set: {why}", where=f"host {self.name}", advice=advice
                ) from None
            if answer["said"] == "claimed":
                restored: dict[str, list[str]] = answer["restored"]
                return restored
            if asyncio.get_running_loop().time() > until:
                raise AccessError(
                    f"its settings are held by {answer['owner']}",
                    where=f"host {self.name}",
                    advice="wait until that one has ended: two runs that turn the same tunables would measure nothing",
                )
            await asyncio.sleep(0.2)

    async def look(self, at: Sequence[Look]) -> list[Seen]:
        """Reads files and runs commands that only read. Raises GuardLostError."""
        answer = await self._ask({"do": "look", "at": list(at)})
        return [Seen(**seen) for seen in answer["seen"]]

    async def may_set(self) -> bool:
        """Tell whether it has the right to set tunables, which is CAP_NET_ADMIN (capabilities(7)). Raises GuardLostError."""
        (seen,) = await self.look([{"file": "/proc/self/status"}])
        held = re.search(r"^CapEff:\s*([0-9a-f]+)$", seen.text or "", re.MULTILINE)
        return held is None or bool(int(held[1], 16) >> _NET_ADMIN & 1)

    async def set(
        self, tunable: str, device: str | None, undo: Sequence[Step], steps: Sequence[Step]
    ) -> None:
        """Notes the way back on the host, then does the steps. Raises RefusedError, GuardLostError."""
        question = {
            "do": "set",
            "tunable": tunable,
            "device": device,
            "undo": list(undo),
            "steps": list(steps),
        }
        try:
            await self._ask(question)
        except GuardLostError as error:
            error.tunable = tunable
            raise

    async def forget(self) -> None:
        """Crosses out the way back of the last `set`, which was refused and changed nothing. Raises GuardLostError."""
        await self._ask({"do": "forget"})

    async def restore(self) -> dict[str, list[str]]:
        """Takes everything back; `done` and `failed`. Raises GuardLostError."""
        restored: dict[str, list[str]] = (await self._ask({"do": "restore"}))["restored"]
        return restored

    async def close(self) -> None:
        """Ends it, and waits until it has taken back what was still set."""
        self._lost = True
        if self._beating:
            self._beating.cancel()
        self._streams.writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                await self._streams.process.wait()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._lock:
            exchange = asyncio.ensure_future(self._exchange(question))
            try:
                return await asyncio.shield(exchange)
            except asyncio.CancelledError:
                # The lab is being stopped. The answer that is due must not be taken for that of the next question.
                await asyncio.wait([exchange])
                exchange.exception()
                raise

    async def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        await self._say(question)
        answer = await self._hear()
        if answer["said"] == "refused":
            raise RefusedError(answer["why"])
        return answer

    async def _say(self, question: dict[str, Any]) -> None:
        try:
            self._streams.writer.write(json.dumps(question).encode() + b"\n")
            await self._streams.writer.drain()
        except (ConnectionError, RuntimeError) as error:
            self._lost = True
            raise GuardLostError(str(error), self.name) from None

    async def _hear(self) -> dict[str, Any]:
        try:
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                # A shell of the account may print something first.
                foreign = 0
                while (line := await self._streams.reader.readline()) and foreign <= MOST_FOREIGN_BYTES:
                    if line.startswith(b'{"said"'):
                        answer: dict[str, Any] = json.loads(line)
                        return answer
                    foreign += len(line)
        except (TimeoutError, ConnectionError, ValueError) as error:
            self._lost = True
            raise GuardLostError(str(error) or "no answer", self.name) from None
        self._lost = True
        words = self._streams.process.last_words().splitlines()
        raise GuardLostError(words[-1] if words else "it has ended", self.name)

    async def _beat(self) -> None:
        while not self._lost:
            await asyncio.sleep(BEAT_S)
            with contextlib.suppress(GuardLostError):
                # A beat has no answer, so that it may come between a question and its answer.
                await self._say({"do": "beat"})
