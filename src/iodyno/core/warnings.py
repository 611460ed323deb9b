"""Doubts about a measurement: one list, so that a code means one thing everywhere.

A warning never removes a number; it stands beside it. What invalidates a trial is an error instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WarningCode(StrEnum):
    """Every doubt that iodyno can raise."""

    # about the hosts
    SHARED_CPUS = "shared_cpus"
    LOOPBACK_FALLBACK = "loopback_fallback"
    HOST_BUSY = "host_busy"
    OPTION_NOT_OBTAINED = "option_not_obtained"
    COARSE_CLOCK = "coarse_clock"
    CLOCK_STEPPED = "clock_stepped"
    FOREIGN_OUTPUT = "foreign_output"
    HOST_CHANGED = "host_changed"
    KNOB_LEFT = "knob_left"
    KNOB_NOT_OBTAINED = "knob_not_obtained"
    KNOB_CHANGED = "knob_changed"
    KNOB_NOT_RESTORED = "knob_not_restored"
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
    DISK_ERRORS = "disk_errors"
    BLOCK_TIMES_LOST = "block_times_lost"
    # about numbers
    NOT_STEADY = "not_steady"
    SPLIT_UNRELIABLE = "split_unreliable"
    TICK_ACCOUNTING = "tick_accounting"
    SPLIT_SAMPLED = "split_sampled"
    STEAL = "steal"
    COST_VOID = "cost_void"
    BACKGROUND = "background"
    FEW_REPLICATES = "few_replicates"
    ONE_TRIAL = "one_trial"
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
    FRAGMENTS = "fragments"
    # about models
    MODEL_LACKS_FIT = "model_lacks_fit"
    MODEL_RESIDUALS = "model_residuals"
    MODEL_ALIASED = "model_aliased"
    MODEL_RANGE = "model_range"
    MODEL_INTERVALS = "model_intervals"
    MODEL_ORIGIN = "model_origin"


@dataclass(frozen=True)
class Doubt:
    """One doubt: its code, a sentence with the figures, and where it applies (host, trial, point, outcome)."""

    code: WarningCode
    text: str
    where: str = ""

    @property
    def line(self) -> str:
        """Where and what, on one line; the place once, also where the sentence begins with it."""
        named = not self.where or self.text.startswith(f"{self.where}:")
        return self.text if named else f"{self.where}: {self.text}"
