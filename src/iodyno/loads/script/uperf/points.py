"""Check of every point of an experiment whose load is a script: it can be carried out, as seen before the first trial.

The numbers of a script are factors: a level may ask for what no number of it may be, for what no trial can do, or for
more time than the windows have.
"""

from __future__ import annotations

from dataclasses import dataclass

from iodyno.core import quantity
from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import invalid
from iodyno.core.workload import Level
from iodyno.formats.experiment_file import line_of
from iodyno.formats.mistakes import Mistake, error
from iodyno.loads.script.core.values import Script
from iodyno.loads.script.uperf import bounds
from iodyno.loads.script.uperf.experiment import what_cannot_run, windows_keys


def refuse_points(experiment: Experiment, design: Design, file: str) -> None:
    """Raises ExperimentError, with every mistake and its line in the file, where a point cannot be carried out."""
    script = experiment.workload.script
    if script is None:
        return
    mistakes: dict[Mistake, str] = {}
    lasting: list[_Lasting] = []
    for levels in _levels(experiment, design, script):
        wrong = bounds.refused(script, levels)
        for name, (line, allowed) in wrong.items():
            section = "factors" if _varied(experiment, name) else "workload"
            text = invalid(_shown(experiment, name, levels[name]), f"{allowed} (line {line} of the profile)")
            mistakes[_mistake(experiment, f"{section}.{name}", text)] = ""
        if wrong:
            continue
        bound = script.bound(levels)
        found, advice = what_cannot_run(bound)
        for mistake in found:
            text = f"line {mistake.line} of it: {mistake}"
            mistakes[_mistake(experiment, "workload.profile", text)] = advice
        if not found:
            named = [f"{n} {_shown(experiment, n, levels[n])}" for n in bounds.timing(script) if n in levels]
            enough_ns = quantity.parse("duration", windows_keys(bound)["measured"])
            lasting.append(_Lasting(bounds.least_ns(bound), enough_ns, ", ".join(named)))
    mistakes |= _too_long(experiment, lasting)
    if mistakes:
        raise error(file, mistakes, next((advice for advice in mistakes.values() if advice), ""))


@dataclass(frozen=True, order=True)
class _Lasting:
    """Time that a point takes for certain, a measured window that is long enough for it, and the levels that make it so."""

    takes_ns: int
    enough_ns: int
    levels: str


def _too_long(experiment: Experiment, points: list[_Lasting]) -> dict[Mistake, str]:
    """Return the mistake, and what to try, where a point takes longer for certain than a trial has time."""
    longest = max(points, default=None)
    have_ns = experiment.windows.load_ns
    if longest is None or longest.takes_ns < have_ns:
        return {}
    takes, have, enough = (
        quantity.show("duration", time_ns)
        for time_ns in (longest.takes_ns, have_ns, max(point.enough_ns for point in points))
    )
    where = f" with {longest.levels}" if longest.levels else ""
    text = (
        f"invalid value: {have} for a trial; expected more than the {takes} that the script "
        f"takes for certain{where}"
    )
    advice = f"measured: {enough} in `windows`; a trial ends when its script does"
    return {_mistake(experiment, "windows.measured", text): advice}


def _levels(experiment: Experiment, design: Design, script: Script) -> list[dict[str, Level]]:
    """Return the script's variables at the points, each combination once."""
    names = {variable.name: None for variable in script.variables()}
    found: dict[tuple[Level | None, ...], dict[str, Level]] = {}
    for point in design.points:
        settings = experiment.settings(point.levels)
        own = {name: settings[name] for name in names if name in settings}
        found[tuple(settings.get(name) for name in names)] = own
    return list(found.values())


def _varied(experiment: Experiment, name: str) -> bool:
    return any(name == factor.name or name in factor.together for factor in experiment.factors)


def _shown(experiment: Experiment, name: str, level: Level) -> str:
    """A level as people write it."""
    parameter = experiment.workload.workload.parameter(name)
    return parameter.show(level) if parameter else str(level)


def _mistake(experiment: Experiment, key: str, text: str) -> Mistake:
    return Mistake(line_of(experiment.text, key), key, text)
