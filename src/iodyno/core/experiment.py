"""The question as a value: hosts, workload, factors, design, windows, outcomes.

How it is read from a file, and what is said about a wrong one, is in `iodyno.formats.experiment_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from iodyno.core.decision import UntilSpec
from iodyno.core.factor import Factor
from iodyno.core.metric_source import MetricSource
from iodyno.core.noise import NoiseSpec
from iodyno.core.search import SearchSpec
from iodyno.core.workload import Level, Workload
from iodyno.loads.base.workloads import LOADS
from iodyno.loads.files.core.values import Personality
from iodyno.loads.script.core.values import Script


@dataclass(frozen=True)
class HostSpec:
    """A host: its name in the experiment, how the lab reaches it, and the CPUs to use there.

    `options` belong to the access (`iodyno.core.access`; durations in nanoseconds). `cpus` empty: the lab
    chooses. `placed`: `near DEVICE` or `far DEVICE`, in the place of CPUs. `address` is where the other hosts reach it with data,
    when that is not what the access says.
    """

    name: str
    access: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    address: str | None = None
    data_port: int = 0
    placed: str = ""


@dataclass(frozen=True)
class Pair:
    """Two machines that are a block of a placement: the host at each end of the workload, and the names of the two."""

    hosts: Mapping[str, HostSpec]
    machines: Mapping[str, str]

    @property
    def name(self) -> str:
        """The machines, the sender first."""
        return "+".join(self.machines.values())


Between = Literal["all", "pairs"]
"""Which senders have connections with which receivers."""


def stored_ends(workload: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Senders and receivers of a workload as `campaign.json` has it. Earlier versions had a sender, a receiver, and with a script
    more receivers.

    >>> stored_ends({"sender": "a", "receiver": "b", "more_receivers": ["c"]})
    (('a',), ('b', 'c'))
    """
    if "senders" in workload:
        return tuple(workload["senders"] or ()), tuple(workload["receivers"] or ())
    first = tuple(filter(None, (workload.get("receiver"),)))
    return tuple(filter(None, (workload.get("sender"),))), (*first, *(workload.get("more_receivers") or ()))


def stored_links(workload: Mapping[str, Any]) -> int:
    """Number of pairs of hosts that have connections with each other, of a workload as `campaign.json` has it."""
    senders, receivers = stored_ends(workload)
    return len(senders) * (1 if workload.get("between") == "pairs" else len(receivers))


@dataclass(frozen=True)
class WorkloadSpec:
    """Which workload runs between which hosts, with the settings that are not varied.

    `script`: what the workload of that name does; `variables`: what each of its variables holds. `hosts`: those that a
    load runs on which needs no other end; it has neither senders nor receivers then. `program`: the personality of a load on
    files. `own`: settings that one of these hosts has in place of those of all. `between`: every sender has connections with
    every receiver (`all`), or each with the one at its place alone (`pairs`). `groups`: the ends of several hosts, by name.
    """

    kind: str
    senders: tuple[str, ...] = ()
    receivers: tuple[str, ...] = ()
    settings: Mapping[str, Level] = field(default_factory=dict)
    script: Script | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    program: Personality | None = None
    own: Mapping[str, Mapping[str, Level]] = field(default_factory=dict)
    between: Between = "all"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def settings_of(self, host: str, settings: Mapping[str, Level]) -> dict[str, Level]:
        """Return the settings of a point for one host, with its own among them."""
        return {**settings, **self.own.get(host, {})}

    @property
    def ends(self) -> tuple[str, ...]:
        """The hosts that generate or take the load."""
        return self.hosts or (*self.senders, *self.receivers)

    @property
    def sender(self) -> str:
        """The first host that sends; empty where the load needs no other end."""
        return self.senders[0] if self.senders else ""

    @property
    def receiver(self) -> str:
        """The first host that receives; empty where the load needs no other end."""
        return self.receivers[0] if self.receivers else ""

    @property
    def named_ends(self) -> tuple[str, ...]:
        """The ends by the names under which their cost is told: of several hosts, the one that they have together."""
        of_groups = {hosts: (name,) for name, hosts in self.groups.items()}
        return (
            tuple(name for end in (self.senders, self.receivers) for name in of_groups.get(end, end))
            or self.hosts
        )

    def receivers_of(self, sender: str) -> tuple[str, ...]:
        """The hosts that a sender has connections with."""
        if self.between == "pairs":
            place = self.senders.index(sender)
            return self.receivers[place : place + 1]
        return self.receivers

    def senders_to(self, receiver: str) -> tuple[str, ...]:
        """The hosts that have connections with a receiver."""
        return tuple(sender for sender in self.senders if receiver in self.receivers_of(sender))

    def place_among(self, host: str) -> tuple[int, int]:
        """Place of a host among those of its end, from 0, and how many they are."""
        end = self.senders if host in self.senders else self.receivers
        return end.index(host), len(end)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """The senders with the receivers that they have connections with."""
        return tuple((sender, receiver) for sender in self.senders for receiver in self.receivers_of(sender))

    @property
    def workload(self) -> Workload:
        """The workload's description."""
        return LOADS[self.kind].of_content(self.script or self.program)


@dataclass(frozen=True)
class Windows:
    """Lengths in nanoseconds of the windows of a trial, and of an interval record."""

    warm_up_ns: int = 1_000_000_000
    measured_ns: int = 10_000_000_000
    drain_ns: int = 100_000_000
    interval_ns: int = 1_000_000_000

    @property
    def load_ns(self) -> int:
        """Time for which the load is on in a trial."""
        return self.warm_up_ns + self.measured_ns + self.drain_ns

    def measuring(self, measured_ns: int) -> Windows:
        """The same with a measured window of that length; an interval that was as long stays so."""
        whole = self.interval_ns == self.measured_ns
        interval_ns = measured_ns if whole else min(self.interval_ns, measured_ns)
        return replace(self, measured_ns=measured_ns, interval_ns=interval_ns)


@dataclass(frozen=True)
class DesignSpec:
    """Which design, how often each point is repeated, and the seed of its random order.

    The rest belongs to some kinds of design only (`OPTIONS_OF` in `iodyno.core.design_options` says which). `split`: blocks
    that a replicate is divided into. `slow`: factors whose level is kept for as many trials as it can be. `centre_points`:
    how often a replicate visits the middle; None: as often as the design needs it. `log`: factors whose middle is between
    the logarithms. `rows`: text of a design file, or of the points that are there already.
    """

    kind: str = "full_factorial"
    replicates: int = 3
    blocks: bool = True
    seed: int = 1
    resolution: int | None = None
    runs: int | None = None
    generators: tuple[str, ...] = ()
    clear: tuple[str, ...] = ()
    split: int = 1
    confound: tuple[str, ...] = ()
    centre_points: int | None = None
    slow: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    axial: str = "faced"
    model: tuple[str, ...] = ("interactions",)
    along: str | None = None
    direction: str = "up"
    base: Mapping[str, Level] = field(default_factory=dict)
    file: str | None = None
    rows: str | None = None


@dataclass(frozen=True)
class Limits:
    """Limits of a trial: retries after a failure, the start skew over which it is marked (None: what its windows bear),
    background, and the rest before it.
    """

    retries: int = 1
    start_skew_ns: int | None = None
    background_ratio: float = 0.05
    background_ns: int = 1_000_000_000
    rest_ns: int = 0


SensorLevel = Literal["off", "light", "full"]
SENSOR_LEVELS: tuple[SensorLevel, ...] = get_args(SensorLevel)
NO_SENSORS = "no sensors were read (`sensors: off`)"
"""Why what is made of their readings is missing."""


@dataclass(frozen=True)
class Experiment:
    """The question. `text` is the file it was read from, kept verbatim so that a report can be run again.

    `profile_hz`: samples of call stacks per second and CPU; 0: no profile. The default shares no divisor with the
    kernel's timer ticks. `sensors`: how many are read. `prove`: whether extra trials test what
    limits the rate; `foreign`: by changing what others have set on the hosts too. `explain`: of a factor, the two levels whose
    difference in cost a report sets apart by functions. `search`: the level of a parameter is looked for at each point, instead
    of the design's trials. `bystanders`: workloads by name that run beside in every trial, with agents of their own, to see what
    the first one takes from them. `until`: the rule that ends the campaign, block by block. `noise`: how often the levels of a
    noise ladder are repeated. `tunables`: settings of the hosts that hold in every trial, by names such as `server.mtu`.
    `metrics`: sources of metrics that other programs hold, by name.

    `placement`: the pairs of machines that take turns as the hosts, which are those of the first of them; empty: the hosts stay.

    `traces`: for a parameter and a level that names a trace, the level with the whole path of its file.
    `notes` are sentences about what the reader decided by itself, to be shown to the user.
    """

    name: str
    question: str
    hosts: Mapping[str, HostSpec]
    workload: WorkloadSpec
    factors: tuple[Factor, ...]
    design: DesignSpec = field(default_factory=DesignSpec)
    windows: Windows = field(default_factory=Windows)
    limits: Limits = field(default_factory=Limits)
    outcomes: tuple[str, ...] = ()
    profile_hz: int = 997
    sensors: SensorLevel = "full"
    prove: bool | Literal["foreign"] = False
    explain: Mapping[str, tuple[Level, Level]] = field(default_factory=dict)
    search: SearchSpec | None = None
    bystanders: Mapping[str, WorkloadSpec] = field(default_factory=dict)
    until: UntilSpec | None = None
    noise: NoiseSpec | None = None
    tunables: Mapping[str, Level] = field(default_factory=dict)
    metrics: Mapping[str, MetricSource] = field(default_factory=dict)
    placement: tuple[Pair, ...] = ()
    traces: Mapping[tuple[str, Level], str] = field(default_factory=dict)
    text: str = ""
    quick: bool = False
    notes: tuple[str, ...] = ()

    def settings(self, levels: Mapping[str, Level]) -> dict[str, Level]:
        """Everything that workload and hosts are told at a point: defaults, settings, then the point's levels.

        What is searched for is at its least where the levels do not say it. Traces are named by their whole paths, so that
        levels say what was written and hosts are told what was meant.
        """
        searched = {self.search.factor: self.search.min_load} if self.search else {}
        fixed = {**self.workload.workload.defaults(), **self.workload.settings, **self.tunables}
        levels_at = {**fixed, **searched, **levels}
        return {name: self.traces.get((name, level), level) for name, level in levels_at.items()}
