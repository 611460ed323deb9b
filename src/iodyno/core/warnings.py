"""Warnings about a measurement: one list, so that a code means one thing everywhere.

A warning never removes a number; it stands beside it. What invalidates a trial is an error instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class WarningCode(StrEnum):
    """Every warning that iodyno can raise."""

    # about the hosts
    SHARED_CPUS = "shared_cpus"
    LOOPBACK_FALLBACK = "loopback_fallback"
    HOST_BUSY = "host_busy"
    OPTION_NOT_OBTAINED = "option_not_obtained"
    COARSE_CLOCK = "coarse_clock"
    CLOCK_STEPPED = "clock_stepped"
    FOREIGN_OUTPUT = "foreign_output"
    HOST_CHANGED = "host_changed"
    HOST_LEFT_OUT = "host_left_out"
    TUNABLE_LEFT = "tunable_left"
    TUNABLE_NOT_OBTAINED = "tunable_not_obtained"
    TUNABLE_CHANGED = "tunable_changed"
    TUNABLE_NOT_RESTORED = "tunable_not_restored"
    # about a trial
    START_SKEW = "start_skew"
    NOT_REALTIME = "not_realtime"
    FOREIGN_CONNECTION = "foreign_connection"
    CONNECTIONS_IDLE = "connections_idle"
    CONNECTIONS_LOST = "connections_lost"
    SENSOR_MISSING = "sensor_missing"
    RETRIED = "retried"
    CLIENT_LOST = "client_lost"
    READ_FROM_CACHE = "read_from_cache"
    TARGET_LOST = "target_lost"
    DISK_ERRORS = "disk_errors"
    SHORT_READS = "short_reads"
    BLOCK_TIMES_LOST = "block_times_lost"
    REPLAY_IN_PART = "replay_in_part"
    # about numbers
    NOT_STEADY = "not_steady"
    STALLED = "stalled"
    SPLIT_UNRELIABLE = "split_unreliable"
    TICK_ACCOUNTING = "tick_accounting"
    SPLIT_SAMPLED = "split_sampled"
    COST_VOID = "cost_void"
    BACKGROUND = "background"
    FEW_REPLICATES = "few_replicates"
    ONE_TRIAL = "one_trial"
    OUTLIER = "outlier"
    PHYSICS = "physics"
    GENERATOR_BEHIND = "generator_behind"
    RESPONSE_CENSORED = "response_censored"
    SPIN_IN_COST = "spin_in_cost"
    GENERATOR_LIMITED = "generator_limited"
    OBSERVER_COST = "observer_cost"
    READINGS_IN_TIMES = "readings_in_times"
    MISSING_TRIALS = "missing_trials"
    SKIPPED = "skipped"
    RECEIVE_ON_SENDER = "receive_on_sender"
    DATAGRAMS_LOST = "datagrams_lost"
    DATAGRAMS_DISORDERED = "datagrams_disordered"
    FRAGMENTS = "fragments"
    FACTORS_TOGETHER = "factors_together"
    # about models
    MODEL_LACKS_FIT = "model_lacks_fit"
    MODEL_RESIDUALS = "model_residuals"
    MODEL_ALIASED = "model_aliased"
    MODEL_RANGE = "model_range"
    MODEL_INTERVALS = "model_intervals"
    MODEL_ORIGIN = "model_origin"


@dataclass(frozen=True)
class Warning:
    """One warning: its code, a sentence with the figures, and where it applies (host, trial, point, outcome)."""

    code: WarningCode
    text: str
    where: str = ""

    @property
    def line(self) -> str:
        """Return place and text on one line; the place once, also where the sentence begins with it."""
        named = not self.where or self.text.startswith(f"{self.where}:")
        return self.text if named else f"{self.where}: {self.text}"


def shared_cpus(hosts: Sequence[str], cpus: Mapping[str, Sequence[int]]) -> Warning:
    """Return the warning about hosts that share CPUs.

    >>> shared_cpus(["a", "b"], {"a": [0, 1], "b": [0, 1]}).text.split(": they")[0]
    'hosts on one machine share CPUs (0, 1: a, b)'
    """
    users: dict[tuple[int, ...], list[str]] = {}
    for host in hosts:
        users.setdefault(tuple(cpus[host]), []).append(host)
    held = "; ".join(f"{', '.join(map(str, each))}: {_few(users[each])}" for each in users)
    text = f"hosts on one machine share CPUs ({held}): they slow each other down, and what each costs cannot be told"
    return Warning(WarningCode.SHARED_CPUS, text, f"host {_few(hosts)}")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} others"


def of_hosts(warnings: Sequence[Warning]) -> list[Warning]:
    """The same, each that several hosts have alike told once, with the first and the last of them.

    >>> [each.where for each in of_hosts([Warning(WarningCode.RETRIED, "t", f"host c-{n}") for n in (1, 2, 3)])]
    ['hosts c-1 to c-3']
    """
    alike: dict[tuple[WarningCode, str], list[str]] = {}
    for warning in warnings:
        if warning.where.startswith("host "):
            alike.setdefault((warning.code, warning.text), []).append(warning.where.removeprefix("host "))
    found: list[Warning] = []
    for warning in warnings:
        hosts = list(dict.fromkeys(alike.get((warning.code, warning.text), ())))
        many = len(hosts) >= _MANY and warning.where.startswith("host ")
        merged = replace(warning, where=f"hosts {hosts[0]} to {hosts[-1]}") if many else warning
        if not many or merged not in found:
            found.append(merged)
    return found


_MANY = 3
"""Hosts from which on they are told by the first and the last (chosen: two are told by their names)."""

MEANINGS: Mapping[WarningCode, tuple[str, str]] = {
    code: (meaning, advice)
    for code, meaning, advice in (
        (WarningCode.SHARED_CPUS, "hosts of one machine use the same CPUs: the cost of each is that of both",
         "give them `cpus` of their own"),
        (WarningCode.LOOPBACK_FALLBACK, "no namespaces could be made; data goes over the loopback device", "run as root"),
        (WarningCode.HOST_BUSY, "the idle host was busier than `limits.background`, or others took its CPU time in the load",
         "stop what runs beside, or take more trials"),
        (WarningCode.OPTION_NOT_OBTAINED, "the kernel gave another value for an option, or none",
         "ask for what it gives, or raise the limit of the host"),
        (WarningCode.COARSE_CLOCK, "service times are no finer than the step of the host's clock",
         "look at its clock source (`iodyno-agent facts`)"),
        (WarningCode.CLOCK_STEPPED, "the host's clock moved against iodyno's in the trial, or iodyno's wall clock was set",
         "look at what sets the clock; leave a trial out whose host's moved"),
        (WarningCode.FOREIGN_OUTPUT, "something wrote to the connection before the agent did",
         "silence the start-up files of the remote shell"),
        (WarningCode.HOST_CHANGED, "the host is not as it was when the campaign began", "begin a new campaign"),
        (WarningCode.HOST_LEFT_OUT, "a host of many could not be had, and takes no part", "see `iodyno hosts`"),
        (WarningCode.TUNABLE_LEFT, "settings that a run left which is gone were restored", "nothing"),
        (WarningCode.TUNABLE_NOT_OBTAINED, "the host has another value for a tunable than was asked for",
         "read the value obtained as the level"),
        (WarningCode.TUNABLE_CHANGED, "somebody changed a tunable during the trial", "look for a daemon that sets it"),
        (WarningCode.TUNABLE_NOT_RESTORED, "a setting could not be put back", "`iodyno restore`, or set it by hand"),
        (WarningCode.START_SKEW, "a host began later than `limits.start_skew`",
         "warm up for longer"),
        (WarningCode.NOT_REALTIME, "workers could not have real-time priority for their start",
         "run as root, or allow CAP_SYS_NICE"),
        (WarningCode.FOREIGN_CONNECTION, "connections or datagrams without the trial's token came and were turned away",
         "look at who else uses the port"),
        (WarningCode.CONNECTIONS_IDLE, "some connections carried nothing in the measured window",
         "measure for longer, or with fewer"),
        (WarningCode.CONNECTIONS_LOST, "connections were refused or broke",
         "look at limits of the server's host (backlog, descriptors)"),
        (WarningCode.SENSOR_MISSING, "a sensor, exact accounting or a profile is missing, in all trials or in part",
         "the text names the reason"),
        (WarningCode.RETRIED, "the trial failed before and was made again", "read the manifest of the attempt before"),
        (WarningCode.CLIENT_LOST, "a client was lost and the trial went on without it",
         "`on_client_loss: fail` does not let it"),
        (WarningCode.READ_FROM_CACHE, "the page cache was not as asked (the trial is void), or that cannot be seen",
         "a larger `working_set`, or `direct: on`"),
        (WarningCode.TARGET_LOST, "the name of a target led to another file at the end of the trial, or to none",
         "see who removed or replaced it; the next run lays it out anew"),
        (WarningCode.DISK_ERRORS, "operations on a file or device failed", "look at the kernel's log"),
        (WarningCode.SHORT_READS, "reads of a personality brought fewer bytes than its iosize, or none, and count as operations",
         "files as large as `workingset`, or use bytes per second"),
        (WarningCode.BLOCK_TIMES_LOST, "the kernel did not show the begin or the end of some operations",
         "their share is in the text"),
        (WarningCode.REPLAY_IN_PART, "a trace has operations that are not replayed: of another kind or device",
         "read the rates without them"),
        (WarningCode.NOT_STEADY, "a trial's rate changes from its first half to its second, or its intervals scatter",
         "a longer warm-up or measured window"),
        (WarningCode.STALLED, "the load stood still for a part of the window, without being told to pause",
         "leave the trial out, or take more; look at the kernel's log, and at what runs beside"),
        (WarningCode.SPLIT_UNRELIABLE, "classes of a CPU do not sum to all of its time", "use cost in all, not by class"),
        (WarningCode.TICK_ACCOUNTING, "classes are samples of the timer tick; time in interrupts is booked elsewhere",
         "run as root with an agent built with clang"),
        (WarningCode.SPLIT_SAMPLED, "user and system code of the load were told apart by few samples",
         "measure for longer; their sum is exact"),
        (WarningCode.COST_VOID, "steal time > 1 %: the cost is unreliable", "a quieter machine"),
        (WarningCode.BACKGROUND, "the idle machine's work was large, changed, unknown, or gave way to the load",
         "stop what runs beside"),
        (WarningCode.FEW_REPLICATES, "two trials only, or one where the model needs more", "more `replicates`"),
        (WarningCode.ONE_TRIAL, "the interval is that within one trial", "more `replicates`"),
        (WarningCode.OUTLIER, "a few trials decide the mean: it and the median lie outside of each other's interval",
         "look at what these trials have in common; read the median (JSON, or on a number in the report)"),
        (WarningCode.PHYSICS, "numbers contradict each other: Little's law, bytes sent and received, cycles and clock",
         "do not use them before it is explained"),
        (WarningCode.GENERATOR_BEHIND, "the generator did not begin operations in time: the trial is void",
         "a lower `rate`, or CPUs of its own for the sender"),
        (WarningCode.RESPONSE_CENSORED, "many arrivals still waited when the window ended: response times are lower bounds",
         "a lower `rate`"),
        (WarningCode.SPIN_IN_COST, "looking at the clock took a part of the sender's CPU, which is in its cost",
         "use the server's cost"),
        (WarningCode.GENERATOR_LIMITED, "the load generator, or its ports, may be what limited the rate",
         "more CPUs or hosts that send, another engine"),
        (WarningCode.OBSERVER_COST, "more than a twentieth of a host's cost, and more than its interval, is the instrument's own",
         "`sensors: light`, `profile: off`, longer intervals"),
        (WarningCode.READINGS_IN_TIMES, "operations waited while sensors were read",
         "longer intervals, or a CPU that is free"),
        (WarningCode.MISSING_TRIALS, "not all planned trials of the point count", "`--resume`"),
        (WarningCode.SKIPPED, "this machine cannot have some points", "the text names what is missing"),
        (WarningCode.RECEIVE_ON_SENDER, "the receiver's protocol work ran on the sender's CPU, which is charged for it",
         "two hosts with `access: netns`, or real ones; `total_cpu_ns_per_kib` has both"),
        (WarningCode.DATAGRAMS_LOST, "datagrams were lost", "a larger `window`, or a lower rate"),
        (WarningCode.DATAGRAMS_DISORDERED, "datagrams came twice, or after later ones; each counts once",
         "look at what lies between the hosts"),
        (WarningCode.FRAGMENTS, "datagrams were longer than the path takes whole", "smaller ones, or a larger `link_mtu`"),
        (WarningCode.FACTORS_TOGETHER, "two settings change together: what one does cannot be told from the other",
         "cross them: two factors in the place of one"),
        (WarningCode.MODEL_LACKS_FIT, "the model leaves out more than the spread of replicates explains",
         "another model, or a narrower range"),
        (WarningCode.MODEL_RESIDUALS, "residuals are not normal or not of one size, or a few trials decide the model",
         "a formula with logarithms, `--method huber`, more `replicates`"),
        (WarningCode.MODEL_ALIASED, "the design cannot tell these effects apart", "more runs (`iodyno plan --augment`)"),
        (WarningCode.MODEL_RANGE,
         "a point or a load lies outside of what was measured, or trials missed the rate of their level", "measure there"),
        (WarningCode.MODEL_INTERVALS, "delta method and bootstrap disagree about an interval",
         "take the wider one; more `replicates`"),
        (WarningCode.MODEL_ORIGIN, "the line does not go through zero where it should",
         "keep main effects beside those of the load, or measure at lower loads"),
    )
}  # fmt: skip
"""Of every warning: what it says, and what to do."""
