"""Points of a plan that no agent would carry out: found before a host is opened, with the key that is in the way.

An agent of this machine is asked. What depends on the kernel of a host is left out, and asked there (`preflight`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

from iodyno.campaign.job import as_asked, load_at, with_port
from iodyno.core.design import Design
from iodyno.core.experiment import Experiment
from iodyno.core.factor import parameter_of
from iodyno.core.outcome import BYSTANDER
from iodyno.core.workload import Level
from iodyno.formats import yaml_document
from iodyno.formats.connection_points import place_of
from iodyno.formats.factor_points import MOST_POINTS, varied_at
from iodyno.formats.mistakes import Mistake, Path, dotted, error
from iodyno.loads.base.campaign import load_for
from iodyno.session import refusals

_SOMEWHERE = "192.0.2.1"
"""Address of a host that has none yet (RFC 5737: of nobody)."""
_ENDS = {"send": "client_engine", "receive": "server_engine"}
_OF_END = ("transport", "engine", "syscalls", "ring.version", "address")
"""Keys that the word for the calls of one end says, where there is one."""
_WORDS: Mapping[str, tuple[str, ...]] = {
    "arrivals": ("arrivals", "rate", "burst"),
    "think": ("think", "reader_think"),
    "compute": ("compute", "server_compute"),
    "workload": ("kind",),
    "region": ("working_set", "offset"),
}
"""Keys of a job that experiments have several words for, or another one."""


@dataclass(frozen=True)
class End:
    """One end of a load at a point: what its host is told. `section`: where the file says what the load is."""

    experiment: Experiment
    section: Path
    host: str
    role: str
    settings: Mapping[str, Level]

    def job(self) -> dict[str, Any]:
        """The job of the host, as far as it is known before there is a host."""
        # A volume of the lab has its target when it is made.
        settings = {"target": "/nowhere", **self.settings} if self.role == "alone" else self.settings
        load = load_at(self.experiment, self.host, self.role, settings, _address(self), 0)
        if self.role == "send" and (others := self.experiment.workload.receivers_of(self.host)[1:]):
            next(iter(load.values()))["remote_addresses"] = [f"{_SOMEWHERE}:1" for _ in others]
        windows = self.experiment.windows
        return {"trial": self.host, "token": 32 * "0", "load": load, "windows": asdict(windows)}

    def names(self, key: str) -> tuple[str, ...]:
        """The parameters that a key of the job comes from, the one to blame first."""
        name = as_asked(f": {key}").removeprefix(": ")
        word = _ENDS.get(self.role, "")
        if name in _OF_END and word in self.settings:
            return (word, name)
        name = name.removeprefix("disk.").removeprefix("ring.")
        return _WORDS.get(name, (name,))


def refuse(experiment: Experiment, design: Design, file: str) -> None:
    """Raises ExperimentError, with every mistake and its line in the file, where a point cannot be carried out, and AccessError
    where the agent cannot be asked.
    """
    ends = {json.dumps(end.job()): end for end in islice(ends_of(experiment, design), 2 * MOST_POINTS)}
    refused = refusals.anywhere(list(map(json.loads, ends)))
    wrong = [(end, refusal) for end, refusal in zip(ends.values(), refused, strict=True) if refusal]
    if not wrong:
        return
    top, _ = yaml_document.read(experiment.text, {})
    varied = varied_at({factor.name: factor for factor in experiment.factors})
    mistakes = []
    for end, refusal in wrong:
        varies = varied if end.section == ("workload",) else {}
        settings, tunables = end.experiment.workload.settings, experiment.tunables
        names = end.names(refusal.key)
        place = place_of(names, varies, settings, tunables, end.section)
        if names == ("address",):
            place = ("hosts", end.experiment.workload.receiver, "address")
        mistakes.append(Mistake(top.line_of(place), dotted(place), _text(end, names, refusal)))
    raise error(file, mistakes)


def _text(end: End, names: Sequence[str], refusal: refusals.Refusal) -> str:
    """Return the mistake, with the level of the parameter that is to blame as the file says it."""
    name = next((each for each in names if each in end.settings), names[0])
    parameter = parameter_of(end.experiment.workload.workload, name)
    level = parameter.show(end.settings[name]) if parameter and name in end.settings else ""
    if not refusal.advice:
        return refusal.what.replace(
            f"invalid value {end.settings.get(name)}:", f"invalid value {level!r}:", 1
        )
    value = f"invalid value {level!r}: " if level and level not in refusal.what.split() else ""
    taken = refusal.advice.startswith("take ")
    return f"{value}{refusal.what}; {refusal.advice.replace('take ', 'expected ', 1) if taken else refusal.advice}"


def ends_of(experiment: Experiment, design: Design) -> Iterator[End]:
    """Each end of each load at each point, those of bystanders once."""
    several = len(experiment.bystanders) > 1
    for at, beside in enumerate(experiment.bystanders.values()):
        view = replace(experiment, workload=beside, bystanders={}, tunables={}, search=None)
        yield from _at(view, (BYSTANDER, at) if several else (BYSTANDER,), view.settings({}))
    for point in design.points:
        yield from _at(experiment, ("workload",), experiment.settings(point.levels))


def _at(experiment: Experiment, section: Path, settings: Mapping[str, Level]) -> Iterator[End]:
    for host, role in load_for(experiment).roles(experiment, settings).items():
        if role != "idle":
            yield End(experiment, section, host, role, experiment.workload.settings_of(host, settings))


def _address(end: End) -> str | None:
    """Address and port at which the ends of a load meet, as the file says it: a port is the receiver's to choose."""
    if end.role == "alone":
        return None
    hosts, workload = end.experiment.hosts, end.experiment.workload
    receiver = hosts[workload.receiver]
    here = hosts[workload.sender].access == receiver.access == "local"
    address = receiver.address or ("127.0.0.1" if here else _SOMEWHERE)
    return with_port(address, receiver.data_port or (1 if end.role == "send" else 0), receiver.name)
