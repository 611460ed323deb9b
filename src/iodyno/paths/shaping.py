"""Shapes the path between two namespaces for one trial: a rate, a queue, a delay; and takes it back afterwards.

Rate and queue are a token bucket (tc-tbf(8)) on the device by which the sender's data leaves. It lets a burst pass at
once; what waits for tokens waits in a queue of bytes, or of frames, that drops at its end. With a bucket of one frame
and a queue of q frames of one length, it is a server with a constant service time and K = q + 1 places: what a frame
takes at the rate is the time in which the bucket fills again. There is no delay in a device, so the delay
is a small program (`iodyno.paths.delay`) that holds every packet, both ways, between two tunnel devices; routes to the
single addresses lead the trial's data there while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import AccessError
from iodyno.core.workload import Level
from iodyno.paths import delay
from iodyno.paths.command import answer_of
from iodyno.paths.veth import NamespacePath, receive_on

NO_PATH = "link_rate, link_queue and link_delay need a path that iodyno makes, and there is none"
ADVICE = "give both hosts access: netns, as root; or leave the link as it is"

_SETTINGS = ("link_rate", "link_queue", "link_delay", "link_frames", "link_burst")
"""In the order of `Shape`."""
_HEADERS_BYTES, _FRAME_BYTES = 8 + 20 + 14, 1514
"""Bytes that UDP, the least of all headers, IPv4 and Ethernet put in front of a message; a full frame at the usual MTU."""
_BUCKET = "1:"
"""Handle of the token bucket; what queues in it is its class 1 (tc(8), net/sched/sch_tbf.c)."""
_BURST_NS = 1_000_000
_BURST_LEAST_BYTES = 2_000
"""Tokens of one millisecond, and a full frame at least: a smaller bucket cannot reach the rate where the kernel
looks at it late (tc-tbf(8)); a larger one lets the first of a trial's windows see another rate."""
_QUEUE_NS = 20_000_000
_QUEUE_LEAST_BYTES = 16_000
"""Queue where none is asked for: 20 ms at the rate (chosen: more than a flow leaves in a queue below it; tcp(7))."""
_DELAY_START_S = 10.0
_DELAY_STOP_S = 5.0


@dataclass(frozen=True)
class Shape:
    """Shape that a trial asks of the path; None: left as it is."""

    rate_bits_per_s: int | None = None
    queue_bytes: int | None = None
    delay_ns: int | None = None
    queue_frames: int | None = None
    burst_bytes: int | None = None


def shape_of(settings: Mapping[str, Level]) -> Shape | None:
    """Return the shape that the settings ask of the path; None when they ask for nothing."""
    asked = [settings.get(name) for name in _SETTINGS]
    if all(
        level is None or (name == "link_delay" and not level)
        for name, level in zip(_SETTINGS, asked, strict=True)
    ):
        return None
    return Shape(*(None if level is None else int(level) for level in asked))


def refused(settings: Mapping[str, Level], has_path: bool) -> str | None:
    """Why the path cannot be shaped as the settings ask; None: it can, or nothing is asked."""
    asked = shape_of(settings)
    if asked is None:
        return None
    if not has_path:
        return NO_PATH
    if asked.queue_bytes is not None and asked.rate_bits_per_s is None:
        return "link_queue is set without link_rate: where nothing waits for a rate, there is no queue"
    for name, level in (("link_frames", asked.queue_frames), ("link_burst", asked.burst_bytes)):
        if level is not None and asked.rate_bits_per_s is None:
            return f"{name} is set without link_rate: where nothing waits for a rate, there is no queue"
    size = settings.get("size")
    frame_bytes = min(int(size) + _HEADERS_BYTES, _FRAME_BYTES) if isinstance(size, int) else 0
    if asked.burst_bytes is not None and asked.burst_bytes < frame_bytes:
        few = f"link_burst lets {asked.burst_bytes} bytes pass at once"
        return f"{few}, and a frame of this load has {frame_bytes}: none would pass"
    if asked.queue_bytes is not None and asked.queue_frames is not None:
        return (
            "link_queue and link_frames are both set, and say the same in bytes and in frames: leave one out"
        )
    if asked.delay_ns and (why := delay.unavailable()):
        return f"link_delay cannot be had: {why}"
    return None


@contextlib.asynccontextmanager
async def shaped(
    path: NamespacePath, sender: str, receiver: str, shape: Shape
) -> AsyncIterator[dict[str, Any]]:
    """Shapes the path while the body runs. Gives what was asked and obtained, completed with what the shaper counted
    when the body has ended. Raises AccessError.
    """
    facts: dict[str, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        device = path.ends[sender].device
        if shape.delay_ns:
            device = await stack.enter_async_context(_delayed(path, sender, receiver, shape.delay_ns, facts))
        if shape.rate_bits_per_s is not None:
            end = path.ends[sender].namespace
            await stack.enter_async_context(_limited(end, device, shape, facts))
        yield facts


@contextlib.asynccontextmanager
async def _limited(namespace: str, device: str, shape: Shape, facts: dict[str, Any]) -> AsyncIterator[None]:
    rate = shape.rate_bits_per_s or 0
    queue = shape.queue_bytes or max(_QUEUE_LEAST_BYTES, rate * _QUEUE_NS // (8 * 10**9))
    # What is larger than the bucket is cut into frames. What were smaller than the bucket and larger than the queue
    # would be dropped whole, again and again (net/sched/sch_tbf.c).
    burst = shape.burst_bytes or max(_BURST_LEAST_BYTES, min(rate * _BURST_NS // (8 * 10**9), queue // 2))
    wanted = ("rate", f"{rate}bit", "burst", str(burst), "limit", str(queue))
    on = ("tc", "-n", namespace, "qdisc", "replace", "dev", device)
    await _run(*on, "root", "handle", _BUCKET, "tbf", *wanted)
    try:
        if shape.queue_frames is not None:
            # In place of the bucket's own queue of bytes, whose limit a frame of another length would bend.
            await _run(*on, "parent", f"{_BUCKET}1", "pfifo", "limit", str(shape.queue_frames))
            facts["link_frames"] = {
                "asked": shape.queue_frames,
                "obtained": (await _counted(namespace, device, "pfifo")).get("options", {}).get("limit"),
            }
        got = (await _counted(namespace, device)).get("options", {})
        facts |= {
            "device": device,
            "link_rate": {"asked": rate, "obtained": got.get("rate", 0) * 8},
            "link_queue": {"asked": shape.queue_bytes, "obtained": got.get("limit")},
            "link_burst": {"asked": shape.burst_bytes, "obtained": got.get("burst")},
        }
        yield
        counted = await _counted(namespace, device)
        facts["shaper"] = {key: counted.get(key) for key in ("bytes", "packets", "drops", "overlimits")}
    finally:
        await _run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root", fails=False)


async def _counted(namespace: str, device: str, kind: str = "tbf") -> dict[str, Any]:
    said = await _run("tc", "-n", namespace, "-s", "-r", "-j", "qdisc", "show", "dev", device)
    found: list[dict[str, Any]] = json.loads(said)
    return next((entry for entry in found if entry.get("kind") == kind), {})


@contextlib.asynccontextmanager
async def _delayed(
    path: NamespacePath, sender: str, receiver: str, delay_ns: int, facts: dict[str, Any]
) -> AsyncIterator[str]:
    """Leads the data of both ends over a program that delays it; gives the name of the devices."""
    ends = [path.ends[sender], path.ends[receiver]]
    try:
        process = await _start_delay([end.namespace for end in ends], delay_ns)
    except OSError as error:
        raise AccessError(
            f"the delay cannot be made: {error}", where="the path", advice="leave link_delay out"
        ) from error
    try:
        for end, other in (ends, reversed(ends)):
            inside = ("ip", "-n", end.namespace)
            await _run(*inside, "link", "set", delay.DEVICE, "up", "txqueuelen", "10000")
            await _run(
                *inside, "route", "replace", f"{other.address}/32", "dev", delay.DEVICE, "src", end.address
            )
            await receive_on(end, delay.DEVICE)
        facts["link_delay"] = {"asked": delay_ns, "obtained": None}
        yield delay.DEVICE
    finally:
        # The devices, and the routes over them, end with the program.
        found = await _stop_delay(process)
        facts["link_delay"] = {"asked": delay_ns, "obtained": found.get("held_mean_ns")}
        facts["relay"] = found


async def _start_delay(namespaces: Sequence[str], delay_ns: int) -> asyncio.subprocess.Process:
    """Starts the program between two namespaces; its devices are there when this returns. Raises OSError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", delay.__file__, str(delay_ns), *namespaces),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None and process.stderr is not None
    why = ""
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DELAY_START_S):
                if (await process.stdout.readline()).strip() == b"ready":
                    return process
                why = (await process.stderr.read()).decode(errors="replace").strip()
    except BaseException:
        await _stop_delay(process)
        raise
    await _stop_delay(process)
    raise OSError(
        f"the program that delays packets did not start: {why.splitlines()[-1] if why else 'no word'}"
    )


async def _stop_delay(process: asyncio.subprocess.Process) -> dict[str, Any]:
    """Ends the program, by the end of its stdin; gives what it counted, nothing when it died before."""
    try:
        said, _ = await answer_of(process, ("delay",), b"", _DELAY_STOP_S)
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
    except (AccessError, ValueError, IndexError):
        return {}
    return found


async def _run(*words: str, fails: bool = True) -> str:
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    said, complaint = await answer_of(process, words)
    if process.returncode != 0 and fails:
        raise AccessError(
            f"the kernel refused: {complaint.decode(errors='replace').strip() or process.returncode}",
            where=f"`{' '.join(words[:9])}`",
            advice="look whether this kernel has the queueing discipline tbf (modprobe sch_tbf), or leave the link as it is",
        )
    return said.decode(errors="replace")
