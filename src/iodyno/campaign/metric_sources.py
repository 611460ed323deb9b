"""Reads the metrics of other programs while a trial runs: by HTTP, by a command, out of a file with times.

The lab reads, on its own monotonic clock: a value was what it is between the moment before the request and that after the answer.
A source with times of its own is read when the load is over; its clock is compared with the lab's meanwhile. Nothing that a
source does fails a trial: what could not be read is missing, with the reason.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from iodyno.core.errors import IodynoError
from iodyno.core.experiment import Windows
from iodyno.core.metric_source import MOST_SAMPLES, READERS, MetricSource
from iodyno.hosts.access import Access, AgentProgram, let_go
from iodyno.hosts.guard import Guard, GuardLostError
from iodyno.session.accesses import refuse_program

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

Row = Mapping[str, Any]
"""A reading of one metric: `source`, `metric`, `before_ns` and `after_ns` since the load began, `value` or `missing`."""
Values = Mapping[str, float | str]
"""Values read, by name: a number, or why there is none."""

MOST_BYTES = 16 << 20
"""Most bytes of an answer (chosen: a page of a hundred thousand metrics). Of a longer file the end is read."""
_PROBES = 5
"""Looks at a clock while the load is on (chosen: a clock that tells whole seconds is known to some 0.2 s by then)."""
_ASKED_AT_MOST = 11_000
"""Points that a Prometheus server gives at most."""
_SECOND_NS, _MS_NS = 10**9, 10**6
_T = TypeVar("_T")


class _UnreadError(Exception):
    """A source could not be read; says why."""


def check_permission(sources: Mapping[str, MetricSource]) -> None:
    """Raises AccessError for a command that the user has not allowed: the experiment file may be somebody else's."""
    for source in sources.values():
        if command := _command_of(source):
            refuse_program(command[0], f"metrics {source.name}", "it")


@dataclass(frozen=True)
class Offset:
    """Clock of a source less the lab's monotonic one: between two bounds, found `by` some means."""

    low_ns: int
    high_ns: int
    by: str

    @property
    def middle_ns(self) -> int:
        """The middle of both."""
        return (self.low_ns + self.high_ns) // 2

    @property
    def error_ns(self) -> int:
        """Half of what lies between them."""
        return (self.high_ns - self.low_ns + 1) // 2


def meet(offsets: Sequence[Offset]) -> Offset | None:
    """The bounds that all of them have in common; None without any, or where they contradict each other."""
    if not offsets:
        return None
    low, high = max(one.low_ns for one in offsets), min(one.high_ns for one in offsets)
    return Offset(low, high, offsets[0].by) if low <= high else None


def due(windows: Windows, every_ns: int) -> Iterator[int]:
    """Times since the load began at which a source is read: both ends of the measured window, and in step with its begin."""
    begin, end = windows.warm_up_ns, windows.warm_up_ns + windows.measured_ns
    yield from range(begin % every_ns, begin, every_ns)
    yield from range(begin, max(begin + 1, end - every_ns // 2), every_ns)
    yield end


class Adapters:
    """The adapters of hosts, each looked at by a process there that stays for the campaign. `peers`: by host, the address of the
    other end, which tells the device that carries the data.
    """

    def __init__(
        self,
        accesses: Mapping[str, Access],
        program: AgentProgram,
        peers: Mapping[str, str | None],
    ) -> None:
        self._accesses, self._program, self._peers = accesses, program, peers
        self._guards: dict[str, Guard] = {}
        self._found: dict[tuple[str, str], tuple[str, str]] = {}

    async def get_ready(self, sources: Iterable[MetricSource]) -> None:
        """Begins to look, before the load is on; what cannot be had is said when it is read."""
        for source in sources:
            if source.reader == "nic":
                with suppress(IodynoError, GuardLostError, _UnreadError, LookupError, ValueError):
                    await self._device(source)

    async def read(self, source: MetricSource) -> tuple[str, str]:
        """Driver and statistics of the adapter. Raises AccessError, GuardLostError and _UnreadError."""
        guard, device, driver = await self._device(source)
        return driver, await _seen(guard, "ethtool", "-S", device)

    async def close(self) -> None:
        """Ends the processes."""
        await asyncio.gather(*(guard.close() for guard in self._guards.values()))
        self._guards.clear()

    async def _device(self, source: MetricSource) -> tuple[Guard, str, str]:
        host, key = source.place[0], (source.place[0], source.device)
        guard = self._guards.get(host)
        if guard is None or not guard.alive:
            guard = self._guards[host] = await Guard.start(self._accesses[host], self._program)
        if key not in self._found:
            device = source.device
            if not device:
                route = json.loads(await _seen(guard, "ip", "-json", "route", "get", self._peers[host] or ""))
                device = str(route[0]["dev"])
            told = await _seen(guard, "ethtool", "-i", device)
            driver = next((line[7:].strip() for line in told.splitlines() if line.startswith("driver:")), "")
            self._found[key] = device, driver
        return guard, *self._found[key]


async def _seen(guard: Guard, *words: str) -> str:
    """Run a command on the host of a guard; return what it prints."""
    (seen,) = await guard.look([{"run": list(words)}])
    if seen.text is None:
        raise _UnreadError(seen.error or "no reason was given")
    return seen.text


class MetricReadings:
    """The readings of one trial, whose load begins at `start_ns` of the lab's monotonic clock; `keep` takes each."""

    def __init__(
        self,
        sources: Mapping[str, MetricSource],
        start_ns: int,
        windows: Windows,
        keep: Callable[[Row], None],
        nic: Callable[[MetricSource], Awaitable[tuple[str, str]]] | None = None,
    ) -> None:
        self._start_ns, self._windows, self._keep = start_ns, windows, keep
        self._nic = nic
        self._over = asyncio.Event()
        self.clocks: dict[str, dict[str, Any]] = {}
        self._tasks = [
            asyncio.ensure_future(self._dated(one) if READERS[one.reader].dated else self._poll(one))
            for one in sources.values()
        ]

    async def end(self) -> None:
        """The load is over: waits for what is being read, no longer than each source may take."""
        self._over.set()
        await asyncio.gather(*self._tasks)

    async def cancel(self) -> None:
        """The trial failed: reads no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _until(self, wait_ns: int) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), max(0, wait_ns) / 1e9)

    async def _poll(self, source: MetricSource) -> None:
        times = list(due(self._windows, source.every_ns))
        for place, due_ns in enumerate(times):
            wait_ns = self._start_ns + due_ns - time.monotonic_ns()
            if wait_ns < -source.every_ns // 2 and place + 1 < len(times):
                continue  # the one before took longer than its turn
            await self._until(wait_ns)
            if self._over.is_set():
                return
            before_ns = time.monotonic_ns()
            found = await _or_why(self._read(source), source)
            self._add(source, before_ns, time.monotonic_ns(), found)

    async def _read(self, source: MetricSource) -> Values:
        if source.reader != "nic":
            return await _read(source)
        if self._nic is None:
            raise _UnreadError("no host is there")
        from iodyno.formats.nic_statistics import of_nic

        driver, text = await self._nic(source)
        return of_nic(text, driver, source.values)

    def _add(self, source: MetricSource, before_ns: int, after_ns: int, found: Values | str) -> None:
        for name in source.values:
            one = found if isinstance(found, str) else found[name]
            self._put(source, name, before_ns, after_ns, one)

    def _put(self, source: MetricSource, name: str, before_ns: int, after_ns: int, one: float | str) -> None:
        self._keep(
            {
                "source": source.name,
                "metric": name,
                "before_ns": before_ns - self._start_ns,
                "after_ns": after_ns - self._start_ns,
                "value": one if isinstance(one, float) else None,
                "missing": one if isinstance(one, str) else None,
            }
        )

    async def _dated(self, source: MetricSource) -> None:
        offsets: list[Offset] = []
        why = ""
        while True:
            found = await _or_why(_offset(source), source)
            if isinstance(found, str):
                why = found
            else:
                offsets.append(found)
            if self._over.is_set():
                break
            # Not in step with the seconds that the source may tell.
            await self._until(self._windows.load_ns // _PROBES + 137 * _MS_NS)
        begin_ns, end_ns = self._start_ns, self._start_ns + self._windows.load_ns
        offset = meet(offsets)
        if offset is None:
            why = "it was set meanwhile" if offsets else why
            self._add(source, begin_ns, end_ns, f"its clock cannot be compared: {why}")
            return
        here = Offset(*_lab_clock(), "")
        self.clocks[source.name] = {
            "offset_ns": offset.middle_ns - here.middle_ns,
            "error_ns": offset.error_ns,
            "by": offset.by,
        }
        between = begin_ns + offset.low_ns, end_ns + offset.high_ns
        dated = await _or_why(_read_dated(source, between), source)
        for name in source.values:
            samples = dated if isinstance(dated, str) else dated[name]
            if isinstance(samples, str) or not samples:
                why = samples if isinstance(samples, str) else "no sample is of the time of the load"
                self._put(source, name, begin_ns, end_ns, why)
                continue
            for at_ns, value in samples[:MOST_SAMPLES]:
                self._put(source, name, at_ns - offset.high_ns, at_ns - offset.low_ns, value)


async def _or_why(reading: Awaitable[_T], source: MetricSource) -> _T | str:
    """Read a source: values, or why there are none. Whatever a source answers, the trial goes on."""
    try:
        return await asyncio.wait_for(reading, source.timeout_ns / 1e9)
    except TimeoutError:
        return f"no answer within {source.timeout_ns / 1e9:g} s"
    except (_UnreadError, GuardLostError, IodynoError) as error:
        return getattr(error, "what", "") or str(error)
    except OSError as error:
        return f"{getattr(error, 'reason', None) or error.strerror or error}"[:200]
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"[:200]


async def _read(source: MetricSource) -> Values:
    from iodyno.formats import metric_answers as answers

    if source.reader == "prometheus":
        text, _ = await _in_thread(_get, source.place[0], source.timeout_ns)
        return await _in_thread(answers.of_exposition, text, source.values)
    text = await _printed(_command_of(source))
    return (answers.of_snmp if source.reader == "snmp" else answers.of_lines)(text, source.values)


def _command_of(source: MetricSource) -> tuple[str, ...]:
    """The command that reads the source; empty where there is none."""
    if source.reader != "snmp":
        return source.place if source.reader == "command" else ()
    timeout = str(max(1, round(source.timeout_ns / 1e9)))
    ways = ("-v2c", "-c", source.community, "-Oqvt", "-r", "0", "-t", timeout)
    return ("snmpget", *ways, *source.place, *(value.name for value in source.values.values()))


async def _printed(command: Sequence[str]) -> str:
    """The output of a command that ended well; it is killed with all that it started when it is not waited for any more."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )
    )
    try:
        process = await asyncio.shield(starting)
        assert process.stdout is not None and process.stderr is not None
        printed, said = await asyncio.gather(_taken(process.stdout), _taken(process.stderr))
        status = await process.wait()
    finally:
        # Also one that is being started while it is given up.
        process = await starting
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        let_go(process)
        await process.wait()
    if status:
        last = said.strip().rpartition("\n")[2]
        raise _UnreadError(f"`{command[0]}` ended with status {status}{f': {last[:100]}' if last else ''}")
    return printed


async def _taken(stream: asyncio.StreamReader) -> str:
    taken = bytearray()
    while data := await stream.read(1 << 16):
        taken += data
        if len(taken) > MOST_BYTES:
            raise _UnreadError(f"it printed more than {MOST_BYTES >> 20} MiB")
    return taken.decode(errors="replace")


async def _read_dated(
    source: MetricSource, between: tuple[int, int]
) -> Mapping[str, list[tuple[int, float]] | str]:
    """Samples of the times `between` two of the source's clock."""
    from urllib.parse import urlencode

    from iodyno.formats import metric_answers as answers

    (place,) = source.place
    if source.reader == "csv":
        text = (
            await _in_thread(_content, place)
            if place.startswith("/")
            else (await _in_thread(_get, place, source.timeout_ns))[0]
        )
        return await _in_thread(answers.of_csv, text, source.values, source.time_column, between)
    step_ns = max(source.every_ns, -(-(between[1] - between[0]) // _ASKED_AT_MOST))
    found: dict[str, list[tuple[int, float]] | str] = {}
    for name, value in source.values.items():
        asked = {
            "query": value.name,
            "start": f"{between[0] / 1e9:.3f}",
            "end": f"{between[1] / 1e9:.3f}",
            "step": f"{step_ns / 1e9:.3f}",
        }
        address = f"{place.rstrip('/')}/api/v1/query_range?{urlencode(asked)}"
        text, _ = await _in_thread(_get, address, source.timeout_ns)
        found[name] = await _in_thread(answers.of_range, text)
    return found


async def _offset(source: MetricSource) -> Offset:
    """One look at the clock of a source with times."""
    from email.utils import parsedate_to_datetime

    from iodyno.formats import metric_answers as answers

    (place,) = source.place
    if place.startswith("/"):
        low, high = _lab_clock()
        return Offset(low - source.clock_error_ns, high + source.clock_error_ns, "iodyno's own clock")
    before_ns = time.monotonic_ns()
    if source.reader == "csv":
        _, date = await _in_thread(_get, place, source.timeout_ns, "HEAD")
        after_ns, told_ns = time.monotonic_ns(), round(parsedate_to_datetime(date).timestamp()) * _SECOND_NS
        # Whole seconds, whose rest is cut off.
        return Offset(told_ns - after_ns, told_ns + _SECOND_NS - before_ns, "the Date of its answers")
    address = f"{place.rstrip('/')}/api/v1/query?query=time()"
    text, _ = await _in_thread(_get, address, source.timeout_ns)
    after_ns, told_ns = time.monotonic_ns(), answers.server_time(text)
    return Offset(told_ns - _MS_NS - after_ns, told_ns + _MS_NS - before_ns, "its answers to time()")


def _lab_clock() -> tuple[int, int]:
    """Bounds of the lab's wall clock less its monotonic one."""
    before_ns = time.monotonic_ns()
    wall_ns = time.time_ns()
    return wall_ns - time.monotonic_ns(), wall_ns - before_ns


async def _in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """The result of a function that may block for longer than it is waited for: its thread keeps nobody from ending."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def settle(result: _T | None, error: Exception | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: _T | None = None
        error: Exception | None = None
        try:
            result = function(*arguments)
        except Exception as raised:  # noqa: BLE001 - handed on
            error = raised
        with suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="metrics", daemon=True).start()
    return await done


def _opener() -> OpenerDirector:
    """One that follows no redirection, and knows neither files nor proxies."""
    from urllib import request

    opener = request.OpenerDirector()
    handlers: Iterable[type[request.BaseHandler]] = (
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPErrorProcessor,
        request.HTTPDefaultErrorHandler,
    )
    for handler in handlers:
        opener.add_handler(handler())
    return opener


def _get(address: str, timeout_ns: int, method: str = "GET") -> tuple[str, str]:
    """The text at an address and the Date of the answer. Raises OSError and _UnreadError."""
    # Imported here: most campaigns ask nobody, and it takes its time.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    end_s, taken = time.monotonic() + timeout_ns / 1e9, bytearray()
    headers = {"Accept": "text/plain;version=0.0.4, text/csv, application/json", "User-Agent": "iodyno"}
    request = Request(address, headers=headers, method=method)
    try:
        with _opener().open(request, timeout=timeout_ns / 1e9) as answer:
            while data := answer.read1(1 << 16):
                taken += data
                if len(taken) > MOST_BYTES:
                    raise _UnreadError(f"its answer is longer than {MOST_BYTES >> 20} MiB")
                if time.monotonic() > end_s:
                    raise TimeoutError
            return taken.decode(errors="replace"), answer.headers.get("Date", "")
    except HTTPError as error:
        with error:
            raise _UnreadError(str(error)) from None
    except HTTPException as error:
        raise _UnreadError(f"{type(error).__name__}: {error}") from None


def _content(place: str) -> str:
    """The text of a file; of a long one the head line and the end."""
    # A pipe without a writer keeps nobody waiting.
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise _UnreadError(f"{place} is no file")
        head = file.readline(1 << 16)
        if about.st_size - len(head) > MOST_BYTES:
            file.seek(about.st_size - MOST_BYTES)
            file.readline()
        return (head + file.read(MOST_BYTES)).decode(errors="replace")
