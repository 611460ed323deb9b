"""Checks before the first trial that the hosts can carry the load of the experiment.

Each check is a line `{check, ok, text}`. One that fails ends the campaign with every reason at once; the idle check
only raises a warning, since background is measured and subtracted.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from errno import EACCES, EADDRINUSE, EPERM
from os import strerror
from typing import Any

from iodyno.campaign import rendezvous
from iodyno.campaign.account import Account
from iodyno.campaign.job import as_asked, job_of, with_port
from iodyno.campaign.preflight_lines import Check, Line, congestion_line, line, mib, or_unknown
from iodyno.campaign.testbed import Testbed, path_of, together
from iodyno.campaign.trial import carry_out
from iodyno.core.asked import load_of
from iodyno.core.design import Design
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.quantity import counted
from iodyno.core.submission import submission
from iodyno.core.warnings import Warning, WarningCode
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import load_for
from iodyno.paths import shaping
from iodyno.session import refusals
from iodyno.session.sent import SentRecord

_SPARE_DESCRIPTORS = 64
_SPARE_THREADS = 32
_PER_CONNECTION_BYTES = 16 << 10
"""Chosen: of agent and kernel 7 KiB were measured, with 100 000 in epoll and little under way."""
_PER_THREAD_BYTES = 128 << 10
_PER_MESSAGE_BYTES = 1 << 10
_SPARE_BYTES = 64 << 20
_DEFAULT_BUFFER_BYTES = 128 << 10  # tcp_rmem's default; the sender's is smaller
_COARSE_STEP_NS = 1_000
_TEST_NS = 100_000_000
_TEST_HERE_NS = 20_000_000
"""Time for which data is sent in a test, less between hosts of the lab's machine (chosen: thousands of messages)."""

_FULL_BYTES = 64 << 10
"""Bytes of a message that fills packets of any MTU."""
_NO_RIGHT = (strerror(EPERM), strerror(EACCES))
"""Messages of the kernel to whoever may not set a tunable."""
_NOT_MET = ("cannot connect", "cannot listen")
"""Messages of an agent that does not reach the other end, or has not the address at which it is to be reached."""
_SLOW = ("think", "reader_think", "compute", "sender_quota", "receiver_quota", "quota", "device_limit")
_ARRIVALS = ("rate", "arrivals", "rate_of", "burst_on", "burst_off")
_TEST_MOST = {"size": 1 << 20, "response_size": 1 << 20, "queue_depth": 16}


class NoDataError(PreflightError):
    """The hosts do not reach each other with data."""


async def preflight(testbed: Testbed, design: Design, note: Callable[[Warning], None]) -> list[Line]:
    """Every check of the points that the testbed is for, in order. Raises PreflightError when one of them fails."""
    experiment = testbed.experiment
    own = [experiment.settings(point.levels) for point in design.points]
    own = [point for point in own if path_of(point) == testbed.path]
    load = load_for(experiment)
    settings = [load.settings(experiment, point) for point in own]
    tunables = await _tunables(testbed, settings, note)
    refused = await _refused(testbed, own)
    checks = [*load.checks(testbed, settings, own), *_clocks(testbed, note), *tunables, *refused]
    failed = [(each, advice) for each, advice in checks if not each["ok"]]
    if failed:
        raise PreflightError(
            "; ".join(each["text"] for each, _ in failed),
            where=f"preflight of {_level(testbed)}" if testbed.path else "preflight",
            advice="; ".join(dict.fromkeys(advice for _, advice in failed)),
        )
    lines = [*(each for each, _ in checks), *await load.test(testbed, settings, own, note)]
    return (
        [each | {"text": f"{_level(testbed)}: {each['text']}"} for each in lines] if testbed.path else lines
    )


def _level(testbed: Testbed) -> str:
    """The level that the testbed is for, in words."""
    return f"{'volume' if testbed.volume else 'path'} {testbed.path}"


def idle_line(testbed: Testbed, busy: Mapping[str, float | None], note: Callable[[Warning], None]) -> Line:
    """The idle check, from the busy share of each host's CPUs in the background measurement before the trials."""
    limit = testbed.experiment.limits.background_ratio
    over = {host: ratio for host, ratio in busy.items() if ratio is not None and ratio > limit}
    for host, ratio in over.items():
        text = (
            f"the idle host was {ratio:.1%} busy, more than {limit:.0%}: its costs are less what runs beside, which may be"
            " another under load"
        )
        note(Warning(WarningCode.HOST_BUSY, text, f"host {host}"))
    shown = ", ".join(f"{host} {'unknown' if r is None else f'{r:.1%}'}" for host, r in busy.items())
    return line("idle", not over, f"busy with no load on: {shown}; allowed {limit:.0%}")[0]


def of_connections(testbed: Testbed, settings: list[dict[str, Level]]) -> list[Check]:
    """Check that the hosts have what the connections of every point need."""
    parts = (_limits, _memory, _congestion, _shaping, _transports, _rings)
    return [each for check in parts for each in check(testbed, settings)]


def _limits(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    each = max(int(point["connections"]) for point in settings)
    by_threads = max(
        (int(p["connections"]) for p in settings if p.get("engine", "threads") == "threads"), default=0
    )
    for host, session in testbed.sessions.items():
        facts = session.hello["host"]
        most, threads = each * _others(testbed, host), by_threads * _others(testbed, host)
        have, need = facts["descriptors_limit"], most + _SPARE_DESCRIPTORS
        yield line(
            "descriptors",
            have is None or need <= have,
            f"host {host}: {counted(most, 'connection')} need{'s' * (most == 1)} {need} descriptors, "
            f"it may have {or_unknown(have)}",
            f"raise the limit there (ulimit -Hn, LimitNOFILE) to {need}, or use fewer connections",
        )
        if threads:
            have, need = facts["threads_limit"], threads + _SPARE_THREADS
            yield line(
                "threads",
                have is None or need <= have,
                f"host {host}: {counted(threads, 'connection')} with engine threads need{'s' * (threads == 1)} {need} "
                f"threads, it may have {or_unknown(have)}",
                "use engine: epoll, or raise the limit there (ulimit -u, pids.max)",
            )


def _memory(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    """Hosts with one boot id share one memory."""
    machines: dict[str, list[str]] = {}
    senders = testbed.experiment.workload.senders
    for host in _loaded(testbed):
        machines.setdefault(testbed.sessions[host].hello["host"]["boot_id"] or host, []).append(host)
    for hosts in machines.values():
        have = min(
            (
                m
                for host in hosts
                if (m := testbed.sessions[host].hello["host"]["memory_available_bytes"]) is not None
            ),
            default=None,
        )
        need = max(
            sum(_others(testbed, host) * _needed_bytes(point, host in senders) for host in hosts)
            for point in settings
        )
        yield line(
            "memory",
            have is None or need <= have,
            f"host {' and '.join(hosts)}: buffers and threads may take {mib(need)}, {mib(have)} are available",
            "use fewer connections or a smaller window, or free memory",
        )


def _needed_bytes(point: Mapping[str, Level], sends: bool) -> int:
    given = point.get("window", _DEFAULT_BUFFER_BYTES)
    buffer = int(point.get("send_buffer" if sends else "receive_buffer", given))
    if "response_size" in point and "sizes" not in point:
        # Nothing else waits in it than requests or answers under way.
        message = max(int(point["size"]), int(point["response_size"])) + _PER_MESSAGE_BYTES
        buffer = min(buffer, int(point.get("queue_depth", 1)) * message)
    threads = point.get("engine", "threads") == "threads"
    own = _PER_THREAD_BYTES if threads else _PER_CONNECTION_BYTES
    return int(point["connections"]) * (2 * buffer + own) + _SPARE_BYTES


def _congestion(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    asked = {str(point["congestion_control"]) for point in settings if "congestion_control" in point}
    for host in _loaded(testbed) if asked else []:
        yield congestion_line(host, asked, testbed.sessions[host].hello["host"]["congestion_controls"])


def _shaping(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    asked = {
        text: None for point in settings if (text := shaping.refused(point, testbed.hosts.may_be_shaped))
    }
    for text in asked:
        yield line("path", False, text, shaping.ADVICE)


def _transports(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    for transport in sorted({str(point.get("transport", "tcp")) for point in settings}):
        if why := rendezvous.refused(testbed, transport):
            yield line("transport", False, why, rendezvous.ADVICE)


def _rings(testbed: Testbed, settings: list[dict[str, Level]]) -> Iterator[Check]:
    """Rings take frames of a device; without the right to make one, hosts have the loopback device, which has none."""
    if not testbed.hosts.fallback:
        return
    ways = {submission(role, point) for point in settings for role in ("send", "receive")}
    if any(way.transport is not None or way.engine == "reflector" for way in ways):
        text = f"rings take frames of a device between hosts, and there is none, because {testbed.hosts.fallback}"
        yield line(
            "rings", False, text, "run as root, or take a client and a server that make calls of sockets"
        )


async def _refused(testbed: Testbed, settings: list[dict[str, Level]]) -> list[Check]:
    """Ask the agents of the hosts what they would refuse there, as their kernels lack it."""
    wrong: dict[tuple[str, str], None] = {}

    async def of(host: str, role: str) -> tuple[str, list[refusals.Refusal | None]]:
        jobs = {json.dumps(_job(testbed, host, role, point)): None for point in settings}
        access = testbed.hosts.accesses[host]
        return host, await refusals.there(access, testbed.program, list(map(json.loads, jobs)))

    roles = load_for(testbed.experiment).roles(testbed.experiment, settings[0])
    # What a host does for itself every kernel has; an agent in a sandbox or a guest is asked nothing else while it serves; hosts
    # of one end on one machine have the same kernel.
    asked = [
        of(host, role)
        for host, role in roles.items()
        if role in ("send", "receive")
        and not testbed.observers
        and testbed.experiment.hosts[host].access != "simulated"
        and testbed.leads(host)
    ]
    for host, refused in await together(asked):
        for refusal in filter(None, refused):
            wrong[f"{as_asked(f'host {host}: {refusal.key}')}: {refusal.what}", refusal.advice] = None
    return [line("load", False, what, advice) for what, advice in wrong]


def _job(testbed: Testbed, host: str, role: str, settings: Mapping[str, Level]) -> dict[str, Any]:
    """The job of a host at a point, with a port for that which the receiver is to choose."""
    job = job_of(testbed, host, 32 * "0", host, role, settings, testbed.experiment.windows)
    if role == "send":
        receivers = testbed.experiment.workload.receivers
        first, *others = [with_port(testbed.hosts.data_address(one, host), 1, one) for one in receivers]
        load_of(job).update({"address": first, **({"remote_addresses": others} if others else {})})
    return job


async def _tunables(
    testbed: Testbed, settings: list[dict[str, Level]], note: Callable[[Warning], None]
) -> list[Check]:
    """Every combination of tunables that a trial asks for is tried out: set, read back, restored."""
    if not any(asked for point in settings for asked in testbed.tunables.asked(point).values()):
        return []
    if testbed.hosts.fallback:
        # They would be set for the whole machine, whose settings are not the experiment's to change.
        text = f"tunables are set in namespaces of the hosts, and there are none, because {testbed.hosts.fallback}"
        return [line("tunables", False, text, "run as root, or leave the tunables out")]
    before = len(testbed.tunables.warnings)
    wrong = await testbed.tunables.try_out(settings)
    for warning in testbed.tunables.warnings[before:]:
        note(warning)
    advice = "leave that tunable or level out; `iodyno tunables` shows what a host has"
    if wrong:
        if any(words in text for text in wrong for words in _NO_RIGHT):
            advice = f"run as root, or {advice}"
        return [line("tunables", False, text, advice) for text in wrong]
    return [line("tunables", True, "every tunable could be set as the trials ask, and was restored")]


def _clocks(testbed: Testbed, note: Callable[[Warning], None]) -> Iterator[Check]:
    for host, session in testbed.sessions.items():
        clock = session.hello["clock"]
        coarse = clock["step_ns"] > _COARSE_STEP_NS
        text = (
            f"host {host}: operations are timed with {clock['operations_timed_with']},"
            f" which steps by {clock['step_ns']:.0f} ns and costs {clock['read_cost_ns']:.0f} ns a reading"
        )
        if coarse:
            note(Warning(WarningCode.COARSE_CLOCK, text + "; service times are no finer", f"host {host}"))
        yield line("clock", True, text)


async def data(testbed: Testbed, settings: Mapping[str, Level]) -> Line:
    """Check that both ends reach each other with data: a very short trial of one connection."""
    began_ns = time.monotonic_ns()
    moved = 0

    def count(host: str, record: SentRecord) -> None:
        nonlocal moved
        moved += record.progress["bytes"] if host in testbed.experiment.workload.receivers else 0

    workload = testbed.experiment.workload
    sender, receiver = (_shown(end) for end in (workload.senders, workload.receivers))
    # What makes the application slow on purpose would only make the test slow, and of few arrivals it may see none; the
    # path is part of it.
    tested = {name: level for name, level in settings.items() if name not in (*_SLOW, *_ARRIVALS)}
    # Nor has it the time for sixteen answers of a GiB.
    tested |= {name: min(int(tested[name]), most) for name, most in _TEST_MOST.items() if name in tested}
    delay_ns = int(settings.get("link_delay", 0))
    # A kernel in a sandbox or a guest takes longer to its first byte (chosen: ten times).
    least_ns = 10 * _TEST_NS if testbed.observers else _TEST_NS
    if not testbed.observers and all(map(testbed.on_this_machine, workload.ends)):
        least_ns = _TEST_HERE_NS
    measured_ns = least_ns + 4 * delay_ns

    async def test(times: int) -> None:
        windows = Windows(0, times * measured_ns, measured_ns // 10, times * measured_ns)
        # Whether bytes move is seen without sensors.
        bare = copy.copy(testbed)
        bare.experiment = replace(testbed.experiment, sensors="off", profile_hz=0)
        await carry_out(bare, "preflight", {**tested, "connections": 1}, windows, Account(), count)

    try:
        await testbed.in_time(test)
    except TrialError as error:
        what = f"{sender} cannot send data to {receiver}: {error.what}"
        raise NoDataError(what, where=error.where, advice=_way_of_data(testbed, settings, error)) from error
    took_ms = (time.monotonic_ns() - began_ns) / 1e6
    text = f"{sender} sent {mib(moved)} to {receiver} in a test of {took_ms:.0f} ms"
    return line("data", True, text)[0]


async def full_packets(testbed: Testbed, points: Iterable[Mapping[str, Level]]) -> list[Line]:
    """Check that full packets pass at each MTU that the points ask for: of requests both ways. Raises NoDataError."""
    lines: list[Line] = []
    tried = []
    for point in points:
        mtus = _mtus_of(point)
        if not mtus or mtus in tried or point.get("transport", "tcp") not in ("tcp", "tls"):
            continue
        tried.append(mtus)
        full = {n: max(int(point[n]), _FULL_BYTES) for n in ("size", "response_size") if n in point}
        drawn = {name: level for name, level in point.items() if name != "sizes"}
        lines.append(await data(testbed, {**drawn, **full}))
    return lines


def _mtus_of(point: Mapping[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in point.items() if name.endswith(".mtu")}


def _way_of_data(testbed: Testbed, settings: Mapping[str, Level], error: TrialError) -> str:
    """Return advice where the ends do not meet: the lab starts both, so that mostly it is the address of a host elsewhere."""
    full = int(settings.get("size", _FULL_BYTES)) >= _FULL_BYTES
    if error.code == "stalled" and full and (mtus := _mtus_of(settings)):
        asked = ", ".join(f"{name} {level}" for name, level in mtus.items())
        return f"with {asked} no full packet arrives: give what lies between the hosts that MTU too, or take a smaller one"
    sender, receiver = testbed.experiment.workload.sender, testbed.experiment.workload.receiver
    spec, taken = testbed.experiment.hosts[receiver], strerror(EADDRINUSE) in error.what
    if spec.access != "ssh" or taken or not any(words in error.what for words in _NOT_MET):
        return error.advice
    address = testbed.hosts.data_address(receiver, sender)
    if spec.address:
        return f"data goes to {address}, the `address` of host {receiver}: see whether it has that one, and {sender} a way to it"
    return (
        f"data goes to {address}, the address at which ssh reached host {receiver}; where {sender} reaches it at another one"
        f" (behind a ProxyJump, a forwarded port, a private network), give host {receiver} an `address:`"
    )


def _loaded(testbed: Testbed) -> tuple[str, ...]:
    return testbed.experiment.workload.ends


def _shown(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} to {hosts[-1]}"


def _others(testbed: Testbed, host: str) -> int:
    """Number of hosts at the other end that a host has connections with; 1 where the load says them itself."""
    workload = testbed.experiment.workload
    if not load_for(testbed.experiment).of_each_pair or host not in workload.ends:
        return 1
    return len(workload.receivers_of(host) if host in workload.senders else workload.senders_to(host))
