"""The rules: which signals speak for which limiter, and from which value on.

A rule holds in an interval when every one of its criteria does; it names its limiter when it holds in
`HELD_LEAST` of the intervals (Gregg, Active Benchmarking: while the load is steady, at both ends). Rules stand in
the order of causes, as `iodyno.core.limiter.LIMITERS` has them. To add one: a line here, and its signal in `signals`.
"""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.analysis.limiter import flow_signals, path_signals, script_signals, signals
from iodyno.analysis.limiter.signals import SignalOf
from iodyno.core.limiter import LIMITERS

NEAR_ABOVE, NEAR_BELOW = 0.5, 4.0
"""A value within these multiples of its threshold makes a suspect of the lower rank (chosen: wide enough that what comes
second is asked about in a proof)."""

_GREGG = "Gregg, Systems Performance, 2nd edition, 2.5 (USE method)"
_MEASURED = (
    "chosen: between what planted and healthy trials of the calibration half showed (docs/guides/limiter.md)"
)


@dataclass(frozen=True)
class Criterion:
    """A signal and the value from which on it counts. `above` False: it counts below the value."""

    name: str
    signal: SignalOf
    threshold: float
    cite: str
    above: bool = True

    def holds(self, value: float) -> bool:
        """Tell whether the value passed the threshold."""
        return value >= self.threshold if self.above else value <= self.threshold

    def nears(self, value: float) -> bool:
        """Tell whether the value comes near the threshold."""
        return value >= NEAR_ABOVE * self.threshold if self.above else value <= NEAR_BELOW * self.threshold


@dataclass(frozen=True)
class Rule:
    """Criteria that together speak for a limiter, and the ends (roles) that the rule looks at."""

    limiter: str
    criteria: tuple[Criterion, ...]
    ends: tuple[str, ...] = ("send", "receive")

    def criteria_at(self, role: str) -> tuple[Criterion, ...]:
        """All that must hold at one end: of a limiter of the sending host also that it may be what holds the load up."""
        of_sender = role == "send" and LIMITERS[self.limiter].per_host
        return (*self.criteria, *_SENDER_MATTERS) if of_sender else self.criteria


def _above(name: str, signal: SignalOf, threshold: float, cite: str) -> Criterion:
    return Criterion(name, signal, threshold, cite)


def _below(name: str, signal: SignalOf, threshold: float, cite: str) -> Criterion:
    return Criterion(name, signal, threshold, cite, above=False)


_FULL = _below("idle_ratio_of_busiest_cpu", signals.cpu_idle_least, 0.10, _MEASURED)
_AWAKE = _below("asleep_ratio", signals.asleep, 0.30, _MEASURED)
_NOTHING_WAITS = _below(
    "unsent_messages",
    script_signals.unsent_messages,
    1.0,
    "tcp(7): what waits to be sent is not what stops it",
)
_LOST = 0.02
_PACED = "socket(7), SO_MAX_PACING_RATE; chosen: a tenth is what timers and the start cost"
_AS_OFFERED = "chosen: as much as may be missing of what was offered"
_SENDER_MATTERS = (
    # A sender of datagrams does not learn that they are lost. However busy it is: where a notable part of them never
    # arrives, more of its time would send more of what is lost.
    _below("lost_ratio", path_signals.lost, 0.05, "chosen: more than a socket's buffer loses now and then"),
    _below("begun_over_due", path_signals.sender_ahead, 0.98, _AS_OFFERED),
)
_LINK_NOT_FULL = _below(
    "link_filled_ratio",
    path_signals.link_filled,
    0.97,
    "chosen: of a closed loop, whose members pause between what they ask for, a full link is what stops it",
)
_OTHERS = 0.20
_A_FIFTH = "chosen: a fifth of the CPU"

_CPU_FULL = (
    _below("idle_ratio_of_busiest_cpu", signals.cpu_idle_least, 0.05, _GREGG),
    # What others take is not the load's: that they fill what idles says nothing of it.
    _above("load_ratio_of_busiest_cpu", signals.load_cpu_most, 0.93, _MEASURED),
)
_CPU_SHARED = (
    _below("idle_ratio_of_busiest_cpu", signals.cpu_idle_least, 0.05, _GREGG),
    _above("load_ratio_of_busiest_cpu", signals.load_cpu_most, 0.80, "chosen: others have less than a fifth"),
    # Others that take only what the load leaves make none of its threads wait.
    _above("run_delay_ratio", signals.run_delay, 0.05, "chosen: a twentieth of the ready time is lost"),
)
_NONE_LEFT = "chosen: planted windows leave a twelfth of the CPU and more"
_CPU_EXHAUSTED = (
    _below("idle_ratio_of_busiest_cpu", signals.cpu_idle_least, 0.01, _NONE_LEFT),
    _above("load_ratio_of_busiest_cpu", signals.load_cpu_most, 0.97, _NONE_LEFT),
)
_NO_GAP = "chosen: what sleeps longer is held up by what it sleeps for (perturbed: docs/guides/limiter.md)"
_CPU_MOST = (
    # Who fills a buffer now and then sleeps for a moment, and so idles its CPU.
    _below("idle_ratio_of_busiest_cpu", signals.cpu_idle_least, 0.15, _NO_GAP),
    _above("load_ratio_of_busiest_cpu", signals.load_cpu_most, 0.80, _NO_GAP),
    _below("asleep_ratio", signals.asleep, 0.15, _NO_GAP),
)
_WINDOW_OPEN = _below("rwnd_limited_ratio", flow_signals.rwnd_limited, 0.20, _MEASURED)

RULES: tuple[Rule, ...] = (
    Rule(
        "block_timeout",
        (
            _above(
                "block_law_ratio",
                path_signals.block_law,
                0.80,
                "TPACKET_V3, X = N / T; chosen: four fifths of a round are the timeout",
            ),
        ),
        ends=("send",),
    ),
    Rule(
        "generator",
        (
            _above(
                "own_code_ratio",
                signals.own_code,
                0.40,
                _MEASURED,
            ),
            _AWAKE,
        ),
        ends=("send",),
    ),
    Rule(
        "observer",
        (_above("observer_cpus", signals.observer, 0.10, "chosen: twice what marks a trial"), _FULL),
    ),
    Rule(
        "steal",
        (_above("steal_ratio", signals.steal_most, 0.05, "chosen: five times what voids a cost"), _FULL),
    ),
    Rule(
        "cpu_quota",
        (_above("throttled_periods_ratio", signals.throttled, 0.25, _MEASURED),),
    ),
    Rule(
        "cpu_quota",
        (
            _above(
                "quota_used_ratio",
                signals.quota_used,
                0.85,
                "chosen: a period may end before all of it is used",
            ),
        ),
    ),
    Rule(
        "run_queue",
        (
            _above("run_delay_ratio", signals.run_delay, 0.20, "chosen: a fifth of the ready time is lost"),
            _above("others_cpu_ratio", signals.others_cpu, _OTHERS, _A_FIFTH),
            _below("nobody_ready_ratio", signals.nobody_ready, 0.30, _MEASURED),
            _FULL,
        ),
    ),
    Rule(
        "run_queue",
        (
            # Others that no CPU is given to for good leave each of them idle for a part of the time.
            _above("run_delay_ratio", signals.run_delay, 0.25, "chosen: a quarter of the ready time is lost"),
            _above("others_cpu_ratio", signals.others_cpu, _OTHERS, _A_FIFTH),
            _below("nobody_ready_ratio", signals.nobody_ready, 0.40, "chosen: mostly one is ready"),
        ),
    ),
    Rule(
        "run_queue",
        (
            # Others that go from CPU to CPU: while this end waits for one the other end sleeps, and the other way round.
            _above("run_delay_ratio", signals.run_delay, 0.50, "chosen: half of the ready time is lost"),
            _above("others_cpu_ratio", signals.others_cpu, _OTHERS, _A_FIFTH),
            _below(
                "nobody_ready_ratio",
                signals.nobody_ready,
                0.60,
                "chosen: half of the time it is the other end",
            ),
            _LINK_NOT_FULL,
        ),
    ),
    Rule(
        "run_queue",
        (
            # While a reader waits for a CPU its sender comes to sleep, and it sleeps itself when it has read all at once.
            _above("waiting_for_cpu_ratio", signals.cpu_wait, 0.15, _MEASURED),
            _above("others_cpu_ratio", signals.others_cpu, _OTHERS, _A_FIFTH),
            _above(
                "asleep_ratio_of_sender",
                signals.sender_asleep,
                0.15,
                "chosen: half of what is asked of a load that sleeps",
            ),
            _LINK_NOT_FULL,
            _FULL,
        ),
        ends=("receive",),
    ),
    Rule(
        "run_queue",
        (
            # Of an exchange of one after the other, what is waited for a CPU is a part of its time.
            _above("waiting_for_cpu_ratio", signals.cpu_wait, 0.30, "chosen: a third of each exchange"),
            _above("others_cpu_ratio", signals.others_cpu, _OTHERS, _A_FIFTH),
            _above(
                "waiting_ratio", script_signals.waits_for_answers, 0.80, "Denning and Buzen 1978: X R = N"
            ),
            _FULL,
        ),
    ),
    Rule(
        "lock",
        (
            _above(
                "kernel_lock_wait_cpus", signals.lock_wait, 0.20, "chosen: a fifth of a CPU's time is waited"
            ),
        ),
    ),
    Rule(
        "lock",
        (
            _below("off_one_at_a_time", signals.off_exclusion, 0.20, _MEASURED),
            _above("pausing_ratio", signals.pausing, 0.30, _MEASURED),
            _NOTHING_WAITS,
            _below(
                "load_ratio_of_busiest_cpu", signals.load_cpu_most, 0.90, "chosen: a tenth of the CPU is free"
            ),
        ),
        ends=("send",),
    ),
    Rule(
        "application",
        (_above("pausing_ratio", signals.pausing, 0.40, _MEASURED), _NOTHING_WAITS, _LINK_NOT_FULL),
        ends=("send",),
    ),
    Rule(
        "application",
        (
            _above("pausing_ratio", signals.pausing, 0.40, _MEASURED),
            _above("rwnd_limited_ratio", flow_signals.rwnd_limited, 0.30, _MEASURED),
        ),
        ends=("receive",),
    ),
    Rule("memory", (_above("memory_pressure_ratio", signals.memory_pressure, 0.05, _GREGG),)),
    Rule("disk", (_above("io_pressure_ratio", signals.io_pressure, 0.20, _GREGG),)),
    Rule("softirq", (_above("interrupt_ratio_of_busiest_cpu", signals.interrupts_most, 0.90, _GREGG),)),
    Rule(
        "thread",
        (
            _above("busiest_thread_ratio", signals.thread_busiest, 0.90, _GREGG),
            _above(
                "idle_ratio_of_idlest_cpu", signals.cpu_idle_most, 0.20, "chosen: a fifth of a CPU is free"
            ),
        ),
    ),
    # The sender's CPU does not fill the receiver's window; the receiver's does.
    Rule("cpu", (*_CPU_FULL, _WINDOW_OPEN), ends=("send",)),
    Rule("cpu", _CPU_FULL, ends=("receive",)),
    Rule("cpu", (*_CPU_SHARED, _WINDOW_OPEN), ends=("send",)),
    Rule("cpu", _CPU_SHARED, ends=("receive",)),
    Rule("cpu", (*_CPU_MOST, _WINDOW_OPEN), ends=("send",)),
    # Where no time is left at all, a larger window sends more only as far as it saves CPU time.
    Rule("cpu", _CPU_EXHAUSTED, ends=("send",)),
    Rule(
        "queue",
        (
            _above("queue_drops_per_segment", path_signals.queue_drops, 0.001, _MEASURED),
            _below("link_used_ratio", path_signals.link_used, 0.85, _MEASURED),
        ),
        ends=("send",),
    ),
    Rule("link_rate", (_above("link_used_ratio", path_signals.link_used, 0.85, _MEASURED),), ends=("send",)),
    Rule(
        "link_rate",
        (
            _above("waiting_packets", path_signals.waiting_packets, 1.0, "chosen: there is always one"),
            _above("held_back_per_packet", path_signals.held_back, 0.001, _MEASURED),
        ),
    ),
    Rule(
        "link_rate",
        (
            _above(
                "held_back_per_packet",
                path_signals.held_back,
                0.05,
                "chosen: a twentieth of the packets wait",
            ),
            _below(
                "unsteady_ratio", path_signals.unsteady, 0.05, "chosen: what a bucket and its timer vary by"
            ),
        ),
    ),
    Rule(
        "loss",
        (
            _above(
                "retransmits_per_segment",
                flow_signals.retransmitted,
                0.001,
                "RFC 2544 asks for none; chosen: 0.1 %",
            ),
            _above(
                "retransmitting_intervals_ratio",
                flow_signals.retransmitting,
                0.2,
                "chosen: one stall, of the path or of a machine whose timers then fire early, is in one interval of five",
            ),
            # A sender that fills a link loses what its queue does not hold: that is how it knows that it is full.
            _below("link_filled_ratio", path_signals.link_filled, 0.85, _MEASURED),
        ),
        ends=("send",),
    ),
    Rule(
        "loss",
        (
            _above("lost_ratio", path_signals.lost, _LOST, _AS_OFFERED),
            _below("link_filled_ratio", path_signals.link_filled, 0.85, _MEASURED),
        ),
        ends=("send",),
    ),
    Rule(
        "receive_window",
        (_above("rwnd_limited_ratio", flow_signals.rwnd_limited, 0.20, _MEASURED),),
        ends=("send",),
    ),
    Rule("pacing", (_above("pacing_used_ratio", path_signals.pacing_used, 0.9, _PACED),), ends=("send",)),
    Rule(
        "send_buffer",
        (_above("sndbuf_limited_ratio", flow_signals.sndbuf_limited, 0.30, _MEASURED),),
        ends=("send",),
    ),
    Rule(
        "send_buffer",
        (
            _above("blocked_in_sends_ratio", script_signals.blocked_in_sends, 0.10, _NO_GAP),
            _above(
                "window_over_send_buffer",
                script_signals.send_buffer_used,
                0.5,
                "RFC 4898, the smaller of the two windows; socket(7): half of the buffer is the kernel's",
            ),
            _below(
                "rwnd_limited_ratio",
                flow_signals.rwnd_limited,
                0.50,
                "chosen: mostly, the window is not what it is",
            ),
        ),
        ends=("send",),
    ),
    Rule(
        "congestion_window",
        (
            _above(
                "window_used_ratio",
                flow_signals.cwnd_used,
                0.80,
                "chosen: the round-trip time is a smoothed one",
            ),
            _above("blocked_ratio", signals.blocked, 0.50, _MEASURED),
        ),
        ends=("send",),
    ),
    Rule(
        "concurrency",
        (
            _above(
                "waiting_ratio", script_signals.waits_for_answers, 0.80, "Denning and Buzen 1978: X R = N"
            ),
            _above(
                "free_ratio_of_fullest_cpu",
                signals.cpu_free_least,
                0.15,
                _MEASURED,
            ),
        ),
        ends=("send",),
    ),
    Rule(
        "offered_load",
        (
            _above(
                "achieved_over_offered",
                script_signals.offered_reached,
                0.98,
                "chosen: 2 % for the ends of the window",
            ),
            # What was begun and never arrived was not carried.
            _below("lost_ratio", path_signals.lost, _LOST, _AS_OFFERED),
        ),
        ends=("send",),
    ),
)
"""Every rule."""
