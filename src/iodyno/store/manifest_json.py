"""`manifest.json` of a trial as types. A key that is not required is missing in trials of an older version."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, Required

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, StringConstraints
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict  # that of Python 3.11 does not tell pydantic what is required

from iodyno.store.campaign_json import Level, Table, Version, Warning

Setting = int | bool | str | None


class Socket(TypedDict, total=False):
    """Socket options; `differing`: connections that got others."""

    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    nagle: bool | None
    congestion_control: str | None
    segment_bytes: int | None
    busy_poll_ns: int | None
    receive_low_water_bytes: int | None
    numbers: dict[str, int]
    differing: int


class AskedCall(TypedDict):
    """An operation of a script, as it was asked for."""

    call: str
    socket: NotRequired[Socket | None]
    label: NotRequired[str]
    connection: NotRequired[int]
    protocol: NotRequired[str]


class Rate(TypedDict):
    """Rate at which a transaction is begun."""

    iterations: int
    period_ns: int


class AskedTransaction(TypedDict):
    """Operations one after the other."""

    operations: list[AskedCall]
    rate: NotRequired[Rate | None]


class AskedGroup(TypedDict):
    """Threads that do the same transactions."""

    transactions: list[AskedTransaction]


class AskedScript(TypedDict):
    """A script, as it was asked for."""

    groups: list[AskedGroup]


class Arrivals(TypedDict, total=False):
    """The rate of an open loop."""

    operations: int
    period_ns: int
    per_connection: bool


class Watched(TypedDict):
    """Processes that a sensor counts for a role."""

    role: str


class Ring(TypedDict, total=False):
    """A ring of datagrams."""

    version: int
    adaptive: bool
    block_packets: int
    block_timeout_ns: int


class Application(TypedDict, total=False):
    """What an end does besides its traffic."""

    compute_ns: int
    think_ns: int
    serialised: bool
    burst: int


class Traffic(TypedDict, total=False):
    """What is done on each connection, as far as it belongs to one kind of traffic."""

    direction: str
    cork: bool
    discards: bool
    response_bytes: int
    queue_depth: int
    multiplexed: bool
    busy_wait: bool
    retries: int
    tls_resumption: bool
    application: Application


class Network(TypedDict, total=False):
    """A load on connections, as one of its ends was asked for it."""

    role: Required[Literal["send", "receive"]]
    traffic: Required[dict[str, Traffic]]
    transport: str
    engine: str
    syscalls: str
    batch: int
    ring: Ring | None
    tls_cipher: str
    connections: int
    message_bytes: int
    message_sizes: Table | None
    seed: int
    arrivals: Arrivals | None
    response_timeout_ns: int
    address: str | None
    remote_addresses: list[str]
    first_connection: int
    local_addresses: list[str]
    socket: Socket | None


class Scripted(TypedDict, total=False):
    """A script, as one of its ends was asked for it."""

    role: Required[Literal["send", "receive"]]
    script: Required[AskedScript]
    address: str | None
    remote_addresses: list[str]
    response_timeout_ns: int


class Load(TypedDict, total=False):
    """One kind of load, under its name."""

    idle: Table
    network: Network
    script: Scripted
    disk: Table
    files: Table


class Job(TypedDict, total=False):
    """What an agent was asked to do. Jobs of wire version 5 and older have no `load`, and all of its keys themselves."""

    load: Load
    workload: str
    transport: str
    engine: str
    role: str
    direction: str
    connections: int
    message_bytes: int
    response_bytes: int
    queue_depth: int
    burst: int
    batch: int
    multiplexed: bool
    socket: Socket | None
    arrivals: Arrivals | None
    think_ns: int
    compute_ns: int
    profile_hz: int
    cpu_quota_percent: int | None
    windows: dict[str, int] | None
    script: AskedScript | None
    disk: Table | None
    files: Table | None
    watched: list[Watched] | None
    ring: Ring | None
    message_sizes: Table | None
    cpus: list[int] | None
    seed: int | None
    retries: int | None
    response_timeout_ns: int | None
    trial: str | None
    token: str | None
    address: str | None
    syscalls: str | None
    tls_cipher: str | None
    local_addresses: list[str] | None
    remote_addresses: list[str] | None
    sensors: list[str] | None
    cork: bool | None
    serialised: bool | None
    busy_wait: bool | None
    storage: bool | None
    discards: bool | None
    tls_resumption: bool | None


class Buckets(TypedDict):
    """A histogram."""

    count: int
    sum_ns: int
    buckets: list[int]
    counts: list[int]


def _adds_up(times: Buckets) -> Buckets:
    if len(times["buckets"]) != len(times["counts"]) or sum(times["counts"]) != times["count"]:
        raise PydanticCustomError("histogram", "a count for each bucket, which add up to the whole")
    return times


Times = Annotated[Buckets, AfterValidator(_adds_up)]


class Call(TypedDict):
    """An operation of a script, as it was done."""

    call: str
    label: NotRequired[str]
    operations: int
    bytes: int
    samples: int
    failures: NotRequired[int]
    timeouts: NotRequired[int]
    would_block: NotRequired[int]
    lost: NotRequired[int]
    late: NotRequired[int]
    duplicates: NotRequired[int]
    least_ns: NotRequired[int | None]
    greatest_ns: NotRequired[int | None]
    time: Times
    sample_time: NotRequired[Times | None]
    begin_ns: NotRequired[int | None]
    end_ns: NotRequired[int | None]


class Transaction(TypedDict):
    """A transaction of a script, as it was done."""

    begin_ns: int | None
    end_ns: int | None
    iterations: int
    missed_iterations: NotRequired[int]
    threads_done: int
    operations: list[Call]
    service_time: NotRequired[Times]
    response_time: NotRequired[Times | None]
    lateness: NotRequired[Times | None]


class Group(TypedDict):
    """Threads of a script, and what they did."""

    name: NotRequired[str]
    threads: NotRequired[int]
    transactions: list[Transaction]


class Script(TypedDict):
    """A script, as it was carried out."""

    groups: list[Group]


class Result(TypedDict, total=False):
    """Result of an agent's whole work."""

    script: Script | None
    disk: Table | None
    files: Table | None
    connection_fairness_ppb: int | None
    connections_carrying: int
    connections_lost: int
    agent_cpu_ns: int | None
    bytes: int
    operations: int
    start_ns: int | None
    stopped_ns: int | None


class Ready(TypedDict, total=False):
    """Preparations of an agent, and the socket options that it got."""

    workers: int
    connections: int
    socket: Socket | None
    cpu_quota: dict[str, int | str] | None


class Profile(TypedDict):
    """Sampling of call stacks; the stacks are in their part."""

    hz: int
    event: str
    begin_ns: NotRequired[int]
    end_ns: NotRequired[int]
    samples: NonNegativeInt
    idle_samples: NonNegativeInt
    lost: NonNegativeInt
    cost_ns: NonNegativeInt
    symbolise_ns: NonNegativeInt
    missing: NotRequired[str | None]


class Tunable(TypedDict, total=False):
    """A setting of a host: as asked for, as obtained, and why it is not as asked."""

    asked: Setting
    obtained: Setting
    why: str | None


class End(TypedDict, total=False):
    """Facts of one host in a trial."""

    role: Required[Literal["send", "receive", "alone", "idle"]]
    job: Job | None
    ready: Ready | None
    result: Result | None
    clock: dict[str, dict[str, int] | None] | None
    cpus: list[int] | None
    profile: Profile | None
    tunables: dict[str, Tunable] | None


class Start(TypedDict, total=False):
    """Start of the load; `offset_ns`: of loads without another end, how long after the first host."""

    skew_ns: int | None
    skew_error_ns: int | None
    slack_ns: dict[str, int] | None
    realtime: dict[str, bool] | None
    offset_ns: dict[str, NonNegativeInt] | None


class Reason(TypedDict, total=False):
    """Why a trial failed."""

    what: str
    where: str | None
    code: str
    advice: str | None


class Perturbation(TypedDict):
    """Change that a trial of a proof made."""

    limiter: str
    direction: Literal["relax", "tighten", "none"]
    setting: NotRequired[str | None]
    before: NotRequired[Setting]
    after: NotRequired[Setting]
    resource_ratio: NotRequired[FiniteFloat]


class Loss(TypedDict):
    """A client that the trial lost and went on without."""

    host: str
    code: str
    what: str


class Bystander(TypedDict):
    """A workload beside, whose hosts are `NAME.HOST` in the parts: `bystander` alone, else `bystander-1`, ..."""

    settings: dict[str, Level]
    start: NotRequired[Start | None]
    hosts: dict[str, End]


class MetricClock(TypedDict):
    """Clock of a source of metrics less the lab's wall clock, known to within `error_ns`, and `by` what."""

    offset_ns: int
    error_ns: NonNegativeInt
    by: str


class Part(TypedDict):
    """A Parquet file of the trial."""

    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    bytes: NonNegativeInt
    rows: NonNegativeInt


class WindowLengths(TypedDict):
    """Lengths of the windows of a trial."""

    warm_up_ns: NonNegativeInt
    measured_ns: NonNegativeInt
    drain_ns: NonNegativeInt
    interval_ns: NonNegativeInt


class Manifest(TypedDict):
    """`manifest.json`: one trial."""

    schema_version: Version
    trial: str
    order: int
    attempt: Annotated[int, Field(ge=1)]
    block: NotRequired[int]
    replicate: NotRequired[int]
    point: str
    levels: dict[str, Level]
    settings: NotRequired[dict[str, Level]]
    status: Literal["finished", "failed"]
    reason: Reason | None
    started_wall: str
    windows: WindowLengths
    start: NotRequired[Start | None]
    hosts: dict[str, End]
    warnings: NotRequired[list[Warning]]
    overhead_ns: NotRequired[int | None]
    purpose: NotRequired[Literal["design", "proof"]]
    perturbation: NotRequired[Perturbation | None]
    path: NotRequired[Table | None]
    pair: NotRequired[str]
    targets: NotRequired[dict[str, Table] | None]
    losses: NotRequired[list[Loss] | None]
    metrics: NotRequired[dict[str, MetricClock] | None]
    bystander: NotRequired[Bystander | None]
    bystanders: NotRequired[dict[str, Bystander] | None]
    parts: dict[str, Part]
    sha256: NotRequired[str]
