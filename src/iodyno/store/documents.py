"""The JSON of a campaign: `campaign.json` and the `manifest.json` of each trial, as types.

The checks on reading are made from them, and the schemas in `schema/`. A key that is not required is missing in campaigns of an
older version. Keys that are not named here are passed over: they are of a newer one, or of nobody's concern.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt, StringConstraints, TypeAdapter
from pydantic_core import PydanticCustomError, ValidationError
from typing_extensions import TypedDict  # that of Python 3.11 does not tell pydantic what is required

from iodyno.store.schema import SCHEMA_VERSION

Table = dict[str, Any]
Level = int | bool | str
Setting = int | bool | str | None


class Doubt(TypedDict):
    """A warning that stands beside a number."""

    code: str
    text: str
    where: NotRequired[str]


class HostFacts(TypedDict, total=False):
    """Facts of a host, as its agent found them."""

    cpus_online: list[int] | None
    cpus_allowed: list[int] | None
    memory_bytes: int | None
    cpu_quota_cpus: FiniteFloat | None
    tick_hz: FiniteFloat | None
    irq_time_accounting: bool | None
    smt: bool | None
    boot_id: str | None
    governor: str | None
    hypervisor: str | None
    kernel: str | None
    cpu_model: str | None


class Timer(TypedDict, total=False):
    """The clock that an agent reads."""

    tsc_hz: FiniteFloat | None
    step_ns: FiniteFloat | None
    read_cost_ns: FiniteFloat | None
    clocksource: str | None
    operations_timed_with: str | None


class Capability(TypedDict):
    """Something that an agent can do on its host, or why it cannot."""

    name: str
    available: bool
    reason: NotRequired[str | None]


class Hello(TypedDict, total=False):
    """The first message of an agent."""

    host: HostFacts | None
    clock: Timer | None
    capabilities: list[Capability] | None


class Host(TypedDict, total=False):
    """A host of the campaign."""

    access: str
    cpus: list[int] | None
    address: str | None
    hello: Hello | None
    path: Table | None
    notes: list[str] | None


class Workload(TypedDict, total=False):
    """The load that the experiment asks for."""

    kind: str
    sender: str | None
    receiver: str | None
    settings: dict[str, Level] | None
    hosts: list[str] | None
    variables: Table | None
    own: Table | None
    more_receivers: list[str] | None
    script: Table | None
    program: str | None


class Factor(TypedDict):
    """What is varied, and what is set together with it."""

    name: str
    levels: list[Level]
    together: NotRequired[dict[str, list[Level]] | None]


class SearchFor(TypedDict):
    """The goal of a search."""

    goal: Table


class Experiment(TypedDict):
    """The experiment as it was read from its file."""

    question: NotRequired[str]
    factors: list[Factor]
    workload: Workload
    windows: NotRequired[dict[str, int] | None]
    limits: NotRequired[dict[str, FiniteFloat] | None]
    outcomes: NotRequired[list[str] | None]
    explain: NotRequired[dict[str, list[Level]] | None]
    search: NotRequired[SearchFor | None]
    bystander: NotRequired[Workload | None]
    until: NotRequired[Table | None]
    noise: NotRequired[Table | None]
    knobs: NotRequired[dict[str, Level] | None]
    hosts: NotRequired[dict[str, Table] | None]
    notes: NotRequired[list[str] | None]


class Point(TypedDict):
    """One combination of levels."""

    id: str
    levels: dict[str, Level]


class PlannedTrial(TypedDict):
    """A trial of the design."""

    order: int
    block: int
    replicate: int
    point: str
    plot: NotRequired[int]


class Design(TypedDict):
    """The points and trials that were planned."""

    kind: str
    points: list[Point]
    trials: list[PlannedTrial]
    coding: NotRequired[dict[str, Table] | None]
    generators: NotRequired[list[str] | None]
    resolution: NotRequired[int | None]
    aliases: NotRequired[list[list[str]] | None]
    slow: NotRequired[list[str] | None]


class Calibrated(TypedDict, total=False):
    """What the instrument found of itself on a host."""

    clock: Timer | None
    control: dict[str, FiniteFloat] | None
    write_overhead_ns: dict[str, FiniteFloat | None] | None


class Check(TypedDict):
    """One check before the campaign began."""

    check: str
    ok: bool
    text: str


class Found(TypedDict, total=False):
    """The answer of a search."""

    found: list[Table] | None


class Proof(TypedDict, total=False):
    """What could not be proved."""

    untestable: dict[str, dict[str, str]] | None


Version = Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]


class Campaign(TypedDict):
    """`campaign.json`: what was planned, on which hosts."""

    schema_version: Version
    name: str
    created: str
    seed: int
    quick: bool
    experiment: Experiment
    design: Design
    hosts: dict[str, Host]
    doubts: list[Doubt]
    tool_version: NotRequired[str]
    build_hash: NotRequired[str]
    finished: NotRequired[bool]
    calibration: NotRequired[dict[str, Calibrated] | None]
    preflight: NotRequired[list[Check] | None]
    skipped: NotRequired[dict[str, str] | None]
    paths: NotRequired[Table | None]
    until: NotRequired[Table | None]
    search: NotRequired[Found | None]
    proof: NotRequired[Proof | None]


class Socket(TypedDict, total=False):
    """Socket options; `differing`: connections that got others."""

    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    nagle: bool | None
    congestion_control: str | None
    segment_bytes: int | None
    busy_poll_ns: int | None
    receive_low_water_bytes: int | None
    differing: int


class AskedCall(TypedDict):
    """An operation of a script, as it was asked for."""

    call: str
    socket: NotRequired[Socket | None]
    label: NotRequired[str]
    connection: NotRequired[int]
    protocol: NotRequired[str]


class Rate(TypedDict):
    """How often a transaction is begun."""

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


class Job(TypedDict, total=False):
    """What an agent was asked to do."""

    workload: str
    transport: str
    driver: str
    role: str
    direction: str
    connections: int
    message_bytes: int
    answer_bytes: int
    outstanding: int
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
    answer_timeout_ns: int | None
    trial: str | None
    token: str | None
    address: str | None
    interface: str | None
    tls_cipher: str | None
    local_addresses: list[str] | None
    remote_addresses: list[str] | None
    sensors: list[str] | None
    cork: bool | None
    serialised: bool | None
    spins: bool | None
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
    strands_done: int
    operations: list[Call]
    service_time: NotRequired[Times]
    response_time: NotRequired[Times | None]
    lateness: NotRequired[Times | None]


class Group(TypedDict):
    """Threads of a script, and what they did."""

    name: NotRequired[str]
    strands: NotRequired[int]
    transactions: list[Transaction]


class Script(TypedDict):
    """A script, as it was carried out."""

    groups: list[Group]


class Result(TypedDict, total=False):
    """What an agent did in all."""

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
    """What an agent prepared, and the socket options that it got."""

    workers: int
    connections: int
    socket: Socket | None
    cpu_quota: dict[str, int | str] | None


class Profile(TypedDict):
    """How call stacks were sampled; the stacks are in their part."""

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


class Knob(TypedDict, total=False):
    """A setting of a host: as asked for, as obtained, and why it is not as asked."""

    asked: Setting
    obtained: Setting
    why: str | None


class End(TypedDict, total=False):
    """What one host did in a trial."""

    role: Required[Literal["send", "receive", "alone", "idle"]]
    job: Job | None
    ready: Ready | None
    result: Result | None
    clock: dict[str, dict[str, int] | None] | None
    cpus: list[int] | None
    profile: Profile | None
    knobs: dict[str, Knob] | None


class Start(TypedDict, total=False):
    """When the load began; `offset_ns`: of loads without another end, how long after the first host."""

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
    """What a trial of a proof changed."""

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
    """The second workload of a trial, whose hosts are `bystander.HOST` in the parts."""

    settings: dict[str, Level]
    start: NotRequired[Start | None]
    hosts: dict[str, End]


class Part(TypedDict):
    """A Parquet file of the trial."""

    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]
    bytes: NonNegativeInt
    rows: NotRequired[NonNegativeInt]


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
    windows: dict[str, NonNegativeInt]
    start: NotRequired[Start | None]
    hosts: dict[str, End]
    doubts: NotRequired[list[Doubt]]
    overhead_ns: NotRequired[int | None]
    purpose: NotRequired[Literal["design", "proof"]]
    perturbation: NotRequired[Perturbation | None]
    path: NotRequired[Table | None]
    targets: NotRequired[dict[str, Table] | None]
    losses: NotRequired[list[Loss] | None]
    bystander: NotRequired[Bystander | None]
    parts: dict[str, Part]


Kind = Literal["campaign", "manifest"]


def misfit(document: Any, kind: Kind) -> str | None:
    """The first key whose value is not as it should be, with what is there and what may be; None: all are."""
    try:
        _adapter(kind).validate_python(document, strict=True)
    except ValidationError as error:
        return _first(document, error)
    return None


def json_schema(kind: Kind) -> dict[str, Any]:
    """JSON Schema of a kind of file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter(kind).json_schema()}


@cache
def _adapter(kind: Kind) -> TypeAdapter[Any]:
    return TypeAdapter(Campaign if kind == "campaign" else Manifest)


def _first(document: Any, error: ValidationError) -> str:
    """What is wrong, of the first value at which something is: there may be several types that it is not of."""
    allowed: dict[str, list[str]] = {}
    found: dict[str, str] = {}
    for wrong in error.errors(include_url=False, include_context=False):
        key, value = _place(document, wrong["loc"])
        if wrong["type"] == "missing":
            return f"{key}: found nothing, where a value is needed"
        found[key] = _said(value)
        allowed.setdefault(key, []).append(wrong["msg"].removeprefix("Input should be "))
    key, texts = next(iter(allowed.items()))
    return f"{key}: found {found[key]}, allowed: {' or '.join(dict.fromkeys(texts))}"


def _place(document: Any, location: tuple[int | str, ...]) -> tuple[str, Any]:
    """The key that a location means, and its value: what comes after it names types that were tried."""
    key, value = "", document
    for step in location:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            key, value = f"{key}[{step}]", value[step]
        elif isinstance(value, dict) and isinstance(step, str) and step in value:
            key, value = f"{key}.{step}" if key else step, value[step]
        elif isinstance(value, dict) and step == location[-1] and step != "[key]":
            return f"{key}.{step}" if key else str(step), None
        else:
            break
    return key, value


def _said(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a list" if isinstance(value, list) else "a table of keys"
    return "null" if value is None else f"{value!r:.40}"
