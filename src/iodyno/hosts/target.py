"""The lab's end of a process on a host that makes targets ready there: looks at them, lays files out, removes those.

The other end is `agent/cli/src/target.rs`. Lines of JSON, a question and its answer at a time; before the answer to a long
question it is said how far the work is. The process ends with its stdin, and gives up a layout that is under way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from iodyno.core.errors import AccessError, Interrupted, PreflightError
from iodyno.hosts import logins
from iodyno.hosts.access import MOST_FOREIGN_BYTES, Access, AgentProgram, AgentStreams, end_at_once, ended
from iodyno.loads.disk.core.parameters import kind_of

GIVEN_UP_S = 30.0
"""Time that the removal of a layout that is given up may take (chosen: a file of a terabyte, on a slow disk)."""

Progress = Callable[[int, int], None]
"""Hears of bytes laid out, and of how many there are."""


@dataclass(frozen=True)
class Checks:
    """A part of a target of which each unit carries its check. `seed`: of the jobs that write it; `target`: its index there."""

    offset_bytes: int
    length_bytes: int
    unit_bytes: int
    seed: int
    target: int = 0


@dataclass(frozen=True)
class Wanted:
    """A target, with the most that any point asks of it. `destroy`: it may be overwritten, whosever it is; `checks`: those that
    all loads on it leave in their blocks, None where some leave none.
    """

    path: str
    size_bytes: int | None = None
    writes: bool = False
    appends: bool = False
    destroy: bool = False
    checks: Checks | None = None


@dataclass(frozen=True)
class Ready:
    """A target that may be used. `device`: the block device that it is, or lies on, None where there is none; `in_memory`:
    it is nothing but memory. `action`: what became of its working set. `checked`: all of its blocks carry the wanted checks.
    """

    path: str
    kind: str
    action: Literal["none", "made", "reused", "rebuilt", "foreign"]
    why: str = ""
    device: str | None = None
    file_system: str | None = None
    in_memory: bool = False
    checked: bool = False


class TargetKeeper:
    """The process on one host. To be used in `async with`, which ends it."""

    def __init__(self, access: Access, streams: AgentStreams, *, elsewhere: bool) -> None:
        self._access = access
        self._streams = streams
        self._elsewhere = elsewhere
        self._foreign_bytes = 0

    @classmethod
    async def start(cls, access: Access, program: AgentProgram) -> Self:
        """Starts it. Raises AccessError."""
        async with logins.turn(access.reached.server):
            streams = await access.start(program, "target")
        return cls(access, streams, elsewhere=access.reached.namespace is None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Ends it, and waits until it has removed what it was told to give up."""
        self._streams.writer.close()
        try:
            async with asyncio.timeout(GIVEN_UP_S):
                await self._streams.process.wait()
        except TimeoutError:
            await end_at_once(self._streams.process)

    async def make_ready(self, wanted: Wanted, progress: Progress | None = None) -> Ready:
        """Looks at the target and lays its working set out. Raises PreflightError when it must not or cannot be used,
        AccessError when the host is gone, Interrupted.
        """
        question = {
            "path": wanted.path,
            "kind": kind_of(wanted.path),
            "size_bytes": wanted.size_bytes,
            "writes": wanted.writes,
            "appends": wanted.appends,
            "destroy": wanted.destroy,
            "checks": wanted.checks and asdict(wanted.checks),
        }
        return self._ready(await self._ask({"do": "make_ready", "wanted": question}, progress))

    async def see(self, path: str) -> Ready:
        """A target as it is. Raises PreflightError, AccessError."""
        return self._ready(await self._ask({"do": "see", "path": path, "kind": kind_of(path)}))

    async def mark(self, path: str, checks: Checks) -> None:
        """Notes that blocks of a file that was laid out carry checks now. Raises PreflightError, AccessError."""
        await self._ask({"do": "mark", "path": path, "checks": asdict(checks)})

    async def look_at_filesets(self, program: Mapping[str, Any]) -> None:
        """Check that the filesets of a file program (its part of a job) can be laid out; nothing is made. Raises PreflightError
        when not, and AccessError.
        """
        await self._ask({"do": "look_at_filesets", "program": program})

    async def remove(self, path: str) -> bool:
        """Removes a file that was laid out; whether there was one. Raises PreflightError, also for a file of others, and
        AccessError.
        """
        return bool((await self._ask({"do": "remove", "path": path})).get("removed"))

    def _ready(self, answer: dict[str, Any]) -> Ready:
        try:
            return Ready(**answer)
        except TypeError as error:
            raise self._unreadable(str(error)) from None

    async def _ask(self, question: dict[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        with contextlib.suppress(ConnectionError):
            self._streams.writer.write(json.dumps(question).encode() + b"\n")
            await self._streams.writer.drain()
        # No time limit: a working set takes as long as its disk does, and a host that is cut off ends the stream.
        while line := await self._line():
            # A shell of the account may print something first.
            if not line.startswith(b'{"said"'):
                self._foreign_bytes += len(line)
                if self._foreign_bytes > MOST_FOREIGN_BYTES:
                    raise self._unreadable(
                        f"{self._foreign_bytes} bytes came, and none of them from an agent"
                    )
                continue
            try:
                answer: dict[str, Any] = json.loads(line)
                said = answer.pop("said")
                if said == "refused":
                    raise self._refused(answer)
                if said != "progress":
                    return answer
                if progress is not None:
                    progress(answer["done_bytes"], answer["total_bytes"])
            except (ValueError, KeyError, TypeError) as error:
                raise self._unreadable(f"{error!r} in {line[:80]!r}") from None
        status = await ended(self._streams.process)
        raise self._access.trouble(status or 0, self._streams.process.last_words())

    async def _line(self) -> bytes:
        try:
            return await self._streams.reader.readline()
        except (ConnectionError, ValueError) as error:
            raise self._unreadable(str(error)) from None

    def _unreadable(self, why: str) -> AccessError:
        advice = "look for something else that writes into the stream, such as a start-up file of the shell"
        return AccessError(
            f"its answer cannot be read: {why}", where=f"host {self._access.name}", advice=advice
        )

    def _refused(self, answer: dict[str, Any]) -> Interrupted | PreflightError:
        place = f"{self._access.name}: {answer['where']}" if self._elsewhere else answer["where"]
        if answer["stopped"]:
            return Interrupted("stopped", where=place)
        return PreflightError(answer["what"], where=place, advice=answer["advice"])
