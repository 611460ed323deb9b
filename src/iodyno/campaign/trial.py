"""One trial: clocks, jobs, start, records, results, and what is said of them. It stores nothing itself."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iodyno.campaign import distributions, observed, rendezvous, skew
from iodyno.campaign.account import Account
from iodyno.campaign.job import as_asked, job_of, with_port
from iodyno.campaign.metric_sources import MetricReadings, Row
from iodyno.campaign.testbed import Testbed, probe_clocks, together
from iodyno.core import quantity
from iodyno.core.asked import asked, load_of
from iodyno.core.errors import TrialError
from iodyno.core.experiment import Windows
from iodyno.core.warnings import WarningCode, of_hosts
from iodyno.core.workload import Level
from iodyno.loads.base.campaign import Load, load_for
from iodyno.session.clock import ClockFit
from iodyno.session.sent import SentRecord
from iodyno.session.session import Message, Session

OPERATIONS = {"send": "write", "receive": "read", "alone": "io", "idle": "none"}
"""Operations that the service times of a role are of."""


_SLACK_NS = 100_000_000
_SLACK_HERE_NS = 30_000_000
"""From arming to the start, less for hosts on the lab's machine (chosen: an agent is armed in a millisecond; a start that came
too late makes the next ones wait longer, `Testbed.patience`)."""
_SLACK_PER_CONNECTION_NS = 20_000
_SLACK_PER_HOST_NS = 25_000_000
"""Time that each host beyond two adds (chosen: to arm one takes 1 ms, and 20 ms where many share a busy CPU)."""
_READY_TIMEOUT_S = 20.0
_READY_PER_CONNECTION_S = 0.01
_DRIFT_RATIO = 200e-6
"""Two clocks may drift apart this much and count as steady (chosen: four times the worst of usual crystals)."""


async def carry_out(
    testbed: Testbed,
    name: str,
    settings: Mapping[str, Level],
    windows: Windows,
    account: Account,
    on_record: Callable[[str, SentRecord], None],
    on_profile: Callable[[str, Message], None] = lambda host, profile: None,
    on_metric: Callable[[Row], None] = lambda row: None,
) -> None:
    """Executes the trial `name` on the senders and the receivers of the experiment. Raises TrialError."""
    began_ns = time.monotonic_ns()
    workload = testbed.experiment.workload
    await load_for(testbed.experiment).before(testbed, settings)
    flows = [_flow(testbed, name, settings, windows, account, on_record, on_profile)]
    for beside in testbed.experiment.bystanders:
        flows.append(_beside(testbed, beside, name, windows, account, on_record))
    async with (
        testbed.tunables.turned(settings, account),
        testbed.hosts.shaped(settings, workload.sender, workload.receiver) as account.path,
        contextlib.AsyncExitStack() as prepared,
    ):
        for flow in flows:
            await prepared.enter_async_context(flow.load.prepared(flow.testbed, flow.account, flow.asked))
        try:
            await _load(flows, windows, on_metric, prepared)
        except TrialError as error:
            error.where = as_asked(error.where)
            if gone := await testbed.hosts.missing_device():
                error.what = f"{gone}: {error.what}"
                error.advice = "look what removes network devices on this machine"
            raise
    # Not below 0: a simulated host does not wait for its windows.
    account.overhead_ns = max(0, time.monotonic_ns() - began_ns - windows.load_ns)


@dataclass(frozen=True)
class _Flow:
    """One workload of a trial: its testbed, what is set of it and what it is told of that, and who hears of it."""

    testbed: Testbed
    account: Account
    asked: Mapping[str, Level]
    settings: Mapping[str, Level]
    on_record: Callable[[str, SentRecord], None]
    on_profile: Callable[[str, Message], None]

    @property
    def load(self) -> Load:
        return load_for(self.testbed.experiment)

    @property
    def connections(self) -> int:
        """Connections of all its hosts."""
        workload = self.testbed.experiment.workload
        links = max(1, len(workload.links)) if self.load.of_each_pair else 1
        return int(self.settings.get("connections", 1)) * links


def _flow(
    testbed: Testbed,
    name: str,
    settings: Mapping[str, Level],
    windows: Windows,
    account: Account,
    on_record: Callable[[str, SentRecord], None],
    on_profile: Callable[[str, Message], None],
) -> _Flow:
    """The flow of the testbed's workload, with a job for each of its hosts in the account."""
    token = secrets.token_hex(16)
    load = load_for(testbed.experiment)
    for host, role in load.roles(testbed.experiment, settings).items():
        job = job_of(testbed, name, token, host, role, settings, windows)
        account.hosts[host] = _unknown(role, job, testbed.cpus[host])
    account.settings = load.settings(testbed.experiment, settings)
    account.targets = load.targets(testbed, settings)
    return _Flow(testbed, account, settings, account.settings, on_record, on_profile)


def _beside(
    testbed: Testbed,
    beside: str,
    name: str,
    windows: Windows,
    account: Account,
    on_record: Callable[[str, SentRecord], None],
) -> _Flow:
    """The flow of the bystander `beside`; its records come under the names of its hosts after its own."""
    if testbed.observers:
        raise TrialError(
            "a host in a sandbox or a guest has no room for a bystander",
            where=f"path {testbed.path}",
            advice="leave the bystander out, or that level of path",
            code="unsupported",
        )
    view = testbed.beside(beside)
    account.bystanders[beside] = Account()
    settings = view.experiment.settings({})
    return _flow(
        view,
        f"{name}-{beside}",
        settings,
        windows,
        account.bystanders[beside],
        lambda host, record: on_record(f"{beside}.{host}", record),
        lambda host, profile: None,
    )


async def _load(
    flows: Sequence[_Flow],
    windows: Windows,
    on_metric: Callable[[Row], None],
    prepared: contextlib.AsyncExitStack,
) -> None:
    """Connections, start, load, results; and what the clocks, the start and the sockets make suspect."""
    main = flows[0]
    await main.testbed.mend_agents()
    before = [await _probe_clocks(flow.testbed, flow.account, "before") for flow in flows]
    sources, adapters = main.testbed.experiment.metrics, main.testbed.adapters
    await adapters.get_ready(sources.values())
    for flow in flows:
        await flow.load.get_ready(flow.testbed, flow.account, flow.connections)
    for flow in flows:
        await prepared.enter_async_context(flow.load.held(flow.testbed, flow.account, flow.asked))
    connections = sum(flow.connections for flow in flows)
    slack_ns = _slack_ns(main.testbed) * (len(flows) + len(main.testbed.observers))
    slack_ns += _SLACK_PER_CONNECTION_NS * connections
    slack_ns += _SLACK_PER_HOST_NS * max(0, len(main.account.hosts) - 2)
    slack_ns *= main.testbed.patience
    outside = await observed.prepare(main.testbed, "observed", windows)
    start_ns = time.monotonic_ns() + slack_ns
    for flow, clocks in zip(flows, before, strict=True):
        await _arm(flow.testbed, flow.account, clocks, start_ns)
    await observed.arm(main.testbed, outside, start_ns)
    left_ns = start_ns - time.monotonic_ns() + windows.load_ns
    every = [(flow, host) for flow in flows for host in flow.account.hosts]
    metrics = MetricReadings(sources, start_ns, windows, on_metric, adapters.read)
    try:
        silences = {id(flow): _longest_silence_s(flow) for flow in flows}
        results = await together(_result(flow, host, left_ns, silences[id(flow)]) for flow, host in every)
    except BaseException as error:
        await metrics.cancel()
        if isinstance(error, TrialError) and error.code == "stalled":
            for flow in flows:
                _check_room(flow.testbed, flow.account)
        raise
    await metrics.end()
    main.account.metrics = metrics.clocks
    for (flow, host), result in zip(every, results, strict=True):
        flow.account.hosts[host]["result"] = result and _content(result)
    for flow, clocks in zip(flows, before, strict=True):
        after = await _probe_clocks(flow.testbed, flow.account, "after")
        _check_clocks(flow.account, {host: clocks[host] for host in after}, after)
        flow.load.check(flow.testbed, flow.account, clocks, windows)
        flow.account.warnings = of_hosts(flow.account.warnings)
    for name, flow in zip(main.account.bystanders, flows[1:], strict=True):
        places = [", ".join(filter(None, (name, warning.where))) for warning in flow.account.warnings]
        about = [replace(d, where=where) for d, where in zip(flow.account.warnings, places, strict=True)]
        main.account.warnings += about


def check_ends(testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows) -> None:
    """Notes what start, sockets and connections of the ends make suspect. Raises TrialError."""
    _check_start(testbed, account, clocks, windows)
    _check_sockets(account)
    _check_connections(testbed, account)
    _check_carrying(testbed, account)
    _check_script(testbed, account, windows)


def _slack_ns(testbed: Testbed) -> int:
    here = not testbed.observers and all(map(testbed.on_this_machine, testbed.sessions))
    return _SLACK_HERE_NS if here else _SLACK_NS


def _longest_silence_s(flow: _Flow) -> float:
    return distributions.longest_silence_s([asked(facts["job"]) for facts in flow.account.hosts.values()])


def _result(flow: _Flow, host: str, left_ns: int, silence_s: float) -> Coroutine[Any, Any, Message | None]:
    def keep_profile(profile: Message) -> None:
        stored = ("type", "trial", "functions", "stacks")
        kept = {key: value for key, value in profile.items() if key not in stored}
        flow.account.hosts[host]["profile"] = kept
        flow.on_profile(host, profile)

    found = observed.result(
        flow.testbed.sessions[host],
        flow.testbed.observers.get(host),
        left_ns,
        lambda record: flow.on_record(host, record),
        keep_profile,
        stalls=flow.load.stalls,
        silence_s=silence_s,
    )
    return flow.load.going_on(found, host, flow.account, flow.settings)


def beside(account: Account) -> dict[str, Any]:
    """Accounts of the bystanders, as stored."""
    return {
        name: {"settings": found.settings, "start": found.start, "hosts": found.hosts}
        for name, found in account.bystanders.items()
    }


async def measure_idle(
    testbed: Testbed,
    name: str,
    windows: Windows,
    account: Account,
    on_record: Callable[[str, SentRecord], None],
) -> None:
    """Reads the sensors of every host for the measured window, with no load on. Raises TrialError."""
    start_ns = await start_idle(testbed, name, windows, account)
    left_ns = start_ns - time.monotonic_ns() + windows.load_ns
    results = await together(
        testbed.outside(host).result(left_ns, lambda record, host=host: on_record(host, record), stalls=False)  # type: ignore[misc]
        for host in testbed.sessions
    )
    for host, result in zip(testbed.sessions, results, strict=True):
        account.hosts[host]["result"] = _content(result)


async def start_idle(
    testbed: Testbed, name: str, windows: Windows, account: Account, wanted: Sequence[str] | None = None
) -> int:
    """Begins to read the sensors of every host with no load on; returns the instant of the start. `wanted`: these sensors, of all
    CPUs, instead of those that the experiment asks for. Raises TrialError.
    """
    for host in testbed.sessions:
        job = job_of(testbed, name, secrets.token_hex(16), host, "idle", {}, windows)
        if wanted is not None:
            job |= {"sensors": list(wanted), "cpus": []}
        account.hosts[host] = _unknown("idle", job, testbed.cpus[host])
    sessions = {host: testbed.outside(host) for host in testbed.sessions}
    before = await _probe_clocks(testbed, account, "before", sessions)
    for host, session in sessions.items():
        await session.prepare(account.hosts[host]["job"])
    for host, session in sessions.items():
        account.hosts[host]["ready"] = _content(await session.ready(_READY_TIMEOUT_S))
    start_ns = time.monotonic_ns() + _slack_ns(testbed) * testbed.patience
    await _arm(testbed, account, before, start_ns, sessions)
    return start_ns


async def _probe_clocks(
    testbed: Testbed, account: Account, when: str, sessions: Mapping[str, Session] | None = None
) -> dict[str, ClockFit]:
    agents = sessions or testbed.sessions
    lost = {loss["host"] for loss in account.losses}
    hosts = [host for host in account.hosts if host not in lost]
    fits = await probe_clocks(agents[host] for host in hosts)
    for host, found in zip(hosts, fits, strict=True):
        account.hosts[host]["clock"][when] = found.as_json()
    return dict(zip(hosts, fits, strict=True))


async def connect(testbed: Testbed, account: Account, connections: int) -> None:
    """Brings the connections up: every receiver listens before a sender is told where."""
    workload = testbed.experiment.workload
    receivers = [testbed.sessions[name] for name in workload.receivers]
    for receiver in receivers:
        await receiver.prepare(account.hosts[receiver.name]["job"])
    ports = {receiver.name: await receiver.listening() for receiver in receivers}
    senders = [testbed.sessions[name] for name in workload.senders]
    for sender in senders:
        job = account.hosts[sender.name]["job"]
        load = load_of(job)
        reached = workload.receivers_of(sender.name)
        load["address"], *further = (
            _way(testbed, account, sender.name, name, ports[name]) for name in reached
        )
        if further:
            load["remote_addresses"] = further
        # Several addresses of a path that the lab made: one pair of addresses has no more than 64 512 ports.
        several = testbed.hosts.accesses[sender.name].reached.path.get("addresses") or []
        if len(several) > 1 and load.get("transport") in ("tcp", "tls"):
            load["local_addresses"] = list(several)
        await sender.prepare(job)
    timeout_s = _READY_TIMEOUT_S + _READY_PER_CONNECTION_S * connections
    ends = (*senders, *receivers)
    ready = await together(session.ready(timeout_s) for session in ends)
    for session, said in zip(ends, ready, strict=True):
        facts = account.hosts[session.name]
        facts["ready"] = _content(said)
        wanted = load_of(facts["job"]).get("connections", connections)
        if said["connections"] != wanted:
            raise session.failure(
                "connections",
                f"{said['connections']} of {wanted} connections are up",
                "try fewer connections",
            )


def _way(testbed: Testbed, account: Account, sender: str, receiver: str, port: int) -> str:
    """Return the address at which a sender reaches a receiver that listens at a port."""
    load = load_of(account.hosts[receiver]["job"])
    if load.get("transport") in ("unix", "vsock"):
        return rendezvous.of_sender(load["address"], port)
    return with_port(testbed.hosts.data_address(receiver, sender), port, receiver)


async def _arm(
    testbed: Testbed,
    account: Account,
    clocks: Mapping[str, ClockFit],
    start_ns: int,
    sessions: Mapping[str, Session] | None = None,
) -> None:
    """Schedules one start for all, given on the lab's clock."""
    agents = sessions or testbed.sessions
    armed = await together(agents[host].arm(fit.to_host(start_ns)) for host, fit in clocks.items())
    account.start = {
        "skew_ns": None,
        "skew_error_ns": None,
        "slack_ns": {host: said["slack_ns"] for host, said in zip(clocks, armed, strict=True)},
        "realtime": {host: said["realtime"] for host, said in zip(clocks, armed, strict=True)},
    }


def _check_clocks(account: Account, before: Mapping[str, ClockFit], after: Mapping[str, ClockFit]) -> None:
    for host, first in before.items():
        last = after[host]
        moved_ns = abs(last.offset_ns - first.offset_ns)
        allowed_ns = first.error_ns + last.error_ns + _DRIFT_RATIO * (last.at_ns - first.at_ns)
        if moved_ns > allowed_ns:
            account.warning(
                WarningCode.CLOCK_STEPPED,
                f"the host's clock moved by {moved_ns / 1e3:.0f} us against iodyno's during the trial,"
                f" more than the {allowed_ns / 1e3:.0f} us that errors and drift explain",
                f"host {host}",
            )


def _check_start(
    testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows
) -> None:
    """Return the start skew of the hosts: the first operation of each sender, and the start of each receiver."""
    senders = testbed.experiment.workload.senders
    # The first operation of an open loop begins when its first arrival is due, whenever that is.
    if any(asked(account.hosts[sender]["job"]).get("arrivals") for sender in senders):
        return
    began = {
        host: at_ns
        for host, facts in account.hosts.items()
        if (at_ns := facts["result"]["first_operation_ns" if host in senders else "start_ns"]) is not None
    }
    if any(sender in began for sender in senders):
        skew.note(account, clocks, began, testbed.experiment.limits.start_skew_ns, windows)


def _check_sockets(account: Account) -> None:
    for host, facts in account.hosts.items():
        wanted, obtained = asked(facts["job"]).get("socket", {}), facts["ready"]["socket"]
        numbers, found = wanted.get("numbers") or {}, obtained.get("numbers") or {}
        for key, want in numbers.items():
            # TCP's own options lie in the segment, too, 40 bytes of them at most.
            least = want - 40 if key == "mss" else want
            if key in found and not least <= found[key] <= want:
                text = f"asked for {key} = {want}, obtained {found[key]}"
                account.warning(WarningCode.OPTION_NOT_OBTAINED, text, f"host {host}")
        for key, want in wanted.items():
            got = obtained.get(key)
            if key == "numbers":
                continue
            # The kernel doubles a buffer for its own bookkeeping and reports the double (socket(7)).
            due = want * 2 if key.endswith("_buffer_bytes") and want is not None else want
            if want is None or (got == due if due == want else got is not None and got >= due):
                continue
            account.warning(
                WarningCode.OPTION_NOT_OBTAINED,
                f"asked for {key} = {want}, obtained {'nothing' if got is None else got // 2 if due != want else got}",
                f"host {host}",
            )
        if obtained.get("differing"):
            account.warning(
                WarningCode.OPTION_NOT_OBTAINED,
                f"{obtained['differing']} connections have other socket options than the first one",
                f"host {host}",
            )


def _check_connections(testbed: Testbed, account: Account) -> None:
    for host, facts in account.hosts.items():
        result, job = facts["result"], asked(facts["job"])
        connections = job.get("connections", 0)
        if lost := result["connections_lost"]:
            raise testbed.sessions[host].failure(
                "connections_lost",
                f"{lost} of {connections} connections were lost: {result['lost_reason'] or 'no reason known'}",
                "look at the other host, and at the path between them",
            )
        if job.get("transport") == "udp" and not result["operations"] and facts["role"] != "idle":
            _check_room(testbed, account)
            raise testbed.sessions[host].failure(
                "nothing_arrived",
                "nothing came over any of the connections: all of it was lost",
                "look at the path between the hosts, and for a firewall on it",
            )
        if foreign := facts["ready"]["foreign_refused"]:
            account.warning(
                WarningCode.FOREIGN_CONNECTION,
                f"{foreign} connections that did not show the trial's token were turned away",
                f"host {host}",
            )


def _check_carrying(testbed: Testbed, account: Account) -> None:
    """That all connections carried something, as the end saw it that saw the fewest. Both see it, and it is one thing."""
    workload = testbed.experiment.workload
    if not load_for(testbed.experiment).all_carry:
        return
    seen = []
    for end in (workload.senders, workload.receivers):
        every = [account.hosts[host] for host in end]
        carrying = sum(facts["result"]["connections_carrying"] for facts in every)
        seen.append((carrying, sum(asked(facts["job"]).get("connections", 0) for facts in every)))
    carrying, connections = min(seen)
    if carrying < connections:
        account.warning(
            WarningCode.CONNECTIONS_IDLE,
            f"rate and cost are those of {carrying} connections of {connections}: the others carried nothing in the measured "
            "window",
        )


def _check_room(testbed: Testbed, account: Account) -> None:
    """That the send buffers of datagrams that did not arrive have room for one of them.

    The kernel counts the fragments of a datagram against the buffer before it sends the first, and refuses one that is
    too long for it each time (`ENOBUFS`, `__ip_append_data` in Linux's net/ipv4/ip_output.c).
    """
    for host, facts in account.hosts.items():
        job = asked(facts["job"])
        answers = "response_bytes" in job and facts["role"] == "receive"
        length = job["response_bytes" if answers else "message_bytes"]
        room = facts["ready"]["socket"].get("send_buffer_bytes")
        sends = answers or facts["role"] == "send"
        if sends and job["transport"] == "udp" and room is not None and length > room:
            raise testbed.sessions[host].failure(
                "job",
                f"no datagram of {length} bytes was sent: the send buffer has {room} bytes, and the kernel refuses what"
                " is too long for it",
                f"raise send_buffer or window to {length} bytes or more, or send shorter datagrams",
            )


def _check_script(testbed: Testbed, account: Account, windows: Windows) -> None:
    """That a script came to its end."""
    for host, facts in account.hosts.items():
        script = facts["result"].get("script")
        if script is None:
            continue
        if not script["complete"]:
            raise testbed.sessions[host].failure(
                "script_cut",
                f"the script was not over after {quantity.show('duration', windows.load_ns)}, when the windows of the trial were",
                "give it more time: a longer `measured` in `windows` of the experiment file, or --limit of `iodyno run PROFILE`",
            )
        if foreign := script["foreign_refused"]:
            account.warning(
                WarningCode.FOREIGN_CONNECTION,
                f"{foreign} connections or datagrams that did not show the trial's token were turned away",
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
        "tunables": None,
    }


def _content(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "type"}
