"""`campaign.json` as types. A key that is not required is missing in campaigns of an older version."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, FiniteFloat
from typing_extensions import TypedDict  # that of Python 3.11 does not tell pydantic what is required

from iodyno.store.schema import SCHEMA_VERSION

Table = dict[str, Any]
Level = int | bool | str
Version = Annotated[int, Field(ge=1, le=SCHEMA_VERSION)]


class Warning(TypedDict):
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
    senders: list[str] | None
    receivers: list[str] | None
    between: str | None
    groups: dict[str, list[str]] | None
    script: Table | None
    program: str | None


class Factor(TypedDict):
    """Factor that is varied, and what is set together with it."""

    name: str
    levels: list[Level]
    together: NotRequired[dict[str, list[Level]] | None]


class SearchFor(TypedDict, total=False):
    """The goals of a search; the one goal of an older one."""

    goals: list[Table] | None
    goal: Table | None


class MetricValue(TypedDict):
    """A value of a source of metrics, with the unit of the outcome that it is."""

    kind: Literal["counter", "gauge"]
    unit: str
    full: NotRequired[FiniteFloat | None]


class MetricSource(TypedDict):
    """A source of metrics that another program holds."""

    source: str
    every_ns: int
    dated: bool
    values: dict[str, MetricValue]


class Placed(TypedDict):
    """A pair of machines of a placement: by the names of the ends, the machine and how it is reached."""

    hosts: dict[str, Table]
    machines: dict[str, str]


class Experiment(TypedDict):
    """The experiment as it was read from its file."""

    question: NotRequired[str]
    factors: list[Factor]
    workload: Workload
    windows: NotRequired[dict[str, int] | None]
    limits: NotRequired[dict[str, FiniteFloat | None] | None]
    outcomes: NotRequired[list[str] | None]
    explain: NotRequired[dict[str, list[Level]] | None]
    search: NotRequired[SearchFor | None]
    bystander: NotRequired[Workload | None]
    bystanders: NotRequired[dict[str, Workload] | None]
    until: NotRequired[Table | None]
    noise: NotRequired[Table | None]
    tunables: NotRequired[dict[str, Level] | None]
    metrics: NotRequired[dict[str, MetricSource] | None]

    placement: NotRequired[list[Placed]]
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
    pair: NotRequired[str]


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
    """Calibration: what the instrument found of itself on a host."""

    clock: Timer | None
    control: dict[str, FiniteFloat] | None
    write_overhead_ns: dict[str, FiniteFloat | None] | None


class Check(TypedDict):
    """One check before the campaign began."""

    check: str
    ok: bool
    text: str


class Found(TypedDict, total=False):
    """The goal results of a search, and its trials by point; the answer of an older one."""

    goal_results: list[Table] | None
    load_trials: dict[str, list[Table]] | None
    found: list[Table] | None


class Proof(TypedDict, total=False):
    """Limiters that could not be proved."""

    untestable: dict[str, dict[str, str]] | None


class Recording(TypedDict):
    """A recording without a load: its intervals, its segments, what was recorded, the devices that are shown (none: all)."""

    every_ns: int
    segment_ns: int
    host: str
    devices: NotRequired[list[str] | None]


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
    warnings: list[Warning]
    tool_version: NotRequired[str]
    build_hash: NotRequired[str]
    finished: NotRequired[bool]
    calibration: NotRequired[dict[str, Calibrated] | None]
    preflight: NotRequired[list[Check] | None]
    skipped: NotRequired[dict[str, str] | None]
    paths: NotRequired[Table | None]
    pairs: NotRequired[dict[str, dict[str, Host]]]
    until: NotRequired[Table | None]
    search: NotRequired[Found | None]
    proof: NotRequired[Proof | None]
    foreign: NotRequired[dict[str, Level] | None]
    recording: NotRequired[Recording | None]
    sha256: NotRequired[str]
