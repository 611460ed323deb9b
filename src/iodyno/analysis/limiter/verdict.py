"""Verdicts: the rules held against a trial, and the trials of a point taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median

from iodyno.analysis.dataset import Trial
from iodyno.analysis.limiter import signals
from iodyno.analysis.limiter.rules import RULES, WINDOWS_LEAST, Criterion, Rule
from iodyno.analysis.limiter.signals import Signal, View
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.storage import classes, devices
from iodyno.core.limiter import LIMITERS, UNKNOWN, Evidence, Suspect, Verdict

NEAR_SCORE = 0.5
"""What a window counts in which the criteria are only near their thresholds."""
_REACHED = "offered_load"
_ORDER = {name: place for place, name in enumerate(LIMITERS)}


def of_trial(trial: Trial) -> Verdict:
    """What limits the rate in a finished trial, by the evidence of both ends."""
    found = signals_of(trial)
    if found is None:
        return Verdict(UNKNOWN, unseen=("the trial has not two ends with records",))
    ends = {role: view.host.name for role in _roles(trial) if (view := View.of(trial, role))}
    return of_signals(found, ends, rules_of(trial))


def rules_of(trial: Trial) -> tuple[Rule, ...]:
    """The rules that a trial is held against."""
    return RULES_OF_STORAGE if trial.clients else RULES


def _roles(trial: Trial) -> tuple[str, ...]:
    return (ALONE,) if trial.clients else ("send", "receive")


def signals_of(trial: Trial) -> dict[str, Signal] | None:
    """Every signal that a rule asks for, by name with its host; None when the trial lacks an end."""
    found: dict[str, Signal] = {}
    for role in _roles(trial):
        view = View.of(trial, role)
        if view is None:
            return None
        for rule in rules_of(trial):
            for criterion in rule.criteria if role in rule.ends else ():
                name = f"{view.host.name}.{criterion.name}"
                if name not in found:
                    found[name] = criterion.signal(view)
    return found


def of_signals(
    found: Mapping[str, Signal], ends: Mapping[str, str], rules: Sequence[Rule] = RULES
) -> Verdict:
    """What limits, by signals named with their host. `ends`: the host of each role."""
    suspects: list[Suspect] = []
    unseen: dict[str, None] = {}
    for rule in rules:
        for role in rule.ends:
            suspect, lacks = _look(rule, ends[role], found)
            unseen |= dict.fromkeys(lacks)
            if suspect is not None:
                suspects.append(suspect)
    ranked = _ranked(suspects)
    return Verdict(_name(ranked), ranked, tuple(unseen))


def of_point(verdicts: Sequence[Verdict]) -> Verdict:
    """What limits at a point, by the verdicts of its trials: scores are their means, evidence that of all windows."""
    if not verdicts:
        return Verdict(UNKNOWN, unseen=("the point has no finished trial",), trials=0)
    by_name: dict[str, list[Suspect]] = {}
    for verdict in verdicts:
        for suspect in verdict.ranked:
            by_name.setdefault(suspect.name, []).append(suspect)
    suspects = [
        Suspect(
            name,
            sum(suspect.score for suspect in found) / len(verdicts),
            sum(suspect.held for suspect in found) / len(verdicts),
            _merged(found),
        )
        for name, found in by_name.items()
    ]
    ranked = _ranked(suspects)
    unseen = dict.fromkeys(text for verdict in verdicts for text in verdict.unseen)
    name = _name(ranked)
    named = Counter(verdict.name for verdict in verdicts if verdict.name != UNKNOWN)
    apart = tuple(named.most_common()) if name == UNKNOWN and len(named) > 1 else ()
    return Verdict(name, ranked, tuple(unseen), len(verdicts), apart)


def _look(rule: Rule, host: str, known: Mapping[str, Signal]) -> tuple[Suspect | None, Sequence[str]]:
    """The suspect that a rule makes of one end, None when nothing speaks for it; and what could not be looked at."""
    name = f"{host}.{rule.limiter}" if LIMITERS[rule.limiter].per_host else rule.limiter
    found = [(criterion, known[f"{host}.{criterion.name}"]) for criterion in rule.criteria]
    lacking = [signal for _, signal in found if not signal.values]
    if lacking:
        return None, [f"{name}: {signal.missing}" for signal in lacking if signal.source != "experiment"]
    windows = sorted(set.intersection(*(set(signal.values) for _, signal in found)))
    if not windows:
        return None, [f"{name}: its signals have no interval in common"]
    weights = [_weight(found, window) for window in windows]
    score = fmean(weights)
    if score < NEAR_SCORE * WINDOWS_LEAST:
        return None, ()
    evidence = tuple(
        Evidence(
            signal=f"{host}.{criterion.name}",
            value=median(signal.values[window] for window in windows),
            unit=signal.unit,
            threshold=criterion.threshold,
            above=criterion.above,
            over=sum(criterion.holds(signal.values[window]) for window in windows),
            windows=len(windows),
            source=signal.source,
            cite=criterion.cite,
        )
        for criterion, signal in found
    )
    return Suspect(name, score, weights.count(1.0) / len(weights), evidence), ()


def _weight(found: Sequence[tuple[Criterion, Signal]], window: int) -> float:
    values = [(criterion, signal.values[window]) for criterion, signal in found]
    if all(criterion.holds(value) for criterion, value in values):
        return 1.0
    return NEAR_SCORE if all(criterion.nears(value) for criterion, value in values) else 0.0


def _ranked(suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Those whose evidence suffices in the order of causes, then the others by score. Of two rules for one limiter
    the stronger counts; of one limiter at both ends, that of the end whose evidence is stronger comes first.
    """
    best: dict[str, Suspect] = {}
    for suspect in suspects:
        if suspect.name not in best or best[suspect.name].score < suspect.score:
            best[suspect.name] = suspect

    def place(suspect: Suspect) -> tuple[bool, float, float]:
        enough = _enough(suspect)
        # Where all that was asked for is done, nothing stops it, however busy something is.
        cause = -1 if suspect.name == _REACHED else _ORDER[suspect.name.rpartition(".")[2]]
        return (not enough, cause if enough else -suspect.score, -_strength(suspect) if enough else cause)

    return tuple(sorted(best.values(), key=place))


def _strength(suspect: Suspect) -> float:
    """How far the evidence is beyond its thresholds: the least over the signals."""
    beyond = []
    for evidence in suspect.evidence:
        value = evidence.value or 0.0
        beyond.append(value / evidence.threshold if evidence.above else 2.0 - value / evidence.threshold)
    return min(beyond, default=0.0)


def _enough(suspect: Suspect) -> bool:
    return suspect.held >= WINDOWS_LEAST


def _name(ranked: Sequence[Suspect]) -> str:
    return ranked[0].name if ranked and _enough(ranked[0]) else UNKNOWN


def _merged(found: Sequence[Suspect]) -> tuple[Evidence, ...]:
    """The evidence of several trials: medians of medians, windows added."""
    by_signal: dict[str, list[Evidence]] = {}
    for suspect in found:
        for evidence in suspect.evidence:
            by_signal.setdefault(evidence.signal, []).append(evidence)
    merged = []
    for several in by_signal.values():
        first = several[0]
        merged.append(
            Evidence(
                signal=first.signal,
                value=median(evidence.value for evidence in several if evidence.value is not None),
                unit=first.unit,
                threshold=first.threshold,
                above=first.above,
                over=sum(evidence.over for evidence in several),
                windows=sum(evidence.windows for evidence in several),
                source=first.source,
                cite=first.cite,
            )
        )
    return tuple(merged)


def capacities(trials: Sequence[Trial]) -> Mapping[str, float]:
    """CPU time that the agent of each host could have, in CPUs: what it takes and what idles, means over the trials."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        for role in _roles(trial):
            view = View.of(trial, role)
            if view is None:
                continue
            own, idle = signals.agent_cpu(view), signals.cpu_idle_mean(view)
            if own.values and idle.values:
                taken = fmean(own.values.values()) + fmean(idle.values.values()) * view.cpus
                found.setdefault(view.host.name, []).append(taken)
    return {host: fmean(values) for host, values in found.items()}


def device_capacities(trials: Sequence[Trial]) -> Mapping[str, float]:
    """Operations per second that the device under each client's target could do: what it did over the share of the time in
    which it was busy, means over the trials (the utilisation law, Denning and Buzen 1978). Of a device that serves several at
    a time it is what it did, as long as it was never idle.
    """
    found: dict[str, list[float]] = {}
    for trial in trials:
        view = View.of(trial, ALONE) if trial.clients else None
        if view is None:
            continue
        busy = devices.busy_ratio(trial, view.host.name).value
        done = devices.operations_per_s(trial, view.host.name).value
        if busy and done:
            found.setdefault(view.host.name, []).append(done / min(1.0, busy))
    return {host: fmean(values) for host, values in found.items()}


def service_time(trials: Sequence[Trial]) -> float | None:
    """Mean time in nanoseconds of an operation of a load on storage, mean over the trials; None: there is none."""
    known = [found for trial in trials if trial.clients and (found := classes.service_time_mean(trial).value)]
    return fmean(known) if known else None
