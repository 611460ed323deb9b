"""Limiters, which stop a rate from rising: the evidence for them, and how an experiment tested them.

A limiter is a saturated resource or a cap (operational analysis; Gregg's "suspected limiter"). Utilisation alone is
none: what is named must also be what the rate follows when it is changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ProofVerdict = Literal["proved", "contradicted", "not_testable", "undecided"]


@dataclass(frozen=True)
class LimiterKind:
    """One limiter. `per_host` ones are prefixed `client.`, `server.`, ...; `refuted_by`: what would speak against it."""

    name: str
    help: str
    refuted_by: str
    per_host: bool = True

    @property
    def resource(self) -> str:
        """Resource that there is too little of, in common words."""
        return _RESOURCES.get(self.name, "CPU time")


_RESOURCES: Mapping[str, str] = {
    "block_timeout": "speed of blocks",
    "cpu_quota": "quota",
    "lock": "room behind the lock",
    "application": "pace of the application",
    "generator": "speed of the generator",
    "memory": "memory",
    "outside_resource": "what the metric tells of",
    "disk_limit": "disk limit",
    "io_scheduler": "room beside the scheduler",
    "disk_queue": "room in the disk's queue",
    "nfs_slots": "slots",
    "token_bucket": "refill rate",
    "dirty_pages": "room for dirty pages",
    "disk_bandwidth": "bytes per second of the disk",
    "disk": "disk speed",
    "queue": "queue",
    "link_rate": "link rate",
    "loss": "queue",
    "receive_window": "receive buffer",
    "send_buffer": "send buffer",
    "pacing": "pacing rate",
    "congestion_window": "connections",
    "concurrency": "operations at a time",
    "offered_load": "offered load",
}
"""Of limiters that are no shortage of CPU time."""

LIMITERS: Mapping[str, LimiterKind] = {
    kind.name: kind
    for kind in (
        # First: where the rate is that of its law, nothing else that is short has a part in it.
        LimiterKind(
            "block_timeout",
            "A ring of blocks hands none over before its timeout: the requests in flight do not fill one.",
            "the same rate with a longer or shorter timeout",
            per_host=False,
        ),
        LimiterKind(
            "generator",
            "The load generator's own code takes the CPU: the rate is its own, not the path's.",
            "the same rate with a cheaper generator",
        ),
        LimiterKind(
            "observer",
            "The measurement itself takes the CPU.",
            "the same rate with fewer sensors and no profile",
        ),
        LimiterKind("steal", "The hypervisor gives the CPU to others.", "the same rate without steal"),
        LimiterKind(
            "cpu_quota", "A control group caps the CPU time.", "the same rate with a larger or smaller quota"
        ),
        LimiterKind(
            "run_queue",
            "Threads are ready to run and others have the CPU.",
            "the same rate when the others are gone",
        ),
        LimiterKind("lock", "Threads wait for a lock.", "the same rate when the lock is not taken"),
        LimiterKind(
            "application",
            "The application pauses between its calls.",
            "the same rate with longer or shorter pauses",
        ),
        LimiterKind("memory", "Memory is short.", "the same rate with more memory"),
        LimiterKind(
            "outside_resource",
            "Something outside the hosts is full, by a metric that the experiment names.",
            "the same rate when there is more of it",
        ),
        LimiterKind(
            "disk_limit",
            "A control group caps the operations or bytes of the disk.",
            "the same rate with a higher or lower cap",
        ),
        LimiterKind(
            "dirty_pages",
            "Writers wait until dirty pages are written back, and the disk has room.",
            "the same rate with more room for dirty pages (vm.dirty_bytes)",
        ),
        LimiterKind(
            "io_scheduler",
            "Operations wait in the disk's scheduler while the device has room.",
            "the same rate with another scheduler, or none",
        ),
        LimiterKind(
            "disk_queue",
            "The disk's queue (nr_requests) holds less than the load has in flight.",
            "the same rate with a longer or shorter queue",
        ),
        LimiterKind(
            "nfs_slots",
            "Requests of the NFS client wait for a slot of their transport.",
            "the same rate with more slots or transports",
        ),
        LimiterKind(
            "token_bucket",
            "The volume was faster until its bucket of tokens was empty.",
            "the same rate from the begin on when it is refilled",
        ),
        LimiterKind(
            "disk_bandwidth",
            "Storage moves no more bytes.",
            "the same rate of operations with smaller blocks",
        ),
        LimiterKind("disk", "Storage holds the work up.", "the same rate with a faster disk"),
        LimiterKind(
            "softirq",
            "A CPU is full of interrupt work, most of it receiving.",
            "the same rate when that work is spread over more CPUs",
        ),
        LimiterKind(
            "thread",
            "One thread never rests while other CPUs idle.",
            "the same rate with more, or fewer, CPU time for it",
        ),
        LimiterKind(
            "server_thread",
            "One thread of a volume's server never rests while other CPUs idle.",
            "the same rate with more, or fewer, CPU time for it",
            per_host=False,
        ),
        LimiterKind(
            "client_daemon_thread",
            "One thread of the clients' daemons of a volume never rests while other CPUs idle.",
            "the same rate with more, or fewer, CPU time for it",
            per_host=False,
        ),
        LimiterKind(
            "cpu", "The CPUs of the host have no idle time left.", "the same rate with less CPU time"
        ),
        LimiterKind(
            "queue",
            "A queue that is too short drops, and the rate stays below that of the link.",
            "the same rate with a longer queue",
            per_host=False,
        ),
        LimiterKind(
            "link_rate",
            "The link carries no more.",
            "the same rate on a slower or faster link",
            per_host=False,
        ),
        LimiterKind("loss", "Segments are lost on the way.", "the same rate without loss", per_host=False),
        LimiterKind(
            "receive_window",
            "The receiver's window is full while its reader waits for data.",
            "the same rate with a larger or smaller receive buffer",
            per_host=False,
        ),
        LimiterKind(
            "pacing",
            "Sockets send no faster than they were asked to (SO_MAX_PACING_RATE).",
            "the same rate with a higher or lower pacing rate",
            per_host=False,
        ),
        LimiterKind(
            "send_buffer",
            "The send buffer holds less than the path could carry.",
            "the same rate with a larger or smaller send buffer",
            per_host=False,
        ),
        LimiterKind(
            "congestion_window",
            "As much is in flight as congestion control allows.",
            "the same rate with more connections",
            per_host=False,
        ),
        LimiterKind(
            "concurrency",
            "Every operation waits for the one before it: more of them at a time would be served.",
            "the same rate with more operations at a time",
            per_host=False,
        ),
        LimiterKind(
            "offered_load",
            "The load that was asked for is reached: nothing stops it.",
            "the same rate when more is offered",
            per_host=False,
        ),
        LimiterKind("unknown", "No signal is strong enough.", "a signal above its threshold", per_host=False),
    )
}
"""Every limiter, by name without host, in the order of causes: one that stands earlier brings about the signs of
later ones (a reader that pauses fills the receive window), so that it is asked about first."""

UNKNOWN = "unknown"
HELD_LEAST = 0.8
"""Share of the intervals in which the evidence must hold for a limiter to be named (chosen: one in five may be disturbed)."""


def kind_of(limiter: str) -> LimiterKind:
    """The kind of a limiter, named with or without its host."""
    return LIMITERS[limiter.rpartition(".")[2]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One signal against its threshold, over the interval records of the measured window.

    `value` is the median over the windows; `over` of `windows` passed the threshold. `above`: whether a value above the
    threshold speaks for the limiter, or one below it. `value` None: not measured, and `missing` says why.
    """

    signal: str
    value: float | None
    unit: str
    threshold: float
    above: bool
    over: int
    windows: int
    source: str
    cite: str
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """A limiter that may be the one.

    `held`: share of the windows in which all of its evidence passed the thresholds; `score` counts by half those in
    which it came near.
    """

    name: str
    score: float
    held: float
    evidence: tuple[Evidence, ...]

    @property
    def refuted_by(self) -> str:
        """Observation that would speak against the limiter."""
        return kind_of(self.name).refuted_by


@dataclass(frozen=True, slots=True)
class Verdict:
    """Limiter by the evidence of one or more trials: the first of `ranked` if it held often enough, else `unknown`.

    `faint`: what the rules looked at besides, with little that speaks for it, or less than another rule has for the same
    limiter: a point holds all of its trials together. `unseen`: limiters that could not be looked at in every way, each once,
    and why. `apart`: of trials that differ in what limits them, how many each thing
    limited; where they agree, or not one of them has a limiter, there is nothing in it. `stolen`: the hypervisor took CPU time in
    most intervals of the trial; such trials are left out of a point that has others.
    """

    name: str
    ranked: tuple[Suspect, ...] = ()
    unseen: tuple[str, ...] = ()
    trials: int = 1
    apart: tuple[tuple[str, int], ...] = ()
    faint: tuple[Suspect, ...] = ()
    stolen: bool = False

    @property
    def suspect(self) -> Suspect | None:
        """The suspect that the verdict names."""
        return next((suspect for suspect in self.ranked if suspect.name == self.name), None)


@dataclass(frozen=True)
class Perturbation:
    """A change of one resource in a trial of a proof.

    `setting` goes from `before` to `after` (None: not set before); the resource that the limiter stands for becomes
    `resource_ratio` times what it was. `direction` `none` marks a trial without any change, to compare with.
    """

    limiter: str
    direction: Literal["relax", "tighten", "none"]
    setting: str | None = None
    before: int | bool | str | None = None
    after: int | bool | str | None = None
    resource_ratio: float = 1.0


@dataclass(frozen=True)
class Elasticity:
    """Per cent of rate per per cent of resource: d ln rate / d ln resource, with its 95 % interval over `n` pairs."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True)
class Proof:
    """Test of one limiter by an experiment. `why` says it in a sentence."""

    limiter: str
    verdict: ProofVerdict
    why: str
    elasticity: Elasticity | None = None
    by_direction: Mapping[str, Elasticity] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """Limiter at a point: the verdict by evidence, and what the experiments made of it."""

    verdict: Verdict
    proofs: tuple[Proof, ...] = ()

    @property
    def proof(self) -> Proof | None:
        """The experiment that counts: of those that proved one, that in which more of the resource raised the rate, as
        only a limiter's does, and of such the one whose elasticity is the largest for certain; else that of the first
        suspect.
        """
        proved = [proof for proof in self.proofs if proof.verdict == "proved"]
        if not proved:
            return self.proofs[0] if self.proofs else None

        def certain(proof: Proof) -> tuple[bool, float]:
            low = proof.elasticity.low if proof.elasticity else None
            return "relax" in proof.by_direction, low or 0.0

        return max(proved, key=certain)

    @property
    def name(self) -> str:
        """The limiter: the one that was proved, else the first that the evidence names and no experiment contradicts."""
        proof = self.proof
        if proof is not None and proof.verdict == "proved":
            return proof.limiter
        if self.verdict.name not in self.contradicted:
            return self.verdict.name
        left = [suspect for suspect in self.verdict.ranked if suspect.name not in self.contradicted]
        return left[0].name if left and left[0].held >= HELD_LEAST else UNKNOWN

    @property
    def contradicted(self) -> tuple[str, ...]:
        """Limiters that an experiment spoke against."""
        return tuple(proof.limiter for proof in self.proofs if proof.verdict == "contradicted")

    @property
    def status(self) -> str:
        """`proved`, `contradicted`, `not_testable`, `undecided`, or `suspected` where nothing was tested.

        An unknown limiter is undecided.
        """
        if self.name == UNKNOWN:
            return "undecided"
        tested = next((proof for proof in self.proofs if proof.limiter == self.name), None)
        return tested.verdict if tested is not None else "suspected"

    @property
    def elasticity(self) -> Elasticity | None:
        """That of the limiter named; None when it was not tested."""
        tested = next((proof for proof in self.proofs if proof.limiter == self.name), None)
        return tested.elasticity if tested is not None else None
