"""Warnings, grouped so that one that hits many trials is told once."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from iodyno.analysis.results import CampaignSummary
from iodyno.core.warnings import Warning, WarningCode

TITLES: dict[WarningCode, str] = {
    WarningCode.SHARED_CPUS: "Hosts share CPUs",
    WarningCode.LOOPBACK_FALLBACK: "Loopback instead of namespaces",
    WarningCode.HOST_BUSY: "Host was busy",
    WarningCode.OPTION_NOT_OBTAINED: "Option not obtained",
    WarningCode.COARSE_CLOCK: "Clock is coarse",
    WarningCode.CLOCK_STEPPED: "Clock stepped",
    WarningCode.FOREIGN_OUTPUT: "Foreign output on the access",
    WarningCode.HOST_CHANGED: "Host changed",
    WarningCode.HOST_LEFT_OUT: "Host left out",
    WarningCode.TUNABLE_LEFT: "Settings of an earlier run restored",
    WarningCode.TUNABLE_NOT_OBTAINED: "Tunable not obtained",
    WarningCode.TUNABLE_CHANGED: "Tunable changed during a trial",
    WarningCode.TUNABLE_NOT_RESTORED: "Tunable not restored",
    WarningCode.START_SKEW: "A host began late",
    WarningCode.NOT_REALTIME: "Start not under real-time scheduling",
    WarningCode.FOREIGN_CONNECTION: "Foreign connection",
    WarningCode.CONNECTIONS_IDLE: "Connections carried nothing",
    WarningCode.CONNECTIONS_LOST: "Connections lost",
    WarningCode.CLIENT_LOST: "Client lost",
    WarningCode.READ_FROM_CACHE: "Page cache not as asked",
    WarningCode.TARGET_LOST: "Target removed or replaced",
    WarningCode.DISK_ERRORS: "Operations on the disk failed",
    WarningCode.SHORT_READS: "Reads brought fewer bytes than asked",
    WarningCode.BLOCK_TIMES_LOST: "Operations of a device were not counted",
    WarningCode.REPLAY_IN_PART: "Trace not replayed in full",
    WarningCode.SENSOR_MISSING: "Sensor missing",
    WarningCode.RETRIED: "Trial retried",
    WarningCode.NOT_STEADY: "Not steady",
    WarningCode.STALLED: "Load stood still",
    WarningCode.SPLIT_UNRELIABLE: "Split of CPU time unreliable",
    WarningCode.TICK_ACCOUNTING: "Split of CPU time sampled at the tick",
    WarningCode.SPLIT_SAMPLED: "User and system told apart by few samples",
    WarningCode.COST_VOID: "Cost is not the host's own",
    WarningCode.BACKGROUND: "Background",
    WarningCode.FEW_REPLICATES: "Few replicates",
    WarningCode.ONE_TRIAL: "One trial only",
    WarningCode.OUTLIER: "A few trials decide the mean",
    WarningCode.PHYSICS: "Physics check broken",
    WarningCode.GENERATOR_BEHIND: "The load generator fell behind: void",
    WarningCode.RESPONSE_CENSORED: "Arrivals still waited at the end",
    WarningCode.SPIN_IN_COST: "Looking at the clock is in the cost",
    WarningCode.GENERATOR_LIMITED: "The generator may be the limit",
    WarningCode.OBSERVER_COST: "The instrument is much of the cost",
    WarningCode.READINGS_IN_TIMES: "Readings of the sensors are in the times",
    WarningCode.MISSING_TRIALS: "Trials missing",
    WarningCode.SKIPPED: "Points that this machine cannot have were skipped",
    WarningCode.RECEIVE_ON_SENDER: "Receiving ran on the sender",
    WarningCode.DATAGRAMS_LOST: "Datagrams were lost",
    WarningCode.DATAGRAMS_DISORDERED: "Datagrams came twice or out of order",
    WarningCode.FRAGMENTS: "Datagrams were cut into fragments",
    WarningCode.FACTORS_TOGETHER: "Settings that change together",
    WarningCode.MODEL_LACKS_FIT: "Model does not fit the points",
    WarningCode.MODEL_RESIDUALS: "Residuals of the model are not as assumed",
    WarningCode.MODEL_ALIASED: "Effects that cannot be told apart",
    WarningCode.MODEL_RANGE: "Outside of the range measured",
    WarningCode.MODEL_INTERVALS: "Two ways to an interval disagree",
    WarningCode.MODEL_ORIGIN: "Model does not pass through the origin",
}
"""A heading for each code."""

_TRIAL = re.compile(r"\d{5,}-\d+(?=,|$)")


@dataclass(frozen=True)
class WarningGroup:
    """All warnings of one code. `texts` are different; `trials`: how many the campaign has."""

    code: str
    title: str
    warnings: tuple[Warning, ...]
    trials: int

    @property
    def texts(self) -> tuple[str, ...]:
        """Texts of the warnings, each once, in order."""
        return tuple(dict.fromkeys(warning.text for warning in self.warnings))

    @property
    def named_trials(self) -> list[str]:
        """Names of the trials that the warnings are of."""
        return sorted({found.group() for one in self.warnings if (found := _TRIAL.match(one.where))})

    @property
    def places(self) -> str:
        """Places of the warnings, in short."""
        places = list(dict.fromkeys(warning.where for warning in self.warnings if warning.where))
        named = self.named_trials
        if len(named) > 1:
            return f"{len(named)} of {self.trials} trials, first {named[0]}"
        if len(places) > 2:
            return f"{len(places)} places, first {places[0]}"
        return ", ".join(places) or "campaign"


def grouped(summary: CampaignSummary) -> list[WarningGroup]:
    """The warnings of a campaign by code, in the order of `WarningCode`."""
    found: dict[WarningCode, list[Warning]] = defaultdict(list)
    for warning in summary.warnings:
        found[warning.code].append(warning)
    trials = len(summary.trials)
    return [
        WarningGroup(str(code), TITLES[code], tuple(found[code]), trials)
        for code in WarningCode
        if code in found
    ]
