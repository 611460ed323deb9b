"""One agent, from hello to bye. Every wait ends: by the answer, an error that names the host, or a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from iodyno.core.errors import INSTALL_AGAIN, AccessError, IodynoError, TrialError
from iodyno.core.warnings import Warning, WarningCode
from iodyno.hosts import logins
from iodyno.hosts.access import Access, AgentProgram, AgentStreams, end_at_once, ended
from iodyno.session import clock, wire
from iodyno.session.clock import ClockFit, Probe
from iodyno.session.sent import SentRecord

Message = dict[str, Any]

HELLO_TIMEOUT_S = 20.0
RESPONSE_TIMEOUT_S = 10.0
HEARTBEAT_S = 2.0
"""Chosen: a fifth of the silence after which either end gives the other one up; each time that one wakes takes of a CPU."""
LOST_AFTER_S = 10.0
"""Silence after which an agent is given up; an agent gives up a lab after the same time."""
ENOUGH_NS = 50_000
"""Error of a clock up to which it needs no further look. Chosen: that of two hosts is then a tenth of the 1 ms by which they
may start apart; on a network that is slower than this, all looks are taken."""
PROBED_AT_A_TIME = 16
"""Clocks looked at together. Chosen: what others answer meanwhile waits in the lab, and counts as time on the way; of 300
at once the error is 80 times as large."""
_REST_S = 30.0
"""Time that a job may take after its windows to account for itself: the agent's own (5 s, and a millisecond for each of its
threads), and a busy host."""
_STALL_S = 2.0
"""No byte in records that are together this long, while the load goes on. Chosen: a lost packet and a lost repetition of it
(0.2 and 0.4 s, Linux), or a host that others use, make shorter pauses, after which a load goes on."""
_SIGNAL_OVER_SSH = 255
"""Status of an ssh client whose command was ended by a signal, and of one that lost the connection, which says so. No agent ends
with it.
"""
_RECORD = b'{"type":"record",'
"""Start of the payload of a record: the agent writes the type first. Any other way of writing it would be understood too,
only later."""
_STALL_AT_END_S = 0.4
"""No byte in the last two records or more, together this long: nothing shows that the load would have gone on. Twice Linux'
least retransmission time-out."""


class Session:
    """An agent that has said hello."""

    def __init__(self, access: Access, streams: AgentStreams) -> None:
        self.name = access.name
        self.hello: Message = {}
        self.warnings: list[Warning] = []
        self._access = access
        self._streams = streams
        self._decoder = wire.Decoder(allow_foreign=True)
        self._sequence = 0
        self._probes: dict[int, asyncio.Future[tuple[int, int, int]]] = {}
        self._probe_number = 0
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._ended: IodynoError | None = None
        self._last_frame_ns = time.monotonic_ns()
        self._closing = False
        self._words_before = ""
        self._tasks = [asyncio.create_task(self._read())]

    @classmethod
    async def start(
        cls,
        access: Access,
        program: AgentProgram,
        *,
        timeout_s: float | None = None,
        started: Callable[[], None] = lambda: None,
    ) -> Session:
        """Starts an agent and hears its hello. `started` hears that its turn to log in has come; from then on it may take
        `timeout_s`. Raises AccessError, also for an agent of another build, and TimeoutError.
        """
        async with logins.turn(access.reached.server), asyncio.timeout(timeout_s):
            started()
            session = cls(access, await access.start(program))
            try:
                reached = access.reached
                await session._greet(reached.program or program, reached.hello_timeout_s or HELLO_TIMEOUT_S)
            except BaseException:
                await session.close()
                raise
            return session

    @property
    def alive(self) -> bool:
        """True as long as the agent can still be spoken to."""
        return self._ended is None and not self._closing

    @property
    def process_id(self) -> int | None:
        """The process on the lab's machine that is the agent, or that reaches it on another one; None: there is none."""
        found = getattr(self._streams.process, "pid", None)
        return found if isinstance(found, int) else None

    async def probe_clock(self, least: int = 8, most: int = 32) -> ClockFit:
        """Fit the host's clock from `least` probes with the pause of its access between them, and from up to
        `most` until the error is no larger than `ENOUGH_NS`.
        """
        probes: list[Probe] = []
        for number in range(most):
            if number >= least and clock.fit(probes).error_ns <= ENOUGH_NS:
                break
            if number:
                await asyncio.sleep(self._access.reached.probe_gap_s)
            self._probe_number += 1
            answered: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()
            self._probes[self._probe_number] = answered
            asked_ns = time.monotonic_ns()
            await self._send({"type": "probe", "id": self._probe_number})
            try:
                async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                    probes.append(Probe(asked_ns, *await answered))
            except TimeoutError:
                raise self._late("to answer a probe", RESPONSE_TIMEOUT_S) from None
            finally:
                self._probes.pop(self._probe_number, None)
        return clock.fit(probes)

    async def prepare(self, job: Mapping[str, Any]) -> None:
        """Gives the agent a job. A receiver answers `listening`, then every role `ready`."""
        self._forget()
        await self._send({"type": "prepare", "job": dict(job)})

    async def listening(self) -> int:
        """The port on which the receiver listens."""
        return int((await self._expect("listening", RESPONSE_TIMEOUT_S))["port"])

    async def ready(self, timeout_s: float) -> Message:
        """Wait until the agent is ready; return its message, with socket options as obtained."""
        return await self._expect("ready", timeout_s)

    async def arm(self, start_ns: int) -> Message:
        """Schedules the start on the host's own clock; gives the slack that was left."""
        await self._send({"type": "arm", "start_ns": start_ns})
        return await self._expect("armed", RESPONSE_TIMEOUT_S)

    async def result(
        self,
        load_ns: int,
        on_record: Callable[[SentRecord], None],
        on_profile: Callable[[Message], None] | None = None,
        *,
        stalls: bool = True,
        silence_s: float = 0.0,
    ) -> Message:
        """Takes records as they come until the result, and checks that none is missing. It does not take them apart.

        `load_ns` is how long the job takes from now on. With `stalls`, a load that moves no bytes fails, unless it does so
        for no longer than `silence_s`: there may be nothing to do for that long.
        """
        deadline_s = load_ns / 1e9 + _REST_S
        end = asyncio.get_running_loop().time() + deadline_s
        records = 0
        measured_bytes = measured_ns = 0
        still: list[Message] = []
        progress: Message | None = None
        while True:
            message = await self._expect(
                ("progress", "record", "drain", "profile", "result"),
                end - asyncio.get_running_loop().time(),
                shown_s=deadline_s,
            )
            if message["type"] == "result":
                break
            if message["type"] == "profile" and on_profile:
                on_profile(message)
            if message["type"] == "progress":
                progress = message
            if message["type"] != "record":
                continue
            if progress is None:
                raise self._misunderstood("record", "progress")
            records += 1
            on_record(SentRecord(progress, message["payload"]))
            if stalls and progress["window"] == "measured":
                moved = progress["bytes"]
                measured_bytes += moved
                measured_ns += progress["end_ns"] - progress["begin_ns"]
                still = [] if moved else [*still, progress]
                self._check_moving(still, max(_STALL_S, silence_s))
            progress = None
        if records != message["records"]:
            raise self.failure(
                "records_lost",
                f"sent {message['records']} records, {records} arrived",
                "look at the way to the host",
            )
        self._check_moving(still, max(_STALL_AT_END_S, silence_s))
        if stalls and measured_bytes == 0 and measured_ns >= silence_s * 1e9:
            raise self.failure(
                "stalled", "no byte moved in the measured window", "look at the path between the hosts"
            )
        return message

    async def abort(self, reason: str) -> bool:
        """Stops whatever the agent is doing; whether it is ready for another job now."""
        if not self.alive:
            return False
        try:
            await self._send({"type": "abort", "reason": reason})
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                while (message := await self._messages.get()) is not None:
                    if message["type"] == "aborted":
                        return True
        except (TimeoutError, IodynoError):
            return False
        return False

    async def close(self) -> None:
        """Says bye and waits until the agent is gone; ends it when it does not go."""
        self._closing = True
        if self._ended is None:
            with contextlib.suppress(IodynoError):  # it may be gone already, which is what we want
                await self._send({"type": "bye"})
        self._streams.writer.close()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await self._streams.process.wait()
        finally:
            await self.kill()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def kill(self) -> None:
        """Ends the agent at once."""
        await end_at_once(self._streams.process)

    def failure(self, code: str, what: str, advice: str, place: str = "") -> TrialError:
        """A failure of the trial at this host."""
        where = f"host {self.name}" + (f": {place}" if place else "")
        return TrialError(what, where=where, advice=advice, code=code)

    async def _greet(self, program: AgentProgram, timeout_s: float) -> None:
        try:
            hello = await self._expect("hello", timeout_s)
        except TrialError as error:
            raise AccessError(error.what, where=error.where, advice=error.advice) from error
        self.hello = {key: value for key, value in hello.items() if key != "type"}
        # The banner of an ssh server, say: no words about its end.
        self._words_before = self._streams.process.last_words()
        self._access.reached.addresses = hello["host"].get("addresses", ())
        where = f"host {self.name}"
        if hello["wire_version"] != wire.WIRE_VERSION:
            raise AccessError(
                f"the agent speaks version {hello['wire_version']} of the wire, iodyno {wire.WIRE_VERSION}",
                where=where,
                advice=INSTALL_AGAIN,
            )
        if hello["build_hash"] != program.build_hash:
            raise AccessError(
                f"the agent was built from other sources: its build is {hello['build_hash']},"
                f" iodyno's is {program.build_hash}",
                where=where,
                advice=INSTALL_AGAIN,
            )
        if hello["program_sha256"] not in (None, program.sha256):
            raise AccessError(
                f"the agent that runs is not the one that was sent: {hello['program_sha256'][:16]}...,"
                f" not {program.sha256[:16]}...",
                where=where,
                advice="remove ~/.cache/iodyno on the host and try again",
            )
        if self._decoder.foreign.strip():
            text = self._decoder.foreign.decode(errors="replace").strip()
            self.warnings.append(
                Warning(
                    WarningCode.FOREIGN_OUTPUT,
                    f"something else wrote {len(self._decoder.foreign)} bytes before the agent's first word:"
                    f" {text[:200]!r}; a start-up file of the remote shell should stay silent",
                    where,
                )
            )
        self._tasks.append(asyncio.create_task(self._beat()))

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._ended:
            raise self._ended
        self._write(message)
        try:
            await self._taken()
        except ConnectionError:
            # The reading side learns why within moments, and says it better.
            await self._until_ended()

    def _write(self, message: Mapping[str, Any]) -> None:
        # No await between number and write: frames leave in the order of their numbers.
        self._streams.writer.write(wire.encode(self._sequence, message))
        self._sequence += 1

    async def _taken(self) -> None:
        """Waits until the way to the agent has room again: for as long as it takes anything, and no longer."""
        writer = self._streams.writer
        left = writer.transport.get_write_buffer_size()
        while True:
            try:
                async with asyncio.timeout(LOST_AFTER_S):
                    await writer.drain()
                return
            except TimeoutError:
                if self._ended:
                    raise self._ended from None
                before, left = left, writer.transport.get_write_buffer_size()
                if left >= before:
                    raise self.failure(
                        "agent_lost",
                        f"the agent has taken nothing for {LOST_AFTER_S:.0f} s of the {left} bytes sent to it",
                        "look whether the host is up and the way to it open",
                    ) from None

    async def _expect(
        self, kinds: str | tuple[str, ...], timeout_s: float, shown_s: float | None = None
    ) -> Message:
        """The next message, which has to be one of `kinds`."""
        allowed = (kinds,) if isinstance(kinds, str) else kinds
        if self._ended and self._messages.empty():
            raise self._ended
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                message = await self._messages.get()
        except TimeoutError:
            raise self._late(f"for {' or '.join(allowed)}", shown_s or timeout_s) from None
        if message is None:
            assert self._ended is not None
            raise self._ended
        if message["type"] == "error":
            raise self.failure(message["code"], message["what"], message["try"], message["where"])
        if message["type"] not in allowed:
            raise self._misunderstood(message["type"], " or ".join(allowed))
        return message

    def _misunderstood(self, said: str, due: str) -> TrialError:
        return self.failure(
            "protocol",
            f"said {said} where {due} was due",
            "report this: iodyno and agent misunderstand each other",
        )

    def _late(self, what: str, timeout_s: float) -> TrialError:
        return self.failure(
            "timeout", f"waited {timeout_s:.1f} s {what}", "look whether the host is overloaded"
        )

    def _forget(self) -> None:
        """Drops what is left over of an earlier job."""
        while not self._messages.empty():
            if self._messages.get_nowait() is None:
                self._messages.put_nowait(None)
                return

    def _check_moving(self, still: list[Message], most_s: float) -> None:
        if len(still) < 2:
            return
        since_s = (still[-1]["end_ns"] - still[0]["begin_ns"]) / 1e9
        if since_s >= most_s:
            raise self.failure(
                "stalled",
                f"no byte moved for {since_s:.1f} s in {len(still)} records",
                "look at the path between the hosts: a cut link, a firewall",
            )

    async def _until_ended(self) -> None:
        async with asyncio.timeout(RESPONSE_TIMEOUT_S):
            await asyncio.wait([self._tasks[0]])
        if self._ended:
            raise self._ended

    async def _read(self) -> None:
        """Takes the agent's messages in until its stream ends."""
        try:
            self._decoder.feed(self._streams.foreign)
            while data := await self._streams.reader.read(1 << 16):
                self._last_frame_ns = time.monotonic_ns()
                for payload in self._decoder.feed(data):
                    self._take(_message(payload), self._last_frame_ns)
        except (wire.FrameError, ValueError) as error:
            self._end(
                self.failure("frame", str(error), "look for something else that writes into the stream")
            )
        except ConnectionError as error:
            self._end(self.failure("agent_lost", f"the stream broke: {error}", "look at the way to the host"))
        else:
            self._end(await self._gone())

    def _take(self, message: Message, now_ns: int) -> None:
        match message.get("type"):
            case "heartbeat":
                pass
            case "probe_reply":
                answered = self._probes.get(message["id"])
                if answered and not answered.done():
                    answered.set_result((message["received_ns"], message["sent_ns"], now_ns))
            case None:
                raise ValueError("a message without a type")
            case _:
                self._messages.put_nowait(message)

    async def _gone(self) -> IodynoError:
        """Why the agent's stream ended; one that is killed may have been in the middle of a frame."""
        cut = ""
        try:
            self._decoder.finish()
        except wire.FrameError as error:
            cut = f"; {error}"
        status = await ended(self._streams.process)
        words = self._streams.process.last_words()
        if not self.hello:
            refused = self._access.trouble(status or 0, words)
            return AccessError(refused.what, where=refused.where, advice=refused.advice)
        words = words.removeprefix(self._words_before).strip()
        how = "its stream was closed" if status is None else _ended_with(status, words)
        last = f"; its last words: {words.splitlines()[-1]}" if words else ""
        return self.failure(
            "agent_lost", f"the agent is gone: {how}{cut}{last}", "look at the system log of the host"
        )

    def _end(self, why: IodynoError) -> None:
        if self._ended is None:
            self._ended = why
            self._messages.put_nowait(None)
            for answered in self._probes.values():
                if not answered.done():
                    answered.set_exception(why)
                    # Who asked may learn it from the way to the agent; then nobody takes it from here, of which Python complains.
                    answered.exception()

    async def _beat(self) -> None:
        """Says from time to time that the lab lives, and listens whether the agent does."""
        while self._ended is None:
            await asyncio.sleep(HEARTBEAT_S)
            silent_s = (time.monotonic_ns() - self._last_frame_ns) / 1e9
            if silent_s > LOST_AFTER_S:
                self._end(
                    self.failure(
                        "agent_lost",
                        f"nothing was heard of the agent for {silent_s:.0f} s",
                        "look whether the host is up and the way to it open",
                    )
                )
                self._streams.process.kill()
                return
            # Without waiting until it is taken: an agent that takes nothing is to be noticed by its silence here.
            with contextlib.suppress(ConnectionError):  # whoever waits for this agent is told
                self._write({"type": "heartbeat"})


def _message(payload: bytes) -> Message:
    """A message; of a record the type and the payload, which is left as it came."""
    if payload.startswith(_RECORD):
        return {"type": "record", "payload": payload}
    found: Message = json.loads(payload)
    return found | {"payload": payload} if found.get("type") == "record" else found


def _ended_with(status: int, words: str) -> str:
    if status == _SIGNAL_OVER_SSH and not words:
        return "ended by a signal there, which ssh does not tell"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"
