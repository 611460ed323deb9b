"""One trial: clocks, jobs, start, records, results, and what is said of them. It stores nothing itself."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from iodyno.campaign.rig import Rig, together
from iodyno.core.errors import PreflightError, TrialError
from iodyno.core.experiment import Windows
from iodyno.core.warnings import Doubt, WarningCode
from iodyno.core.workload import Level
from iodyno.session.clock import ClockFit
from iodyno.session.session import Message

OPERATIONS = {"send": "write", "receive": "read", "idle": "none"}
"""What the service times of a role are of."""

_SLACK_NS = 100_000_000
_SLACK_PER_CONNECTION_NS = 20_000
_READY_TIMEOUT_S = 20.0
_READY_PER_CONNECTION_S = 0.01
_DRIFT_RATIO = 200e-6
"""Two clocks may drift apart this much and count as steady (chosen: four times the worst of usual crystals)."""


@dataclass
class Account:
    """What is known of a trial beside its records; filled as it goes, so that a failed one tells how far it came.

    `path`: how the path was shaped for the trial, as asked and as obtained; None: it was left as it is.
    """

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    start: dict[str, Any] | None = None
    doubts: list[Doubt] = field(default_factory=list)
    overhead_ns: int | None = None
    path: dict[str, Any] | None = None

    def doubt(self, code: WarningCode, text: str, where: str = "") -> None:
        """Notes a doubt."""
        self.doubts.append(Doubt(code, text, where))


async def carry_out(
    rig: Rig,
    name: str,
    settings: Mapping[str, Level],
    windows: Windows,
    account: Account,
    on_record: Callable[[str, Message], None],
    on_profile: Callable[[str, Message], None] = lambda host, profile: None,
) -> None:
    """Executes the trial `name` on the sender and the receiver of the experiment. Raises TrialError."""
    began_ns = time.monotonic_ns()
    workload = rig.experiment.workload
    roles = {workload.sender: "send", workload.receiver: "receive"}
    token = secrets.token_hex(16)
    for host, role in roles.items():
        job = _job(rig, name, token, host, role, settings, windows)
        account.hosts[host] = _unknown(role, job, rig.cpus[host])
    async with rig.hosts.shaped(settings, workload.sender, workload.receiver) as account.path:
        await _load(rig, settings, windows, account, on_record, on_profile)
    # Not below 0: a simulated host does not wait for its windows.
    account.overhead_ns = max(0, time.monotonic_ns() - began_ns - windows.load_ns)


async def _load(
    rig: Rig,
    settings: Mapping[str, Level],
    windows: Windows,
    account: Account,
    on_record: Callable[[str, Message], None],
    on_profile: Callable[[str, Message], None],
) -> None:
    """Connections, start, load, results; and what the clocks, the start and the sockets make doubtful."""
    roles = tuple(account.hosts)
    before = await _probe_clocks(rig, account, "before")
    await _get_ready(rig, account, int(settings["connections"]))
    slack_ns = _SLACK_NS + _SLACK_PER_CONNECTION_NS * int(settings["connections"])
    start_ns = await _arm(rig, account, before, slack_ns)
    left_ns = start_ns - time.monotonic_ns() + windows.load_ns

    def keep_profile(host: str, profile: Message) -> None:
        stored = ("type", "trial", "functions", "stacks")
        account.hosts[host]["profile"] = {key: value for key, value in profile.items() if key not in stored}
        on_profile(host, profile)

    results = await together(
        rig.sessions[host].result(
            left_ns,
            lambda record, host=host: on_record(host, record),  # type: ignore[misc]
            lambda profile, host=host: keep_profile(host, profile),  # type: ignore[misc]
        )
        for host in roles
    )
    for host, result in zip(roles, results, strict=True):
        account.hosts[host]["result"] = _content(result)
    after = await _probe_clocks(rig, account, "after")
    _check_clocks(account, before, after)
    _check_start(rig, account, before)
    _check_sockets(rig, account)
    _check_connections(rig, account)


async def measure_idle(
    rig: Rig, name: str, windows: Windows, account: Account, on_record: Callable[[str, Message], None]
) -> None:
    """Reads the sensors of every host for the measured window, with no load on. Raises TrialError."""
    for host in rig.sessions:
        job = _job(rig, name, secrets.token_hex(16), host, "idle", {"connections": 1, "size": 1}, windows)
        account.hosts[host] = _unknown("idle", job, rig.cpus[host])
    before = await _probe_clocks(rig, account, "before")
    for host, session in rig.sessions.items():
        await session.prepare(account.hosts[host]["job"])
    for host, session in rig.sessions.items():
        account.hosts[host]["ready"] = _content(await session.ready(_READY_TIMEOUT_S))
    start_ns = await _arm(rig, account, before, _SLACK_NS)
    left_ns = start_ns - time.monotonic_ns() + windows.load_ns
    results = await together(
        session.result(left_ns, lambda record, host=host: on_record(host, record), stalls=False)  # type: ignore[misc]
        for host, session in rig.sessions.items()
    )
    for host, result in zip(rig.sessions, results, strict=True):
        account.hosts[host]["result"] = _content(result)


def _job(
    rig: Rig,
    name: str,
    token: str,
    host: str,
    role: str,
    settings: Mapping[str, Level],
    windows: Windows,
) -> dict[str, Any]:
    """The job of one host, as `agent/core/src/job.rs` has it; the address of the sender comes later."""
    spec, workload = rig.experiment.hosts[host], rig.experiment.workload
    window = settings.get("window")
    address = None
    if role == "receive":
        seen = rig.hosts.data_address(host, workload.sender)
        # A given address may be one that the host itself does not know, behind a translation of addresses.
        listen = ("::" if ":" in spec.address else "0.0.0.0") if spec.address else seen
        address = _with_port(listen, spec.data_port, host)
    return {
        "trial": name,
        "token": token,
        "role": role,
        "workload": workload.kind,
        "transport": settings.get("transport", "tcp"),
        "driver": settings.get("driver", "threads"),
        "connections": settings["connections"],
        "message_bytes": settings["size"],
        "answer_bytes": settings.get("answer", 1),
        "address": address,
        "socket": {
            "send_buffer_bytes": settings.get("send_buffer", window) if role == "send" else window,
            "receive_buffer_bytes": settings.get("receive_buffer", window) if role == "receive" else window,
            "nagle": settings.get("nagle"),
            "congestion_control": settings.get("congestion_control"),
        },
        "windows": asdict(windows),
        "cpus": list(rig.cpus[host]),
        "sensors": None if rig.experiment.sensors is None else list(rig.experiment.sensors),
        "compute_ns": settings.get("compute", 0) if role == "send" else 0,
        "think_ns": settings.get({"send": "think", "receive": "reader_think"}.get(role, ""), 0),
        "serialised": settings.get("serialised", False) if role == "send" else False,
        "cpu_quota_percent": settings.get(
            {"send": "sender_quota", "receive": "receiver_quota"}.get(role, "")
        ),
        "profile_hz": rig.experiment.profile_hz if role != "idle" else 0,
    }


async def _probe_clocks(rig: Rig, account: Account, when: str) -> dict[str, ClockFit]:
    hosts = list(account.hosts)
    fits = await together(rig.sessions[host].probe_clock() for host in hosts)
    for host, found in zip(hosts, fits, strict=True):
        account.hosts[host]["clock"][when] = found.as_json()
    return dict(zip(hosts, fits, strict=True))


async def _get_ready(rig: Rig, account: Account, connections: int) -> None:
    """Brings the connections up: the receiver listens before the sender is told where."""
    workload = rig.experiment.workload
    sender, receiver = rig.sessions[workload.sender], rig.sessions[workload.receiver]
    await receiver.prepare(account.hosts[receiver.name]["job"])
    port = await receiver.listening()
    job = account.hosts[sender.name]["job"]
    job["address"] = _with_port(rig.hosts.data_address(receiver.name, sender.name), port, receiver.name)
    await sender.prepare(job)
    timeout_s = _READY_TIMEOUT_S + _READY_PER_CONNECTION_S * connections
    ready = await together(session.ready(timeout_s) for session in (sender, receiver))
    for session, said in zip((sender, receiver), ready, strict=True):
        account.hosts[session.name]["ready"] = _content(said)
        if said["connections"] != connections:
            raise session.failure(
                "connections",
                f"{said['connections']} of {connections} connections are up",
                "try fewer connections",
            )


async def _arm(rig: Rig, account: Account, clocks: Mapping[str, ClockFit], slack_ns: int) -> int:
    """Schedules one start for all, `slack_ns` from now; gives it on the lab's clock."""
    start_ns = time.monotonic_ns() + slack_ns
    armed = await together(rig.sessions[host].arm(fit.to_host(start_ns)) for host, fit in clocks.items())
    account.start = {
        "skew_ns": None,
        "skew_error_ns": None,
        "slack_ns": {host: said["slack_ns"] for host, said in zip(clocks, armed, strict=True)},
        "realtime": {host: said["realtime"] for host, said in zip(clocks, armed, strict=True)},
    }
    return start_ns


def _check_clocks(account: Account, before: Mapping[str, ClockFit], after: Mapping[str, ClockFit]) -> None:
    for host, first in before.items():
        last = after[host]
        moved_ns = abs(last.offset_ns - first.offset_ns)
        allowed_ns = first.error_ns + last.error_ns + _DRIFT_RATIO * (last.at_ns - first.at_ns)
        if moved_ns > allowed_ns:
            account.doubt(
                WarningCode.CLOCK_STEPPED,
                f"the host's clock moved by {moved_ns / 1e3:.0f} us against the lab's during the trial,"
                f" more than the {allowed_ns / 1e3:.0f} us that errors and drift explain",
                f"host {host}",
            )


def _check_start(rig: Rig, account: Account, clocks: Mapping[str, ClockFit]) -> None:
    """How far apart the hosts started: the sender's first operation against the receiver's start."""
    sender, receiver = rig.experiment.workload.sender, rig.experiment.workload.receiver
    first_ns = account.hosts[sender]["result"]["first_operation_ns"]
    if account.start is None or first_ns is None:
        return
    sent_ns = clocks[sender].to_lab(first_ns)
    received_ns = clocks[receiver].to_lab(account.hosts[receiver]["result"]["start_ns"])
    skew_ns = abs(sent_ns - received_ns)
    error_ns = clocks[sender].error_ns + clocks[receiver].error_ns
    account.start |= {"skew_ns": skew_ns, "skew_error_ns": error_ns}
    limit_ns = rig.experiment.limits.start_skew_ns
    if skew_ns + error_ns > limit_ns:
        account.doubt(
            WarningCode.START_SKEW,
            f"the hosts started {skew_ns / 1e3:.0f} us apart, give or take {error_ns / 1e3:.0f} us;"
            f" the limit is {limit_ns / 1e3:.0f} us",
        )


def _check_sockets(rig: Rig, account: Account) -> None:
    for host, facts in account.hosts.items():
        asked, obtained = facts["job"]["socket"], facts["ready"]["socket"]
        for key, want in asked.items():
            got = obtained.get(key)
            # The kernel doubles a buffer for its own bookkeeping and reports the double (socket(7)).
            due = want * 2 if key.endswith("_bytes") and want is not None else want
            if want is None or (got == due if not key.endswith("_bytes") else got is not None and got >= due):
                continue
            account.doubt(
                WarningCode.OPTION_NOT_OBTAINED,
                f"asked for {key} = {want}, obtained {'nothing' if got is None else got // 2 if due != want else got}",
                f"host {host}",
            )
        if obtained.get("differing"):
            account.doubt(
                WarningCode.OPTION_NOT_OBTAINED,
                f"{obtained['differing']} connections have other socket options than the first one",
                f"host {host}",
            )


def _check_connections(rig: Rig, account: Account) -> None:
    for host, facts in account.hosts.items():
        result, connections = facts["result"], facts["job"]["connections"]
        if lost := result["connections_lost"]:
            raise rig.sessions[host].failure(
                "connections_lost",
                f"{lost} of {connections} connections were lost: {result['lost_reason'] or 'no reason known'}",
                "look at the other host, and at the path between them",
            )
        if (carrying := result["connections_carrying"]) < connections:
            account.doubt(
                WarningCode.CONNECTIONS_IDLE,
                f"only {carrying} of {connections} connections carried bytes in the measured window",
                f"host {host}",
            )
        if foreign := facts["ready"]["foreign_refused"]:
            account.doubt(
                WarningCode.FOREIGN_CONNECTION,
                f"{foreign} connections that did not show the trial's token were turned away",
                f"host {host}",
            )


def _unknown(role: str, job: dict[str, Any], cpus: tuple[int, ...]) -> dict[str, Any]:
    return {
        "role": role,
        "job": job,
        "ready": None,
        "result": None,
        "clock": {"before": None, "after": None},
        "cpus": list(cpus),
        "profile": None,
    }


def _content(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "type"}


def _with_port(address: str | None, port: int, host: str) -> str:
    if address is None:
        raise PreflightError(
            "it is not known where the other hosts reach it with data",
            where=f"host {host}",
            advice="write its address into the experiment: `address:` of the host",
        )
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


async def recover(rig: Rig, failure: TrialError) -> None:
    """Brings the rig back to where another trial can run. Raises AccessError."""
    await asyncio.shield(rig.abort(f"the trial failed: {failure.what}"))
    await rig.start_agents()
