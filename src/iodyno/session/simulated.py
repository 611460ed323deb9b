"""An agent with a known truth, for tests of everything that stands above the wire.

It speaks the same wire over streams inside the lab's process, in virtual time: the records of a trial come at
once. What it reports follows from `Truth`, drawn with a seed, so that an analysis can be asked for exactly that
truth again. It shares no formula with the analysis.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from iodyno.core.asked import asked
from iodyno.core.errors import AccessError
from iodyno.hosts.access import AgentProgram, AgentStreams, Reached
from iodyno.session import simulated_classes, simulated_profile, wire
from iodyno.session.simulated_arrivals import OpenLoop, arrivals_of, offer
from iodyno.session.simulated_disk import SimulatedDisk
from iodyno.session.simulated_drift import drift
from iodyno.session.simulated_program import SimulatedProgram

_TICK_NS = 10_000_000
_PORT = 5201
# How the load's busy time is split, and the background's. Chosen: about what bulk TCP shows, and a quiet machine.
LOAD_SHARES = {"usr": 0.05, "sys": 0.62, "irq": 0.03, "softirq": 0.30}
BACKGROUND_SHARES = {"other": 0.8, "irq": 0.05, "softirq": 0.15}
_SHARES = ("cpu.user_ns", "cpu.system_ns", "cpu.softirq_ns")
_STATES = (
    *("cpu.user_ns", "cpu.nice_ns", "cpu.system_ns", "cpu.idle_ns"),
    *("cpu.iowait_ns", "cpu.irq_ns", "cpu.softirq_ns", "cpu.steal_ns"),
)
_SEGMENT_BYTES = 61_440
_SEGMENTS_PER_ACK = 4


@dataclass(frozen=True)
class Truth:
    """Truth of a simulated pair of hosts. Times in ns of CPU, noises as relative standard deviations.

    With `connection_bits_per_s`, a connection carries no more than that, and concurrency may limit the goodput.

    CPU of a host per KiB delivered = `per_kib_ns` + `per_message_ns` * 1024 / size + `per_connection_ns` *
    connections, times `receiver_ratio` at the receiver. Goodput is `goodput_bits_per_s`, or what the CPUs of
    the costlier host can carry when that is less (where noise makes a trial costlier than a full CPU can pay, its cost is
    cut off there). The load's time is split by `LOAD_SHARES`, the background's by `BACKGROUND_SHARES`; neighbours run beside,
    and have up to `neighbours_ratio` of the CPUs where the load leaves it to them. An open loop is a queue with a server of
    `open_service_ns` (mean of an exponential law; more, where all together could not be served so fast) on each connection,
    fed by a generator that is always `open_lateness_ns` late; both ends move what its operations carry. `exact`: no ticks, no
    samples; `bpf`: whether the host tells exact classes. Of a disk: `disk_read_ns` and `disk_write_ns` of service time,
    `disk_iops` at most, `disk_cpu_ns` of CPU per operation, and the share of the bytes read
    that come from the page cache. The drift is a slow wave over the trials of a campaign that all costs follow.
    """

    per_kib_ns: float = 200.0
    per_message_ns: float = 800.0
    per_connection_ns: float = 0.02
    receiver_ratio: float = 0.8
    goodput_bits_per_s: float = 8e9
    connection_bits_per_s: float = 0.0
    open_service_ns: float = 50_000.0
    open_lateness_ns: float = 1_000.0
    disk_read_ns: float = 80_000.0
    disk_write_ns: float = 40_000.0
    disk_iops: float = 50_000.0
    disk_cpu_ns: float = 6_000.0
    disk_cached_ratio: float = 0.0
    noise_between_trials: float = 0.02
    noise_within_trial: float = 0.01
    drift_between_trials: float = 0.0
    background_ratio: float = 0.01
    neighbours_ratio: float = 0.0
    exact: bool = False
    bpf: bool = True
    tsc_hz: int = 2_000_000_000
    seed: int = 1

    def cpu_ns_per_kib(self, connections: int, size: int, role: str = "send") -> float:
        """The truth of a point, without noise and background."""
        cost = self.per_kib_ns + self.per_message_ns * 1024 / size + self.per_connection_ns * connections
        return cost * (self.receiver_ratio if role == "receive" else 1.0)

    def function_ns_per_kib(self, connections: int, size: int, role: str = "send") -> dict[str, float]:
        """The truth of a point by function, without noise and background: the CPU that each has of its own.

        System time is split as the cost is: copying belongs to the KiB, system calls to the messages, switches
        between threads to the connections. So copying costs the same at every message size, and a system call
        costs by the message.
        """
        total = self.cpu_ns_per_kib(connections, size, role)
        # A timer cannot sample where interrupts are off: what they take shows as system code.
        system = (LOAD_SHARES["sys"] + LOAD_SHARES["irq"]) * (
            self.receiver_ratio if role == "receive" else 1.0
        )
        return simulated_profile.function_costs(
            role,
            user=LOAD_SHARES["usr"] * total,
            softirq=LOAD_SHARES["softirq"] * total,
            per_byte=system * self.per_kib_ns,
            per_call=system * self.per_message_ns * 1024 / size,
            per_connection=system * self.per_connection_ns * connections,
        )

    def rate_bits_per_s(self, connections: int, size: int, cpus: int) -> float:
        """Goodput of a point, without noise, on hosts of that many CPUs."""
        costliest = self.cpu_ns_per_kib(connections, size) * max(1.0, self.receiver_ratio)
        carried = cpus * 1e9 * (1 - self.background_ratio) / costliest * 8192
        together = connections * self.connection_bits_per_s or math.inf
        return min(self.goodput_bits_per_s, carried, together)


class SimulatedAccess:
    """A host that exists in the lab's process only.

    `truth` holds fields of `Truth`, and `clock_offset_ns`: how far the host's clock is ahead of the lab's.
    """

    def __init__(self, name: str, truth: Mapping[str, Any] | None = None, cpus: Sequence[int] = ()) -> None:
        given = dict(truth or {})
        self.name = name
        self.reached = Reached(address="192.0.2.1", cpus=tuple(cpus) or (0,), probe_gap_s=0.0)
        self._offset_ns = int(given.pop("clock_offset_ns", 0))
        try:
            self.truth = Truth(**{key: type(getattr(Truth, key))(value) for key, value in given.items()})
        except (AttributeError, TypeError, ValueError) as error:
            raise AccessError(
                f"the truth of a simulated host does not take this: {error}",
                where=f"host {name}",
                advice="it takes clock_offset_ns, " + ", ".join(field.name for field in fields(Truth)),
            ) from error

    async def start(self, program: AgentProgram, command: str = "serve") -> AgentStreams:
        """Starts an agent. Raises AccessError for another command: there is no host to do it on."""
        if command != "serve":
            raise AccessError(
                "a simulated host has no tunables", where=f"host {self.name}", advice="leave `tunables` out"
            )
        reader = asyncio.StreamReader(limit=1 << 24)
        agent = _Agent(reader, self, program)
        return AgentStreams(reader, agent, agent)

    def trouble(self, status: int, said: str) -> AccessError:
        """The error for an agent that ended before its first word."""
        return AccessError(f"the simulated agent ended ({status}) {said}", where=f"host {self.name}")

    async def close(self) -> None:
        """Nothing to remove."""

    def now_ns(self) -> int:
        """The host's monotonic clock."""
        return time.monotonic_ns() + self._offset_ns


class _Agent:
    """Both ends of the streams, and the process."""

    def __init__(self, lab: asyncio.StreamReader, host: SimulatedAccess, program: AgentProgram) -> None:
        self._lab = lab
        self._host = host
        self._decoder = wire.Decoder()
        self._sequence = 0
        self._job: Mapping[str, Any] | None = None
        self._over = asyncio.Event()
        self._status = 0
        self._say("hello", **_hello(host, program))

    # The lab's writer, and its queue.
    @property
    def transport(self) -> _Agent:
        return self

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        if self._over.is_set():
            return
        for payload in self._decoder.feed(data):
            self._hear(json.loads(payload))

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        self._end(0)

    # The process.
    async def wait(self) -> int:
        await self._over.wait()
        return self._status

    def kill(self) -> None:
        self._end(-9)

    def last_words(self) -> str:
        return ""

    def _end(self, status: int) -> None:
        if not self._over.is_set():
            self._status = status
            self._over.set()
            self._lab.feed_eof()

    def _say(self, kind: str, **content: Any) -> None:
        self._lab.feed_data(wire.encode(self._sequence, {"type": kind, **content}))
        self._sequence += 1

    def _hear(self, command: Mapping[str, Any]) -> None:
        match command["type"]:
            case "heartbeat":
                self._say("heartbeat")
            case "probe":
                now_ns = self._host.now_ns()
                self._say("probe_reply", id=command["id"], received_ns=now_ns, sent_ns=now_ns)
            case "prepare":
                self._job = asked(command["job"])
                self._prepare(self._job)
            case "arm" if self._job is not None:
                self._run(self._job, command["start_ns"])
                self._job = None
            case "abort":
                self._say("aborted", trial=self._job["trial"] if self._job else "")
                self._job = None
            case "bye":
                self._end(0)

    def _prepare(self, job: Mapping[str, Any]) -> None:
        offer(job)
        if job["role"] == "receive":
            self._say("listening", trial=job["trial"], port=_PORT)
        socket = job.get("socket") or {}
        idle = job["role"] == "idle"
        obtained = {
            "send_buffer_bytes": (socket.get("send_buffer_bytes") or 8192) * 2,
            "receive_buffer_bytes": (socket.get("receive_buffer_bytes") or 65536) * 2,
            "nagle": socket.get("nagle") is not False,
            "congestion_control": socket.get("congestion_control") or "cubic",
            "segment_bytes": 1448,
            "differing": 0,
        }
        self._say(
            "ready",
            trial=job["trial"],
            connections=0 if idle else job["connections"],
            workers=0 if idle else job["connections"],
            socket=dict.fromkeys(obtained, None) | {"differing": 0} if idle else obtained,
            setup_ns=1_000_000,
            foreign_refused=0,
        )

    def _run(self, job: Mapping[str, Any], start_ns: int) -> None:
        self._say("armed", trial=job["trial"], slack_ns=start_ns - self._host.now_ns(), realtime=True)
        trial = _Trial(self._host.truth, job, self._host.name, start_ns, self._host.reached.cpus)
        records = list(trial.records())
        for number, record in enumerate(records):
            load = {key: record["load"][key] for key in ("bytes", "operations")}
            self._say(
                "progress", **{key: record[key] for key in ("index", "window", "begin_ns", "end_ns")}, **load
            )
            self._say("record", **record)
            following = records[number + 1]["window"] if number + 1 < len(records) else ""
            if record["window"] == "measured" != following:
                self._say("drain", trial=job["trial"], at_ns=record["end_ns"])
        if job.get("profile_hz"):
            self._say("profile", **trial.profile())
        self._say("result", **trial.result(records))


class _Trial:
    """Report of one host on one trial."""

    def __init__(
        self, truth: Truth, job: Mapping[str, Any], host: str, start_ns: int, cpus: Sequence[int]
    ) -> None:
        self._truth = truth
        self._job = {"connections": 1, "message_bytes": 1, **job}
        self._start_ns = start_ns
        self._cpus = list(job["cpus"]) or list(cpus)
        # The rate belongs to the trial and is the same at both ends; the cost is each host's own.
        ends = f"{host}/" if job["role"] == "alone" else ""
        rate = random.Random(f"{truth.seed}/{job['trial']}/{ends}rate")
        self._own = random.Random(f"{truth.seed}/{job['trial']}/{host}")
        self._role = str(job["role"])
        load = 0.0
        kind = SimulatedProgram if job.get("files") else SimulatedDisk
        self._disk = kind(truth, job, host) if self._role == "alone" else None
        if self._disk is not None:
            load = self._disk.bytes_per_s
        elif self._role != "idle":
            load = (
                truth.rate_bits_per_s(self._job["connections"], self._job["message_bytes"], len(self._cpus))
                / 8
            )
        self._bytes_per_s = load * max(0.1, rate.gauss(1.0, truth.noise_between_trials))
        self._rates = rate
        connections, size = self._job["connections"], self._job["message_bytes"]
        cost = truth.cpu_ns_per_kib(connections, size, self._role)
        cost = self._disk.cpu_ns_per_kib if self._disk is not None else cost
        slow = truth.drift_between_trials * drift(str(truth.seed), str(job["trial"]))
        self._cost = cost * max(0.1, self._own.gauss(1.0, truth.noise_between_trials) + slow)
        # CPU time of load and background in the measured window.
        self._measured_ns = {"load": 0.0, "background": 0.0}
        self._host = host
        self._open: OpenLoop | None = None
        if arrivals := arrivals_of(job):
            load_ns = sum(job["windows"][f"{name}_ns"] for name in ("warm_up", "measured", "drain"))
            seed = f"{truth.seed}/{job['trial']}/arrivals"
            # No faster than all connections together can be served.
            least_ns = 1e9 * connections * size / load if load else 0.0
            service_ns = self._disk.service_ns if self._disk else max(truth.open_service_ns, least_ns)
            self._open = OpenLoop(job, arrivals, service_ns, truth.open_lateness_ns, seed, load_ns)
        # The kernel's ticks fall anywhere in the windows: counted from their begin, time would be cut off.
        step = 0 if truth.exact else _TICK_NS
        self._credit = {(cpu, state): self._own.uniform(0, step) for cpu in self._cpus for state in _STATES}

    def records(self) -> Iterator[dict[str, Any]]:
        """One an interval, as a real agent cuts them."""
        begin = 0
        for index, (window, end) in enumerate(_ends(self._job["windows"])):
            noise = max(0.1, self._rates.gauss(1.0, self._truth.noise_within_trial))
            moved = int(self._bytes_per_s * noise * (end - begin) / 1e9)
            operations = moved // self._job["message_bytes"] if self._role == "send" else moved // 65536
            connections = 0 if self._role == "idle" else self._job["connections"]
            times = {"service_time": self._times(operations, end - begin, connections)}
            if self._open is not None:
                operations, times = self._open.interval(begin, end, _bucket)
                moved = operations * self._job["message_bytes"]
                if self._role == "receive":
                    times = {"service_time": times["service_time"]}
            more: dict[str, Any] = {}
            if self._disk is not None:
                if self._open is None:
                    operations, times = self._disk.closed(moved, _bucket)
                moved = self._disk.moved(operations)
                more = {"classes": self._disk.classes(operations, times, _bucket)}
            readings = list(self._readings(window, moved, self._start_ns + end, end - begin))
            if self._open is not None and self._role != "receive":
                values = self._open.values(begin, end)
                readings.append(self._reading("arrivals", values, self._start_ns + end, end - begin))
            if self._disk is not None:
                values = self._disk.device(operations, end - begin)
                readings.append(self._reading("disks", values, self._start_ns + end, end - begin))
            asked = self._job.get("sensors")
            yield {
                "trial": self._job["trial"],
                "index": index,
                "window": window,
                "begin_ns": self._start_ns + begin,
                "end_ns": self._start_ns + end,
                "load": {
                    "bytes": moved,
                    "operations": operations,
                    **times,
                    "connections_active": connections,
                    "connections_lost": 0,
                },
                **more,
                "sensors": [one for one in readings if asked is None or one["sensor"] in asked],
            }
            begin = end

    def result(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Totals."""
        idle = self._role == "idle"
        connections = 0 if idle else self._job["connections"]
        measured = sum(record["load"]["bytes"] for record in records if record["window"] == "measured")
        each = measured // max(1, connections)
        first_ns = None if idle else self._start_ns + self._own.randrange(20_000)
        return {
            "trial": self._job["trial"],
            "records": len(records),
            "start_ns": self._start_ns,
            "first_operation_ns": first_ns,
            "last_worker_started_ns": first_ns,
            "stopped_ns": records[-1]["end_ns"],
            "bytes": sum(record["load"]["bytes"] for record in records),
            "operations": sum(record["load"]["operations"] for record in records),
            "connections_carrying": connections,
            "connections_lost": 0,
            "lost_reason": None,
            "connection_bytes_min": each,
            "connection_bytes_max": each,
            "connection_fairness_ppb": 10**9 if each else None,
            "agent_cpu_ns": 0,
            "agent_rss_peak_bytes": 4 << 20,
            **({self._disk.key: self._disk.account()} if self._disk is not None else {}),
        }

    def profile(self) -> dict[str, Any]:
        """Call stacks of the measured window; to be asked for when every record was made."""
        job, windows = self._job, self._job["windows"]
        costs: dict[str, float] = {}
        if self._role not in ("idle", "alone"):
            costs = self._truth.function_ns_per_kib(job["connections"], job["message_bytes"], self._role)
        scale = self._measured_ns["load"] / (sum(costs.values()) or 1.0)
        begin_ns = self._start_ns + windows["warm_up_ns"]
        seed = f"{self._truth.seed}/{job['trial']}/{self._host}/profile"
        content = simulated_profile.profile(
            self._role,
            job["profile_hz"],
            len(self._cpus),
            windows["measured_ns"],
            {name: cost * scale for name, cost in costs.items()},
            self._measured_ns["background"],
            None if self._truth.exact else seed,
        )
        times = {"begin_ns": begin_ns, "end_ns": begin_ns + windows["measured_ns"]}
        return {"trial": job["trial"], **times, **content}

    def _times(self, operations: int, span_ns: int, connections: int) -> dict[str, Any]:
        """Service times of a closed loop: every connection always has one operation in flight."""
        if operations == 0:
            return {"count": 0, "sum_ns": 0, "buckets": [], "counts": []}
        mean = span_ns * connections / operations
        # Nine in ten a bit below the mean, the rest above, so that the mean holds.
        few = operations // 10
        low, high = int(mean * 0.8), int(mean * 2.8)
        pairs = sorted({_bucket(low): operations - few, _bucket(high): few}.items())
        kept = [(bucket, count) for bucket, count in pairs if count]
        total = (operations - few) * low + few * high
        return {
            "count": sum(count for _, count in kept),
            "sum_ns": total,
            "buckets": [bucket for bucket, _ in kept],
            "counts": [count for _, count in kept],
        }

    def _readings(self, window: str, moved: int, read_ns: int, span_ns: int) -> Iterator[dict[str, Any]]:
        busy_ns = self._cost * moved / 1024 * max(0.0, self._own.gauss(1.0, self._truth.noise_within_trial))
        idle_machine_ns = self._truth.background_ratio * span_ns * len(self._cpus)
        busy_ns = min(busy_ns, max(0.0, span_ns * len(self._cpus) - idle_machine_ns))
        if window == "measured":
            self._measured_ns["load"] += busy_ns
            self._measured_ns["background"] += idle_machine_ns
        room_ns = max(0.0, span_ns * len(self._cpus) - busy_ns - idle_machine_ns)
        neighbours_ns = min(self._truth.neighbours_ratio * span_ns * len(self._cpus), room_ns)
        classes = {
            name: (busy_ns * LOAD_SHARES.get(name, 0.0) + idle_machine_ns * BACKGROUND_SHARES.get(name, 0.0))
            / len(self._cpus)
            for name in (*LOAD_SHARES, "other")
        }
        classes["other"] += neighbours_ns / len(self._cpus)
        busy_ns += idle_machine_ns + neighbours_ns
        # The tick never sees a hard interrupt: its time is booked to what runs when interrupts are let in again.
        states = {
            "cpu.user_ns": classes["usr"],
            "cpu.system_ns": classes["sys"] + classes["other"],
            "cpu.softirq_ns": classes["softirq"] + classes["irq"],
        }
        values = [
            [state, f"cpu={cpu}", self._spent(cpu, state, time_ns)]
            for cpu in self._cpus
            for state, time_ns in states.items()
        ]
        idle_ns = max(0.0, span_ns - busy_ns / len(self._cpus))
        values += [
            ["cpu.idle_ns", f"cpu={cpu}", self._spent(cpu, "cpu.idle_ns", idle_ns)] for cpu in self._cpus
        ]
        rest = [state for state in _STATES if state not in _SHARES and state != "cpu.idle_ns"]
        values += [[state, f"cpu={cpu}", 0] for cpu in self._cpus for state in rest]
        if self._truth.bpf:
            samples = None if self._truth.exact else self._own
            exact = [
                value
                for cpu in self._cpus
                for value in simulated_classes.of_cpu(cpu, classes, span_ns, samples)
            ]
            yield self._reading("cpu_exact", exact, read_ns, span_ns)
        else:
            yield self._reading("cpu_exact", [], read_ns, span_ns, "no kernel in this simulation")
        yield self._reading("cpu_times", values, read_ns, span_ns)
        yield self._reading("cycles", [], read_ns, span_ns, "no hardware counter in a simulation")
        sent = self._role == "send"
        segments = -(-moved // _SEGMENT_BYTES)
        acks = segments // _SEGMENTS_PER_ACK
        out_bytes = moved + segments * 66 if sent else acks * 66
        in_bytes = acks * 66 if sent else moved + segments * 66
        devices: list[list[Any]] = []
        for metric, value in (
            ("net.tx_bytes", out_bytes),
            ("net.tx_packets", segments if sent else acks),
            ("net.rx_bytes", in_bytes),
            ("net.rx_packets", acks if sent else segments),
        ):
            devices.append([metric, "dev=sim0", value])
        yield self._reading("net_devices", devices, read_ns, span_ns)
        if self._role in ("idle", "alone"):
            return
        flows: list[list[Any]] = [
            ["tcp.acked_bytes", "", moved if sent else 0],
            ["tcp.received_bytes", "", 0 if sent else moved],
            ["tcp.segments_out", "", segments if sent else acks],
            ["tcp.segments_in", "", acks if sent else segments],
            ["tcp.data_segments_out", "", segments if sent else 0],
            ["tcp.data_segments_in", "", 0 if sent else segments],
            ["tcp.retransmitted_bytes", "", 0],
            ["tcp.retransmitted_segments", "", 0],
            ["tcp.busy_ns", "", span_ns * self._job["connections"] if sent else 0],
            ["tcp.rwnd_limited_ns", "", 0],
            ["tcp.sndbuf_limited_ns", "", 0],
            ["tcp.flows", "", self._job["connections"]],
        ]
        yield self._reading("tcp_info", flows, read_ns, span_ns)

    def _reading(
        self, sensor: str, values: list[list[Any]], read_ns: int, span_ns: int, missing: str | None = None
    ) -> dict[str, Any]:
        return {
            "sensor": sensor,
            "read_ns": read_ns,
            "span_ns": span_ns,
            "cost_ns": 20_000,
            "values": values,
            "missing": missing,
        }

    def _spent(self, cpu: int, state: str, time_ns: float) -> int:
        """Time in a state as the kernel reports it: in whole ticks, the rest is carried on."""
        step = 1 if self._truth.exact else _TICK_NS
        credit = self._credit[cpu, state] + time_ns
        whole = int(credit // step) * step
        self._credit[cpu, state] = credit - whole
        return whole


def _ends(windows: Mapping[str, int]) -> list[tuple[str, int]]:
    """Windows and ends of the records, counted from the start, as `agent/core/src/phase.rs` has them."""
    ends = []
    if windows["warm_up_ns"] > 0:
        ends.append(("warm_up", windows["warm_up_ns"]))
    measured_end = windows["warm_up_ns"] + windows["measured_ns"]
    interval = windows["interval_ns"]
    end = windows["warm_up_ns"] + interval
    while measured_end - end >= (interval + 1) // 2:
        ends.append(("measured", end))
        end += interval
    ends.append(("measured", measured_end))
    if windows["drain_ns"] > 0:
        ends.append(("drain", measured_end + windows["drain_ns"]))
    return ends


def _bucket(value: int) -> int:
    """Index in the layout `ll7`, as `agent/core/src/histogram.rs` has it."""
    value = min(value, (1 << 42) - 1)
    shift = (value | 128).bit_length() - 8
    return (shift << 7) + (value >> shift)


def _hello(host: SimulatedAccess, program: AgentProgram) -> dict[str, Any]:
    truth = host.truth
    return {
        "wire_version": wire.WIRE_VERSION,
        "version": "simulated",
        "build_hash": program.build_hash,
        "program_sha256": None,
        "host": {
            "hostname": host.name,
            "kernel": "simulated",
            "architecture": os.uname().machine,
            "boot_id": f"simulated-{host.name}",
            "cpu_model": "simulated",
            "cpus_online": list(host.reached.cpus),
            "cpus_allowed": list(host.reached.cpus),
            "memory_bytes": 1 << 40,
            "memory_available_bytes": 1 << 40,
            "descriptors_limit": 1 << 20,
            "threads_limit": 1 << 20,
            "congestion_controls": ["cubic", "reno", "bbr"],
            "irq_time_accounting": truth.exact,
            "governor": None,
            "smt": False,
            "hypervisor": None,
            "cpu_quota_cpus": None,
            "load_average": 0.0,
            "user_id": 0,
        },
        "clock": {
            "clocksource": "tsc",
            "operations_timed_with": "tsc",
            "tsc_hz": truth.tsc_hz,
            "step_ns": 1.0,
            "read_cost_ns": 10.0,
        },
        "capabilities": [
            {"name": "realtime", "available": True, "reason": None},
            {"name": "profile", "available": True, "reason": "cpu-clock"},
        ],
        "now_ns": host.now_ns(),
        "wall_ns": time.time_ns(),
    }
