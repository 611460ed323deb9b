"""The rules of loads on storage. To add one: a line here, and its signal in `signals` or `storage_signals`.

A closed loop tells no saturated device from a small number of operations at a time by itself: with one operation under way
it is the number, with two and more at a device that is never idle it is the device; a proof changes the one or the other.
"""

from __future__ import annotations

from iodyno.analysis.limiter import signals, storage_signals
from iodyno.analysis.limiter.rules import RULES, Criterion, Rule

ALONE = "alone"
_SHARED = ("observer", "steal", "cpu_quota", "run_queue", "memory", "softirq", "thread", "generator")
"""Limiters whose rules are those of the end that sends."""
_GREGG = "Gregg, Systems Performance, 2nd edition, 9.2 (disk utilisation and saturation)"

_CPU_FREE = Criterion(
    "load_ratio_of_busiest_cpu",
    signals.load_cpu_most,
    0.90,
    "chosen: a tenth of the CPU is free",
    above=False,
)

RULES_OF_STORAGE: tuple[Rule, ...] = (
    *(Rule(rule.limiter, rule.criteria, (ALONE,)) for rule in RULES if rule.limiter in _SHARED and "send" in rule.ends),
    *(Rule(rule.limiter, rule.criteria, (ALONE,)) for rule in RULES if rule.limiter == "cpu" and "receive" in rule.ends),
    Rule(
        "disk",
        (
            Criterion("device_busy_ratio", storage_signals.device_busy, 0.95, _GREGG),
            Criterion("device_depth", storage_signals.device_depth, 2.0, "chosen: one waits while another is served"),
            _CPU_FREE,
        ),
        (ALONE,),
    ),
    Rule(
        "disk",
        (
            Criterion(
                "device_limit_used", storage_signals.device_limit_used, 0.90, "chosen: a limit comes in slices of 0.1 s"
            ),
            _CPU_FREE,
        ),
        (ALONE,),
    ),
    Rule(
        "concurrency",
        (
            Criterion(
                "outstanding", storage_signals.outstanding, 1.0, "Denning and Buzen 1978: X R = N", above=False
            ),
            _CPU_FREE,
        ),
        (ALONE,),
    ),
    Rule(
        "offered_load",
        (
            Criterion(
                "achieved_over_offered", storage_signals.offered_reached, 0.98, "chosen: 2 % for the ends of the window"
            ),
        ),
        (ALONE,),
    ),
)  # fmt: skip
"""Every rule of a load on storage."""
