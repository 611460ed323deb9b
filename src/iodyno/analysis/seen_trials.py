"""Outcomes, warnings and limiters that the rows of each trial are read for, trial by trial, so that the rows can go again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.analysis import file_systems, interrupt_rates, observer, physics
from iodyno.analysis.cost import CostBasis
from iodyno.analysis.dataset import Dataset
from iodyno.analysis.finite_buffer import OF_PARTS
from iodyno.analysis.limiter import verdict
from iodyno.analysis.measured import Measured
from iodyno.analysis.outcomes import measure
from iodyno.analysis.steady_state import steady_state
from iodyno.analysis.token_bucket import in_words, token_bucket
from iodyno.analysis.trial import Trial
from iodyno.analysis.two_processes import in_halves
from iodyno.core.limiter import Verdict
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.disk.analysis import block_times, cache, targets


@dataclass(frozen=True)
class Seen:
    """Values left of a trial when its rows are gone: by host what the instrument took and how long was measured."""

    warnings: tuple[Warning, ...]
    measured: Mapping[str, Measured]
    verdict: Verdict
    observer: Mapping[str, Mapping[str, float]]
    shares: Mapping[int, float] | None
    measured_ns: Mapping[str, int]
    interrupts: Mapping[str, interrupt_rates.InterruptCounts]
    targets: Mapping[targets.Key, Mapping[str, Measured]]
    file_systems: Mapping[str, Mapping[file_systems.Key, Mapping[str, Measured]]]


def look_at(
    dataset: Dataset, finished: Sequence[Trial], hello: Mapping[str, Mapping[str, Any]], basis: CostBasis
) -> dict[str, Seen]:
    """All finished trials, one after the other: the rows of a large campaign are in memory a few trials at a time, of which two
    processes have half each.
    """
    trials = Counter(trial.point for trial in finished)

    def seen(each: Sequence[Trial]) -> dict[str, Seen]:
        found = {}
        for trial in dataset.in_turn(each):
            measured = measure(trial, basis)
            hosts = trial.hosts
            kept = _without_parts if trials[trial.point] > 1 else dict
            found[trial.name] = Seen(
                warnings=tuple(trial_warnings(trial, measured, hello, basis)),
                # Only of a point with one trial are parts of it wanted (and where a port with few buffers is idle).
                measured=kept(measured),
                verdict=verdict.of_trial(trial),
                observer={name: observer.parts(host) for name, host in hosts.items()},
                shares=physics.receive_shares(trial),
                measured_ns={name: host.measured_ns for name, host in hosts.items()},
                interrupts={n: c for n, host in hosts.items() if (c := interrupt_rates.counted(host))},
                targets={key: kept(each) for key, each in targets.measured(trial).items()},
                file_systems={
                    name: {key: kept(each) for key, each in seen_there.items()}
                    for name, host in hosts.items()
                    if (seen_there := file_systems.measured(host))
                },
            )
        return found

    return in_halves(seen, finished) if dataset.can_be_shared() else seen(finished)


def _without_parts(measured: Mapping[str, Measured]) -> dict[str, Measured]:
    return {
        name: one if name in OF_PARTS or not (one.intervals or one.batches) else one.without_parts()
        for name, one in measured.items()
    }


def _bucket(trial: Trial, rate: Measured, word: str) -> Warning | None:
    """A warning where the rate is that of a token bucket that ran empty within the window."""
    windows, values = trial.manifest["windows"], rate.intervals
    if not values:
        return None
    bits = word == "goodput"
    found = token_bucket(
        values,
        windows["measured_ns"] / len(values) / 1e9,
        windows["warm_up_ns"] / 1e9,
        "bit/s" if bits else "1/s",
    )
    return Warning(WarningCode.NOT_STEADY, in_words(found, word), trial.name) if found else None


def trial_warnings(
    trial: Trial,
    measured: Mapping[str, Measured] | None,
    hello: Mapping[str, Mapping[str, Any]],
    basis: CostBasis,
) -> list[Warning]:
    """The warnings about a trial: those that it was stored with, and where it was `measured` what its numbers show."""
    found = list(trial.warnings)
    if trial.attempt > 1 and not any(d.code is WarningCode.RETRIED for d in found):
        found.append(Warning(WarningCode.RETRIED, f"attempt {trial.attempt} of this trial", trial.name))
    if measured is not None:
        rate, word = ("iops", "the rate") if trial.clients else ("goodput_bits_per_s", "goodput")
        unsteady = _bucket(trial, measured[rate], word) or steady_state(
            measured[rate].intervals, trial.name, word
        )
        found += [unsteady] if unsteady else []
        found += physics.check_trial(trial, hello, basis.accounting)
        found += physics.check_cost(trial, measured, basis)
        found += physics.check_shares(trial, measured)
        found += cache.unproved(trial)
        found += block_times.lost(trial)
        found += [
            Warning(WarningCode.SENSOR_MISSING, f"{name}: {lacks}", trial.name)
            for name in trial.metrics
            if (lacks := measured[name].missing)
        ]
    return found
