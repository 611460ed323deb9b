"""Models fitted to a line of a campaign: which one predicts best what it has not seen, and what it says of the system.

Closed loops (rate against operations in flight): one station with 1, 2, 4, ... servers and a delay; one server whose
service times vary as measured, or not at all; the Universal Scalability Law; Amdahl's law. Open loops (mean response
time against the offered rate): one station with 1, 2, 4, ... servers behind a delay, exponential or with the measured
variance.

The choice is by leave-one-out prediction error (Stone, Journal of the Royal Statistical Society B 36, 1974): what a model
says of a load from all others. What is chosen is refused like any curve that its points contradict. Intervals are those of
`curve`; they take the model for true, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from iodyno.analysis.dataset import Dataset
from iodyno.analysis.factors import FactorLevels
from iodyno.analysis.fitting.closed_station import closed_bounds, closed_general, closed_queue
from iodyno.analysis.fitting.curve import Fit, Load, Model, fit
from iodyno.analysis.fitting.open_station import open_queue
from iodyno.analysis.fitting.points import Line, lines_of, rows_of
from iodyno.analysis.fitting.usl import (
    LOADS_LEAST,
    MARGINAL,
    Compared,
    Predicted,
    amdahl,
    compare,
    knees_of,
    nothing,
    predicted,
    refuse_other_shape,
    significant,
    usl,
)
from iodyno.analysis.measured import Measured
from iodyno.analysis.queueing import scaling
from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import counted
from iodyno.loads.base.analysis import load_of

LOADS = ("connections", "queue_depth", "rate")
"""Factors that are a load; the first that varies is taken."""
RATE = "operations_per_s"
SERVERS = (1, 2, 4, 8)
QUEUE_MOST = 1024
"""Operations in flight up to which queues are fitted (chosen: every number of them is summed, in every resample)."""
GENERAL_MOST = 256
"""The same of the recursion over populations."""
BENT = 0.7
"""Utilisation at the greatest load from which on the capacity of an open loop is told (chosen: below it the curve is still
too near to a line for its asymptote).
"""
RIVAL = 1.5
"""Leave-one-out error, in multiples of the least, up to which a model predicts about as well (chosen: with ten loads the
error itself is known to a fifth or so).
"""
FOLLOWS = 0.1
"""Points by which a host's busy share may differ from the station's utilisation, and still follow it (chosen)."""
_SCREEN = 2
_LEAST = 4
_NEAR = 0.05
"""Share by which what was offered may differ from what is named (chosen: some seconds of Poisson arrivals do)."""
_RESAMPLES_OF_REPORT = 400
"""Chosen: a report is made after every campaign; the ends of its bands are good to a tenth of their width."""
_GRID = 61


@dataclass(frozen=True)
class LineFit:
    """Results for a line of a campaign. `refused`: why it says nothing; then all else but `compared` is empty.

    `derived`: `capacity_per_s` and the wall `crossing`, or the knees of a scaling law. `points`, `curve`: of the fitted
    value (rate of a closed loop, response time in s of an open one); `responses`, `response_curve`: response times in s of
    a closed loop, by Little's law. `held_out`: loads that the fit has not seen. `skipped`: models that could not be tried.
    """

    line: Line
    outcome: str
    unit: str
    chosen: Fit | None = field(default=None, repr=False)
    compared: tuple[Compared, ...] = ()
    parameters: Mapping[str, Estimate] = field(default_factory=dict)
    derived: Mapping[str, Estimate] = field(default_factory=dict)
    points: tuple[Predicted, ...] = ()
    curve: tuple[Predicted, ...] = field(default=(), repr=False)
    responses: tuple[Predicted, ...] = ()
    response_curve: tuple[Predicted, ...] = field(default=(), repr=False)
    held_out: tuple[Predicted, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    refused: str | None = None


def fit_line(
    line: Line,
    outcome: str,
    unit: str,
    *,
    hold_out: Sequence[float] = (),
    resamples: int = 1000,
    seed: int = 1,
) -> LineFit:
    """The model that predicts the line best. `hold_out`: loads that it must not see, to be predicted.

    Raises ExperimentError for loads to hold out that the line does not have. A line that carries no model is `refused`.
    """
    missing = [at for at in hold_out if at not in {each.load for each in line.loads}]
    if missing:
        known = ", ".join(f"{each.load:g}" for each in line.loads)
        raise ExperimentError(
            f"no load is {missing[0]:g}; there are: {known}", where="--hold-out", advice="third, or largest:2"
        )
    seen = [each for each in line.loads if each.load not in set(hold_out)]
    if len(seen) < _LEAST:
        value = "response_time_mean" if line.is_open else outcome
        verb = "is" if len(seen) == 1 else "are"
        why = (
            f"{counted(len(seen), 'distinct load')} {verb} too few for two parameters: {_LEAST} are the least"
        )
        return LineFit(line, value, unit, notes=line.left_out, refused=why)
    fits, skipped = _screened(line, seen, unit, seed)
    value = "response_time_mean" if line.is_open else outcome
    if not fits:
        why = skipped[0] if len(skipped) == 1 else "no model can be fitted, each for a reason of its own"
        return LineFit(line, value, unit, notes=line.left_out, skipped=tuple(skipped), refused=why)
    compared = tuple(sorted(compare(fits), key=lambda each: each.left_out_error))
    best = min(fits, key=lambda each: each.left_out_error)
    chosen = fit(best.model, seen, resamples=resamples, seed=seed)
    try:
        what = (
            "response times are those of no queue that is known here"
            if line.is_open
            else "these points are no scaling curve"
        )
        refuse_other_shape(chosen.model, chosen.loads, chosen.relative_errors, what)
    except ExperimentError as error:
        return LineFit(
            line,
            value,
            unit,
            compared=compared,
            notes=line.left_out,
            skipped=tuple(skipped),
            refused=error.what,
        )
    least, most = float(chosen.loads[0]), float(chosen.loads[-1])
    # Held-out loads beyond the data are shown, as they are there to judge the extrapolation.
    grid = np.linspace(min([least, *hold_out]), max([most, *hold_out]), _GRID)
    points, curve = predicted(chosen, chosen.loads, measured=True), predicted(chosen, grid)
    kept = [each for each in line.loads if each.load in set(hold_out)]
    # Not every model takes no loads at all.
    predictions = predicted(chosen, np.array([each.load for each in kept])) if kept else ()
    ahead = tuple(_with_measured(each, load.middle) for each, load in zip(predictions, kept, strict=True))
    responses, response_curve = _responses(line, points, curve, unit)
    law = chosen.model.name in ("usl", "amdahl")
    derived = _unless_rivals_differ(
        _knees(chosen, fits) if law else _derived(chosen, line), chosen, fits, line
    )
    parameters = {p.name: chosen.parameter(p.name) for p in chosen.model.parameters}
    if not law and not line.is_open and derived["crossing"].missing:
        why = "below the wall only the sum of both is told"
        parameters = {name: nothing(each.unit, why) for name, each in parameters.items()}
    return LineFit(
        line,
        value,
        unit,
        chosen,
        compared,
        parameters,
        _unless_rivals_differ(_knees(chosen, fits) if law else _derived(chosen, line), chosen, fits, line),
        points,
        curve,
        responses,
        response_curve,
        ahead,
        (*_notes(line, chosen, ahead), *_rivals_note(fits, line)),
        tuple(skipped),
    )


def fits_of(
    dataset: Dataset, measured: Mapping[str, Mapping[str, Measured]], factors: Sequence[FactorLevels]
) -> tuple[LineFit, ...]:
    """Return the fits of a report: the lines of requests along their first load that has enough levels; none of a search."""
    if not load_of(dataset.experiment.get("workload")).answered or dataset.experiment.get("search"):
        return ()
    along = next(
        (
            f
            for name in LOADS
            for f in factors
            if f.name == name and f.numeric and len(f.levels) >= LOADS_LEAST
        ),
        None,
    )
    if along is None:
        return ()
    outcomes = {
        trial: {name: each.value for name, each in found.items()} for trial, found in measured.items()
    }
    rows = rows_of(dataset, outcomes)
    return tuple(
        fit_line(line, RATE, "1/s", resamples=_RESAMPLES_OF_REPORT)
        for line in lines_of(dataset, rows, factors, along, RATE)
        if len(line.loads) >= LOADS_LEAST
    )


def held_out(loads: Sequence[Load], written: str) -> tuple[float, ...]:
    """Loads named by `written`: `64`, `32,64`, `largest:2`, or `third` (every third, neither first nor last).

    Raises ExperimentError when it is none of these.
    """
    ordered = sorted(each.load for each in loads)
    if written == "third":
        return tuple(ordered[1:-1][::3])
    word, _, count = written.partition(":")
    if word == "largest" and count.isdecimal() and 0 < int(count) < len(ordered):
        return tuple(ordered[-int(count) :])
    try:
        return tuple(_nearest(ordered, float(part)) for part in written.split(","))
    except ValueError:
        raise ExperimentError(
            invalid(written, "loads with commas between, third, or largest:2"),
            where="--hold-out",
            advice=f"--hold-out {ordered[-1]:g}" if ordered else "--hold-out third",
        ) from None


def _nearest(loads: Sequence[float], asked: float) -> float:
    """The load that was asked for: what an open loop offered is about what it was told to."""
    off, load = min((abs(load - asked), load) for load in loads)
    return load if off <= _NEAR * asked else asked


def _screened(line: Line, seen: Sequence[Load], unit: str, seed: int) -> tuple[list[Fit], list[str]]:
    """Every candidate fitted, and why others were not."""
    models, skipped = _candidates(line, unit)
    fits: list[Fit] = []
    for model in models:
        try:
            fits.append(fit(model, seen, resamples=_SCREEN, seed=seed))
        except ExperimentError as error:
            skipped.append(f"{model.title}: {error.what}")
    return fits, list(dict.fromkeys(skipped))


def _candidates(line: Line, unit: str) -> tuple[list[Model], list[str]]:
    most = max(each.load for each in line.loads)
    varied = line.variability
    if line.is_open:
        if line.arrivals not in ("poisson", "constant"):
            return [], [f"arrivals are {line.arrivals}: no formula here holds for them"]
        scv = {"poisson": 1.0, "constant": 0.0}[line.arrivals]
        servers = sorted({*SERVERS, *([line.connections] if line.connections <= 64 else [])})
        found = [open_queue(m, scv) for m in servers if scv == 1]
        if varied is None:
            return found, ["measured variance: no service times were counted at the least load"]
        return [*found, *(open_queue(m, scv, varied.variance_s2) for m in servers)], []
    skipped = []
    models = [usl(unit), amdahl(unit)]
    if unit != "1/s":
        skipped.append(f"queues: their rate is of operations, and {unit} is none")
    elif most > QUEUE_MOST:
        skipped.append(f"queues: {most:g} operations in flight are more than {QUEUE_MOST}")
    else:
        models += [closed_bounds(), *(closed_queue(m) for m in SERVERS if m < most)]
        if varied is not None and most <= GENERAL_MOST:
            models.append(closed_general(varied.variance_s2))
    return models, skipped


def servers_of(model: Model) -> int:
    """Servers of a station's model."""
    if "/" in model.name:
        return int(model.name.rpartition("/")[2])
    tail = model.name.rpartition("_")[2]
    return int(tail) if tail.isdecimal() else 1


def _derived(found: Fit, line: Line) -> dict[str, Estimate]:
    """Capacity and wall of a station, where the data reach them."""
    servers, most = servers_of(found.model), float(found.loads[-1])
    service, delay = found.theta
    resampled = found.resamples
    capacity = found.derived(
        np.float64(servers / service), servers / resampled[:, 0], "1/s", f"{servers} servers / service time"
    )
    if line.is_open:
        busy = found.derived(
            np.float64(most * service / servers),
            most * resampled[:, 0] / servers,
            "1",
            f"offered rate times service time at {most:.4g}/s",
        )
        if busy.estimate is not None and busy.estimate < BENT:
            why = (
                f"at the greatest load the station is only {100 * busy.estimate:.0f} % busy: the curve has not bent enough"
                f" to tell its capacity (from {100 * BENT:.0f} % on)"
            )
            capacity = nothing("1/s", why)
        return {"utilisation_at_most": busy, "capacity_per_s": capacity}
    cycle = found.derived(
        service + delay, resampled[:, 0] + resampled[:, 1], "s", "S + Z: the cycle of a lone operation"
    )
    wall = found.derived(
        np.float64(servers * (service + delay) / service),
        servers * (resampled[:, 0] + resampled[:, 1]) / resampled[:, 0],
        "1",
        "N* = servers (S + Z) / S, where the bounds of operational analysis meet",
    )
    if wall.estimate is not None and (wall.high is None or wall.high >= most):
        why = (
            f"no point lies beyond the wall: the curve would put it at {wall.estimate:.3g}, and {most:g} is the"
            " greatest load"
        )
        return {"cycle_s": cycle, "crossing": nothing("1", why), "capacity_per_s": nothing("1/s", why)}
    return {"cycle_s": cycle, "crossing": wall, "capacity_per_s": capacity}


def _knees(found: Fit, fits: Sequence[Fit]) -> dict[str, Estimate]:
    other = next((each for each in fits if each.model.name == "amdahl"), None)
    coherent = found.model.name == "usl" and (other is None or significant(found, other))
    return knees_of(found, MARGINAL, coherent, False)


def _rivals(fits: Sequence[Fit]) -> list[Fit]:
    """Models that predict about as well as the best."""
    least = min(each.left_out_error for each in fits)
    return [each for each in fits if each.left_out_error <= RIVAL * least]


def _wall(found: Fit) -> float:
    """Return the load at which a closed model has its wall."""
    if found.model.name in ("usl", "amdahl"):
        return float(scaling.crossing(found.theta[1], found.theta[2] if len(found.theta) > 2 else 0.0))
    service, delay = found.theta
    return float(servers_of(found.model) * (service + delay) / service)


def _unless_rivals_differ(
    known: Mapping[str, Estimate], chosen: Fit, fits: Sequence[Fit], line: Line
) -> Mapping[str, Estimate]:
    """Withhold the derived values where a model that predicts as well has its wall beyond the data."""
    if line.is_open:
        return known
    most = float(chosen.loads[-1])
    beyond = next((each for each in _rivals(fits) if _wall(each) >= most), None)
    if beyond is None:
        return known
    why = (
        f"{beyond.model.title} predicts about as well and has its wall beyond {most:g}, the greatest load: more loads"
        " beyond the wall would decide"
    )
    return {
        name: each if each.missing or name == "cycle_s" else nothing(each.unit, why)
        for name, each in known.items()
    }


def _rivals_note(fits: Sequence[Fit], line: Line) -> list[str]:
    """Which others predict as well: the data do not choose between them."""
    best = min(fits, key=lambda each: each.left_out_error)
    others = [each for each in _rivals(fits) if each is not best]
    if not others:
        return []
    if line.is_open:
        rates = [servers_of(each.model) / float(each.theta[0]) for each in (best, *others)]
        place = f"their capacities are from {min(rates):.4g} to {max(rates):.4g}/s"
    else:
        walls = [_wall(each) for each in (best, *others)]
        place = f"their walls are from {min(walls):.3g} to {max(walls):.3g}"
    names = ", ".join(each.model.name for each in others)
    count = "1 other model predicts" if len(others) == 1 else f"{len(others)} other models predict"
    return [f"{count} about as well ({names}): {place}"]


def _responses(
    line: Line, points: Sequence[Predicted], curve: Sequence[Predicted], unit: str
) -> tuple[tuple[Predicted, ...], tuple[Predicted, ...]]:
    """Response times of a closed loop by Little's law, R = N / X - Z: Z is what the measured ones leave of the cycle."""
    if line.is_open or unit != "1/s" or not line.responses:
        return (), ()
    known = {each.load: each.middle for each in line.responses}
    own = [
        each.load / each.measured - known[each.load]
        for each in points
        if each.measured is not None and each.load in known
    ]
    if not own:
        return (), ()
    outside = median(own)

    def turned(each: Predicted) -> Predicted:
        times = [
            each.load / rate - outside for rate in (each.value, each.high, each.low, each.most, each.least)
        ]
        value, low, high, least, most = (max(time, 0.0) for time in times)
        return Predicted(each.load, value, low, high, least, most, known.get(each.load))

    # A band whose lower end is no rate bounds no time.
    return (
        tuple(turned(each) for each in points if each.least > 0),
        tuple(turned(each) for each in curve if each.least > 0),
    )


def _with_measured(each: Predicted, measured: float) -> Predicted:
    return Predicted(each.load, each.value, each.low, each.high, each.least, each.most, measured)


def _notes(line: Line, found: Fit, ahead: Sequence[Predicted]) -> list[str]:
    notes = list(line.left_out)
    if found.disturbed:
        notes.append(
            "trials of one load differ by more than loads do from the curve, as where some were disturbed: medians count"
        )
    if found.lack_of_fit:
        notes.append("loads lie further from the curve than their trials vary: its shape is not quite theirs")
    varied = line.variability
    if varied is not None and found.model.name not in ("usl", "amdahl"):
        used = "is used" if "G" in found.model.name or "general" in found.model.name else "is beside it"
        notes.append(
            f"service times at the least load have a squared coefficient of variation of {varied.scv:.2g}"
            f" ({varied.count} operations); an exponential has 1; it {used}"
        )
    if followed := _followed(line, found):
        notes.append(followed)
    if ahead:
        errors = [each.value / each.measured - 1 for each in ahead if each.measured]
        inside = sum(each.least <= (each.measured or 0.0) <= each.most for each in ahead)
        rms = math.sqrt(sum(error**2 for error in errors) / len(errors))
        notes.append(
            f"of {len(ahead)} loads that were held out {inside} lie in the band; error {100 * rms:.1f} % (root mean square)"
        )
    notes.append("intervals and band take the chosen model for true")
    return notes


def _followed(line: Line, found: Fit) -> str | None:
    """The host whose CPUs are as busy as the station at every load."""
    if found.model.name in ("usl", "amdahl"):
        return None
    servers, service = servers_of(found.model), float(found.theta[0])
    at = {each.load: position for position, each in enumerate(line.loads)}
    rates = found.loads if line.is_open else found.predict(found.loads)
    best: tuple[float, str] | None = None
    for host, shares in line.busy.items():
        cpus = line.cpus.get(host, 0)
        differences = [
            abs(min(share * cpus / servers, 1.0) - rate * service / servers)
            for load, rate in zip(found.loads, rates, strict=True)
            if (share := shares[at[float(load)]]) is not None
        ]
        if differences and (best is None or max(differences) < best[0]):
            best = max(differences), host
    if best is None or best[0] > FOLLOWS:
        return None
    return f"the station is as busy as the CPUs of {best[1]}, to {100 * best[0]:.0f} points at every load"
