"""Verdicts: the rules held against a trial, and the trials of a point taken together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from statistics import fmean, median

from iodyno.analysis.limiter import outside, signals, storage_signals
from iodyno.analysis.limiter.rules import RULES, Criterion, Rule
from iodyno.analysis.limiter.signals import NEVER, Signal, View
from iodyno.analysis.limiter.storage_rules import ALONE, RULES_OF_STORAGE
from iodyno.analysis.trial import Trial
from iodyno.core.limiter import HELD_LEAST, LIMITERS, UNKNOWN, Evidence, Suspect, Verdict
from iodyno.loads.disk.analysis import classes, devices

NEAR_SCORE = 0.5
"""Score of a window in which the criteria are only near their thresholds."""
_SCORE_LEAST = NEAR_SCORE * HELD_LEAST
"""Score of a suspect: that of criteria that are near their thresholds in as many windows as name a limiter."""
_REACHED = "offered_load"
_ORDER = {name: place for place, name in enumerate(LIMITERS)}
_MOVES = "run_queue"
_PAUSES, _FULL = "application", ("softirq", "cpu")
_STEAL, _STOLEN = ".steal_ratio", 0.05
"""Share of a CPU that the hypervisor took in an interval, from which on it tells what was taken, not what limits."""


def of_trial(trial: Trial) -> Verdict:
    """Judge what limits the rate in a finished trial, by the evidence of both ends."""
    found = signals_of(trial)
    if found is None:
        return Verdict(UNKNOWN, unseen=("the trial has not two ends with records",))
    ends = {role: view.host.name for role in _roles(trial) if (view := View.of(trial, role))}
    kept = _undisturbed(found)
    said = of_signals(kept or found, ends, rules_of(trial), _outside(trial))
    return replace(said, stolen=kept is None)


def _undisturbed(found: Mapping[str, Signal]) -> dict[str, Signal] | None:
    """The signals of those intervals in which no host's CPUs were taken away, if these are most; else None."""
    every = [signal.values for signal in found.values()]
    taken = [signal.values for name, signal in found.items() if name.endswith(_STEAL)]
    stolen = {window for values in taken for window, share in values.items() if share >= _STOLEN}
    if 2 * len(stolen) > len(set().union(*every)):
        return None
    return {
        name: replace(
            signal, values={window: value for window, value in signal.values.items() if window not in stolen}
        )
        for name, signal in found.items()
    }


def _outside(trial: Trial) -> Sequence[Suspect]:
    """What metrics that other programs hold say of the intervals of the measured window."""
    end = trial.end("send") or trial.end("receive")
    if end is None or not end.records or not trial.metrics:
        return ()
    start = end.records[0].begin_ns
    spans = ((record.begin_ns - start, record.end_ns - start) for record in end.measured)
    return tuple(outside.suspects(trial.metrics, spans))


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
            for criterion in rule.criteria_at(role) if role in rule.ends else ():
                name = f"{view.host.name}.{criterion.name}"
                if name not in found:
                    found[name] = criterion.signal(view)
    return found


def of_signals(
    found: Mapping[str, Signal],
    ends: Mapping[str, str],
    rules: Sequence[Rule] = RULES,
    outside: Sequence[Suspect] = (),
) -> Verdict:
    """Judge what limits, by signals named with their host. `ends`: the host of each role; `outside`: suspects besides."""
    suspects: list[Suspect] = [*outside]
    unseen: list[tuple[str, str]] = []
    looks: dict[tuple[str, int], _Look] = {}
    # An interval of which not everything is known does not speak for anything: it is one of the measured window all the same.
    measured: dict[str, set[int]] = {}
    for name, signal in found.items():
        measured.setdefault(name.rpartition(".")[0], set()).update(signal.values)
    windows: dict[str, dict[str, set[int]]] = {}
    for rule in rules:
        for role in rule.ends:
            suspect, held, lacks = _look(rule, role, ends[role], found, measured, looks)
            unseen += lacks
            if suspect is not None:
                suspects.append(suspect)
                windows.setdefault(rule.limiter, {}).setdefault(ends[role], set()).update(held)
    suspects = _moving(suspects, windows.get(_MOVES, {}), measured)
    ranked = _ranked([suspect for suspect in suspects if suspect.score >= _SCORE_LEAST])
    faint = tuple(suspect for suspect in suspects if not any(suspect is one for one in ranked))
    return Verdict(_name(ranked), ranked, _each_once(unseen), faint=faint)


def of_point(verdicts: Sequence[Verdict]) -> Verdict:
    """Judge what limits at a point, by the verdicts of its trials: scores are their means, evidence that of all windows, also of
    trials in which little spoke for it.
    """
    if not verdicts:
        return Verdict(UNKNOWN, unseen=("the point has no finished trial",), trials=0)
    verdicts = [verdict for verdict in verdicts if not verdict.stolen] or verdicts
    ranked = _ranked([_of_trials(name, verdicts) for name in _ranked_in_any(verdicts)])
    named = Counter(verdict.name for verdict in verdicts if verdict.name != UNKNOWN)
    name = _name(ranked)
    if name == UNKNOWN and _short_of_cpu(named) and named.total() == len(verdicts):
        (name, _), *_ = named.most_common()
    apart = tuple(named.most_common()) if name == UNKNOWN and len(named) > 1 else ()
    unseen = [_split(text) for verdict in verdicts for text in verdict.unseen]
    return Verdict(name, ranked, _each_once(unseen), len(verdicts), apart)


def _short_of_cpu(named: Counter[str]) -> bool:
    """Tell whether trials differ only in who fills the CPUs of one host beside the load, or whether a tenth of them is free, as
    they do where one more operation in flight would fill them: it is short of CPU time in each, or all but.
    """
    hosts = {host for name in named if (host := name.rpartition(".")[0])}
    return len(hosts) == 1 and {name.rpartition(".")[2] for name in named} <= {
        "cpu",
        "run_queue",
        "concurrency",
    }


def _ranked_in_any(verdicts: Sequence[Verdict]) -> Sequence[str]:
    return list(dict.fromkeys(suspect.name for verdict in verdicts for suspect in verdict.ranked))


def _of_trials(name: str, verdicts: Sequence[Verdict]) -> Suspect:
    """A suspect of a point: of each trial the rule that has most for it counts, and their evidence is that of all trials."""
    every = [
        [suspect for suspect in (*verdict.ranked, *verdict.faint) if suspect.name == name]
        for verdict in verdicts
    ]
    best = [max(found, key=lambda suspect: suspect.score) for found in every if found]
    counted = {_asked(suspect) for suspect in best if suspect.score >= _SCORE_LEAST}
    return Suspect(
        name,
        sum(suspect.score for suspect in best) / len(verdicts),
        sum(suspect.held for suspect in best) / len(verdicts),
        _merged([suspect for found in every for suspect in found if _asked(suspect) in counted]),
    )


def _asked(suspect: Suspect) -> tuple[tuple[str, float], ...]:
    """Return the criteria that tell the rules for one limiter apart."""
    return tuple((evidence.signal, evidence.threshold) for evidence in suspect.evidence)


def _split(unseen: str) -> tuple[str, str]:
    limiter, _, why = unseen.partition(": ")
    return limiter, why


def _each_once(unseen: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """A line for each limiter, with every reason once. One that differs in its numbers alone, as from trial to trial, is the same
    reason: the first is kept.
    """
    found: dict[str, dict[str, str]] = {}
    for limiter, why in unseen:
        reasons = found.setdefault(limiter, {})
        for reason in why.split("; "):
            reasons.setdefault(re.sub(r"[\d.]+", "#", reason), reason)
    return tuple(
        f"{limiter}: {'; '.join(reasons.values())}" if any(reasons) else limiter
        for limiter, reasons in found.items()
    )


class _Look:
    """A criterion held against its signal: the intervals in which it holds, those in which it comes near, and the evidence."""

    def __init__(self, name: str, criterion: Criterion, signal: Signal, windows: int) -> None:
        values = signal.values
        self.holding = {window for window, value in values.items() if criterion.holds(value)}
        self.nearing = {window for window, value in values.items() if criterion.nears(value)}
        self.evidence = Evidence(
            signal=name,
            value=median(values.values()),
            unit=signal.unit,
            threshold=criterion.threshold,
            above=criterion.above,
            over=len(self.holding),
            windows=windows,
            source=signal.source,
            cite=criterion.cite,
        )


def _look(
    rule: Rule,
    role: str,
    host: str,
    known: Mapping[str, Signal],
    measured: Mapping[str, set[int]],
    looks: dict[tuple[str, int], _Look],
) -> tuple[Suspect | None, Set[int], Sequence[tuple[str, str]]]:
    """The suspect that a rule makes of one end, None when it cannot be looked at; the intervals in which all of its criteria
    hold; and what could not be looked at, with the reason.
    `measured`: the intervals of each host; `looks`: criteria that were looked at, which several rules have.
    """
    name = f"{host}.{rule.limiter}" if LIMITERS[rule.limiter].per_host else rule.limiter
    found = [(criterion, known[f"{host}.{criterion.name}"]) for criterion in rule.criteria_at(role)]
    lacking = [signal for _, signal in found if not signal.values]
    if lacking:
        why = [(name, signal.missing or "") for signal in lacking if signal.source != "experiment"]
        return None, set(), why
    if not set.intersection(*(set(signal.values) for _, signal in found)):
        return None, set(), [(name, "its signals have no interval in common")]
    all_of_them = len(measured[host])
    for criterion, signal in found:
        key = f"{host}.{criterion.name}", id(criterion)
        if key not in looks:
            looks[key] = _Look(key[0], criterion, signal, all_of_them)
    mine = [looks[f"{host}.{criterion.name}", id(criterion)] for criterion, _ in found]
    held = set.intersection(*(look.holding for look in mine))
    near = set.intersection(*(look.nearing for look in mine)) - held
    evidence = tuple(
        look.evidence for look, (_, signal) in zip(mine, found, strict=True) if signal.source != NEVER
    )
    score = (len(held) + NEAR_SCORE * len(near)) / all_of_them
    return Suspect(name, score, len(held) / all_of_them, evidence), held, ()


def _moving(
    suspects: list[Suspect], held: Mapping[str, Set[int]], measured: Mapping[str, Set[int]]
) -> list[Suspect]:
    """The suspects, of which others that go from the CPUs of one host to those of the next count in all intervals in which they
    are at one of them: at the host at which they are most often.
    """
    most = max(held, key=lambda host: len(held[host]), default="")
    mine = [suspect for suspect in suspects if suspect.name == f"{most}.{_MOVES}"]
    if not mine or any(map(_enough, mine)):
        return suspects
    joint = len(set.union(*map(set, held.values()))) / len(measured[most])
    best = max(mine, key=lambda suspect: suspect.score)
    raised = replace(best, held=joint, score=max(best.score, joint))
    return [raised if suspect is best and joint >= HELD_LEAST else suspect for suspect in suspects]


def _ranked(suspects: Sequence[Suspect]) -> tuple[Suspect, ...]:
    """Those whose evidence suffices in the order of causes, then the others by score. Of two rules for one limiter
    the stronger counts; of one limiter at both ends, that of the end whose evidence is stronger comes first.
    """
    best: dict[str, Suspect] = {}
    for suspect in suspects:
        if suspect.name not in best or best[suspect.name].score < suspect.score:
            best[suspect.name] = suspect

    full = [cause for one in best.values() if _enough(one) and (cause := _cause(one)) in _FULL]

    def place(suspect: Suspect) -> tuple[bool, float, float]:
        enough = _enough(suspect)
        # Where all that was asked for is done, nothing stops it, however busy something is.
        cause = -1.0 if suspect.name == _REACHED else float(_ORDER[_cause(suspect)])
        # Who pauses between calls, and then waits for a CPU that is full, gets no more done by shorter pauses.
        if _cause(suspect) == _PAUSES and full:
            cause = max(_ORDER[name] for name in full) + 0.5
        return (not enough, cause if enough else -suspect.score, -_strength(suspect) if enough else cause)

    return tuple(sorted(best.values(), key=place))


def _cause(suspect: Suspect) -> str:
    return suspect.name.rpartition(".")[2]


def _strength(suspect: Suspect) -> float:
    """Return the distance of the evidence beyond its thresholds: the least over the signals that have to be above one, as those
    below one go no further than to 0.
    """
    above = [(e.value or 0.0) / e.threshold for e in suspect.evidence if e.above]
    below = [2.0 - (e.value or 0.0) / e.threshold for e in suspect.evidence if not e.above]
    return min(above or below, default=0.0)


def _enough(suspect: Suspect) -> bool:
    return suspect.held >= HELD_LEAST


def _name(ranked: Sequence[Suspect]) -> str:
    return ranked[0].name if ranked and _enough(ranked[0]) else UNKNOWN


def _merged(found: Sequence[Suspect]) -> tuple[Evidence, ...]:
    """The evidence of several trials: medians of medians, windows added."""
    by_signal: dict[tuple[str, float], list[Evidence]] = {}
    for suspect in found:
        for evidence in suspect.evidence:
            by_signal.setdefault((evidence.signal, evidence.threshold), []).append(evidence)
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
        held_above = storage_signals.in_device(view).values.values()
        # What is held back above the device tells nothing of what it could do.
        if busy and done and not any(ratio < storage_signals.IN_DEVICE_LEAST for ratio in held_above):
            found.setdefault(view.host.name, []).append(done / min(1.0, busy))
    return {host: fmean(values) for host, values in found.items()}


def service_time(trials: Sequence[Trial]) -> float | None:
    """Time in nanoseconds for which an operation of a load on storage keeps its place in the loop, with what makes it durable
    (Little's law), mean over the trials; None: there is none.
    """
    known = [
        1e9 * found / done
        for trial in trials
        if trial.clients
        and (found := classes.in_flight(trial))
        and (done := classes.operations_per_s(trial).value)
    ]
    return fmean(known) if known else None
