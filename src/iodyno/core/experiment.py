"""The question as a value: hosts, workload, factors, design, windows, outcomes.

How it is read from a file, and what is said about a wrong one, is in `iodyno.formats.experiment_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iodyno.core.factor import Factor
from iodyno.core.workload import WORKLOADS, Level, Workload


@dataclass(frozen=True)
class HostSpec:
    """A host: its name in the experiment, how the lab reaches it, and the CPUs to use there.

    `options` belong to the access (`iodyno.core.access`; durations in nanoseconds). `cpus` empty: the lab
    chooses. `address` is where the other hosts reach it with data, when that is not what the access says.
    """

    name: str
    access: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    address: str | None = None
    data_port: int = 0


@dataclass(frozen=True)
class WorkloadSpec:
    """Which workload runs between which hosts, with the settings that are not varied."""

    kind: str
    sender: str
    receiver: str
    settings: Mapping[str, Level] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The workload's description."""
        return WORKLOADS[self.kind]


@dataclass(frozen=True)
class Windows:
    """Lengths in nanoseconds of the windows of a trial, and of an interval record."""

    warm_up_ns: int = 1_000_000_000
    measured_ns: int = 10_000_000_000
    drain_ns: int = 100_000_000
    interval_ns: int = 1_000_000_000

    @property
    def load_ns(self) -> int:
        """How long the load is on in a trial."""
        return self.warm_up_ns + self.measured_ns + self.drain_ns


@dataclass(frozen=True)
class DesignSpec:
    """Which design, how often each point is repeated, and the seed of its random order."""

    kind: str = "full_factorial"
    replicates: int = 3
    blocks: bool = True
    seed: int = 1


@dataclass(frozen=True)
class Limits:
    """What a trial may take: retries after a failure, the start skew over which it is marked, background."""

    retries: int = 1
    start_skew_ns: int = 1_000_000
    background_ratio: float = 0.05
    background_ns: int = 1_000_000_000


@dataclass(frozen=True)
class Experiment:
    """The question. `text` is the file it was read from, kept verbatim so that a report can be run again.

    `profile_hz`: samples of call stacks per second and CPU; 0: no profile. The default shares no divisor with the
    kernel's timer ticks. `sensors`: those to read; None: all that the hosts have. `prove`: whether extra trials
    test what limits the rate.

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
    sensors: tuple[str, ...] | None = None
    prove: bool = False
    text: str = ""
    quick: bool = False
    notes: tuple[str, ...] = ()

    def settings(self, levels: Mapping[str, Level]) -> dict[str, Level]:
        """Everything that the workload is told at a point: defaults, settings, then the point's levels."""
        return {**self.workload.workload.defaults(), **self.workload.settings, **levels}
