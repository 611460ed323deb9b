"""Access to a host: a way to start an agent there and to hold its stdin and stdout.

An access knows processes, bytes and the host; it knows neither the wire nor experiments. To add one, write a
file here and name it in `iodyno.session.accesses`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from iodyno.child import send_signal
from iodyno.core.errors import AccessError
from iodyno.core.warnings import Warning

MOST_FOREIGN_BYTES = 64 << 10
"""Most bytes that something else may write on a host before an agent does (chosen: more than any message of the day)."""


class ByteQueue(Protocol):
    """Queue of bytes for an agent to read: the part of asyncio.WriteTransport that is used."""

    def get_write_buffer_size(self) -> int:
        """Bytes that nobody has taken yet."""


class ByteWriter(Protocol):
    """Writer to an agent: the part of asyncio.StreamWriter that is used."""

    @property
    def transport(self) -> ByteQueue:
        """The queue."""

    def write(self, data: bytes) -> None:
        """Queues bytes."""

    async def drain(self) -> None:
        """Waits until the queue is short. Raises ConnectionError when nobody reads any more."""

    def close(self) -> None:
        """Ends the stream: an agent takes that as its end."""


def kill(process: asyncio.subprocess.Process) -> None:
    """Ends a child at once, and listens to it no more."""
    send_signal(process)
    let_go(process)


def let_go(process: asyncio.subprocess.Process) -> None:
    """Closes the pipes of a child that nobody listens to any more. One that is full is not read to its end, and Python would
    complain of it when the event loop is gone.
    """
    for descriptor in range(3):
        if pipe := process._transport.get_pipe_transport(descriptor):  # type: ignore[attr-defined]
            pipe.close()


class AgentProcess(Protocol):
    """A started agent, or the client program that holds one on another host."""

    async def wait(self) -> int:
        """Waits until it has ended; its exit status, negative: the signal that killed it."""

    def kill(self) -> None:
        """Ends it at once."""

    def last_words(self) -> str:
        """The last lines that it wrote to stderr."""


@dataclass
class AgentStreams:
    """A started agent: its stdout, its stdin, its process. `foreign`: what others wrote before it was started."""

    reader: asyncio.StreamReader
    writer: ByteWriter
    process: AgentProcess
    foreign: bytes = b""


@dataclass(frozen=True)
class AgentProgram:
    """The agent's program file: where it is, the hash of the file, the build that it must report.

    `for_machine`: finds the program of the same build for hosts of another architecture, a word of `uname -m`; raises
    AccessError when there is none.
    """

    path: Path
    sha256: str
    build_hash: str
    for_machine: Callable[[str], AgentProgram] | None = field(default=None, compare=False, repr=False)


@dataclass
class Reached:
    """Facts about a reached host beside what its agent will say.

    `address`: where the other hosts reach it with data; `addresses`: those that its agent found there, with the lengths of their
    prefixes; `lab_address`: where it sees the lab, if it does. `path`: what lies under its data, as made by the lab. `notes`: for
    people. `hello_timeout_s`: how long an agent may take to its first word; None: as others. `namespace`: the network namespace
    of the lab's machine that it is, empty: the lab's own; None: it is elsewhere, or has a kernel of its own. `probe_gap_s`: pause
    between two looks at its clock (chosen: what delays one is gone before the next); a simulated host's answers are never late.
    `program`: the one that runs there, where it is made for another architecture than the lab's.
    `server`: what lets its clients in, empty: one of its own; None: there is no login (`iodyno.hosts.logins`).
    """

    address: str | None = None
    lab_address: str | None = None
    cpus: tuple[int, ...] = ()
    addresses: Sequence[str] = ()
    path: Mapping[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    warnings: list[Warning] = field(default_factory=list)
    hello_timeout_s: float | None = None
    namespace: str | None = None
    server: str | None = None
    probe_gap_s: float = 0.002
    program: AgentProgram | None = None

    @property
    def data_address(self) -> str | None:
        """Where others reach it, as was said; else the first address that its agent found."""
        return self.address or next((each.partition("/")[0] for each in self.addresses), None)


class Access(Protocol):
    """One host, reached in one way."""

    name: str
    reached: Reached

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent. May be called again after an agent has ended, and for several at a time.

        `command`: what it is to do there; `guard`: set tunables (`iodyno.hosts.guard`). Raises AccessError.
        """

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for an agent that ended before its first word, with this exit status and last words."""

    async def close(self) -> None:
        """Removes everything that the access left on the host."""


async def ended(process: AgentProcess) -> int | None:
    """Exit status of an agent whose stream has ended; None: it went on without, and was killed."""
    try:
        async with asyncio.timeout(_ENDS_WITHIN_S):
            return await process.wait()
    except TimeoutError:
        await end_at_once(process)
        return None


async def end_at_once(process: AgentProcess | asyncio.subprocess.Process) -> None:
    """Kills a child and waits until it is gone: one that outlives the event loop is complained of by Python. One that is in a
    call which a signal does not end, as on a volume whose server is gone, is waited for a moment only: what that call waits for
    may be the lab's own to end, after this.
    """
    if isinstance(process, asyncio.subprocess.Process):
        kill(process)
    else:
        process.kill()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_KILLED_WITHIN_S):
            await process.wait()


_ENDS_WITHIN_S = 2.0
"""chosen: from the end of its stream to that of a process it is moments; an ssh client says last why it ends."""
_KILLED_WITHIN_S = 2.0
"""chosen: a process that is killed is gone in moments, unless the kernel does not let it go."""

LAB_CPUS = frozenset(os.sched_getaffinity(0))
"""CPUs that the lab may run on, and so the agents that it starts on its own machine."""

_KEPT_CHARACTERS = 4096


def cpus_here() -> frozenset[int]:
    """CPUs that a process of this machine can be given, also where the lab itself was started on some of them only."""
    try:
        # The kernel takes of all that are asked for those that there are.
        os.sched_setaffinity(0, range(os.sysconf("SC_NPROCESSORS_CONF")))
        return frozenset(os.sched_getaffinity(0))
    except OSError:
        return LAB_CPUS
    finally:
        os.sched_setaffinity(0, LAB_CPUS)


class SpawnedAgent:
    """An agent, or the client that reaches one, as a child of the lab."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = ""
        self._reading = asyncio.create_task(self._read_stderr())

    async def wait(self) -> int:
        """Waits until it has ended, and reads nothing of it any more; its exit status."""
        status = await self._process.wait()
        # A grandchild may hold stderr open for longer; its words are not worth waiting for.
        await asyncio.wait([self._reading], timeout=0.5)
        let_go(self._process)
        return status

    def kill(self) -> None:
        """Ends it at once."""
        kill(self._process)

    def last_words(self) -> str:
        """The last lines that it wrote to stderr."""
        return self._stderr.strip()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._stderr = (self._stderr + data.decode(errors="replace"))[-_KEPT_CHARACTERS:]


async def spawn(argv: Sequence[str | Path], cpus: Sequence[int] = ()) -> AgentStreams:
    """Starts `argv` on `cpus` (none: on all) in a session of its own, so that Ctrl-C reaches only the lab.

    Call it from the main thread: an agent ends with the thread that started it. Raises OSError.
    """
    # The child inherits the affinity of this thread, which then takes its own back: asyncio forks before it
    # first waits, so that other tasks cannot come between. (A function run between fork and exec would do the
    # same, but may hang where the lab has other threads.)
    try:
        if cpus:
            os.sched_setaffinity(0, cpus)
        process = await asyncio.create_subprocess_exec(
            *map(str, argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=1 << 20,
        )
    finally:
        os.sched_setaffinity(0, LAB_CPUS)
    assert process.stdout is not None and process.stdin is not None
    return AgentStreams(process.stdout, process.stdin, SpawnedAgent(process))
