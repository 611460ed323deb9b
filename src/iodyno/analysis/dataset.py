"""A stored campaign as values: the only file of the analysis that touches the store.

Times are nanoseconds on the monotonic axis of the host they come from; axes of two hosts are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from iodyno.analysis import alike, arrivals
from iodyno.analysis.held_rows import HeldRows, fill
from iodyno.analysis.host_data import HostData
from iodyno.analysis.metrics import read_metrics
from iodyno.analysis.trial import Trial
from iodyno.analysis.two_processes import can_share
from iodyno.core.asked import asked
from iodyno.core.limiter import Perturbation
from iodyno.core.outcome import bystanders_of
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.disk.analysis import cache
from iodyno.store.reader import Campaign, StoredTrial, read_campaign
from iodyno.store.schema import part_file


@dataclass
class Dataset:
    """A campaign: its header (`campaign.json`), its trials in order, and its idle measurements by name.

    `proofs` are the trials that test a limiter; they are no trials of the design and enter no estimate of a point.
    `stored` is the campaign as it lies on the disk, for what is read only when it is asked for: call stacks.
    """

    folder: Path
    header: Mapping[str, Any]
    experiment_text: str
    trials: list[Trial]
    background: dict[str, Trial]
    warnings: tuple[Warning, ...] = ()
    proofs: list[Trial] = field(default_factory=list)
    stored: Campaign | None = field(default=None, repr=False)
    held: HeldRows | None = field(default=None, repr=False)

    def of_sensors(self, *sensors: str, times: bool = True) -> AbstractContextManager[None]:
        """Meanwhile, rows of a large campaign that come when they are asked for are of no other sensors, and `times` or not."""
        return self.held.of(sensors, times=times) if self.held else nullcontext()

    def without_times(self) -> AbstractContextManager[None]:
        """Meanwhile, rows that come then are of all sensors, without histograms."""
        return self.held.of(None, times=False) if self.held else nullcontext()

    def can_be_shared(self) -> bool:
        """Tell whether two processes may have half of the trials each: rows come when they are asked for, and no thread of the
        column engine would be missing in a copy of this process.
        """
        if self.stored is None or self.held is None or not self.held.come_when_asked:
            return False
        self.stored.let_go()
        self.held.processes = 2 if can_share() else 1
        return self.held.processes > 1

    def in_turn(self, trials: Iterable[Trial]) -> Iterable[Trial]:
        """Trials of it, to go through one by one and only once."""
        return self.held.in_turn(trials) if self.held else trials

    @property
    def experiment(self) -> Mapping[str, Any]:
        """The experiment as the campaign recorded it."""
        found = self.header.get("experiment", {})
        return found if isinstance(found, Mapping) else {}

    @property
    def hosts(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts known of each host; of several that are one in the trials, those of the first."""
        found, one_of = _known_hosts(self.header), self.one_of
        known: dict[str, Mapping[str, Any]] = {}
        for host, facts in found.items():
            known.setdefault(one_of.get(host, host), facts)
        return known

    @property
    def one_of(self) -> Mapping[str, str]:
        """The name that hosts have together which are one in the trials."""
        return {host: name for name, hosts in _machines_of(self.header).items() for host in hosts}

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The hosts of the ends that have several, by the name of the end."""
        return alike.groups_of(self.experiment.get("workload") or {})

    @property
    def calibration(self) -> Mapping[str, Mapping[str, Any]]:
        """Findings of the instrument about itself on each host."""
        found = self.header.get("calibration", {})
        return found if isinstance(found, Mapping) else {}


def open_campaign(folder: Path | str) -> Campaign:
    """The campaign in `folder` as it is stored. Raises StoreError when it is none."""
    return read_campaign(folder)


def read_dataset(folder: Path | str) -> Dataset:
    """Reads the campaign in `folder`. Raises StoreError when it is none."""
    campaign = read_campaign(folder)
    trials = [_trial(stored, campaign.header) for stored in campaign.trials]
    background = {name: _trial(stored, campaign.header) for name, stored in campaign.background.items()}
    held = HeldRows(campaign, trials)
    held.read()
    _add_metrics(campaign, trials)
    idle = [stored for stored in campaign.background.values() if stored.counts]
    with campaign.reading(idle) as connection:
        fill(connection, campaign.sources(idle), background.values(), idle=True)
    # Of a load on storage, what is void is told by many sensors.
    with held.of((arrivals.SENSOR,)) if not any(t.clients for t in trials) else nullcontext():
        trials = cache.voided(held.in_turn(arrivals.voided(held.in_turn(trials))))
    trials.sort(key=lambda trial: (trial.order, trial.attempt))
    return Dataset(
        folder=campaign.folder,
        header=campaign.header,
        experiment_text=campaign.experiment_text,
        trials=[trial for trial in trials if trial.perturbation is None],
        background=background,
        warnings=_warnings(campaign.header.get("warnings", ())),
        proofs=[trial for trial in trials if trial.perturbation is not None],
        stored=campaign,
        held=held,
    )


def _add_metrics(campaign: Campaign, trials: Iterable[Trial]) -> None:
    """Puts what was read of other programs' metrics where it belongs; it is not much."""
    experiment = campaign.header.get("experiment") or {}
    stored = [trial for trial in campaign.trials if trial.counts]
    if not experiment.get("metrics") and not any(part_file("metrics") in t.manifest["parts"] for t in stored):
        return
    with campaign.reading(stored) as connection:
        rows = campaign.sources(stored)["metrics"]
        found = read_metrics(connection, rows, experiment, {trial.name: trial.manifest for trial in stored})
    for trial in trials:
        trial.metrics = found.get(trial.name, {})


def _known_hosts(header: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    found = header.get("hosts", {})
    return found if isinstance(found, Mapping) else {}


def _groups_of(header: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return alike.groups_of((header.get("experiment") or {}).get("workload") or {})


def _machines_of(header: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """The hosts that are one in the trials, by the name that they have together."""
    if not (groups := _groups_of(header)):
        return {}
    known = _known_hosts(header)
    return alike.on_one_machine(groups, {n: _machine(n, _cpus(n, {}, header), header) for n in known})


def _trial(stored: StoredTrial, header: Mapping[str, Any]) -> Trial:
    manifest = stored.manifest
    reason = manifest.get("reason")
    status, said = manifest.get("status", "failed"), None
    if isinstance(reason, Mapping):
        said = " ".join(filter(None, (str(reason.get("what", "")), _bracketed(reason.get("where")))))
    if stored.invalid is not None:
        status, said = "damaged", str(stored.invalid).splitlines()[0]
    if (pairs := header.get("pairs")) and manifest.get("pair") in pairs:
        # Its machines, not those of another pair.
        header = {**header, "hosts": pairs[manifest["pair"]]}
    order, _, attempt = stored.name.partition("-")
    found = Trial(
        name=stored.name,
        order=manifest.get("order", int(order) if order.isdecimal() else -1),
        attempt=manifest.get("attempt", int(attempt) if attempt.isdecimal() else 1),
        block=manifest.get("block", 0),
        replicate=manifest.get("replicate", 0),
        point=manifest.get("point", ""),
        levels=manifest.get("levels", {}),
        settings=manifest.get("settings", {}),
        status=status,
        reason=said,
        started_wall=manifest.get("started_wall", ""),
        manifest=manifest,
        warnings=_warnings(manifest.get("warnings", ()), stored.name),
        hosts=_hosts(manifest, header) if stored.counts else {},
        perturbation=_perturbation(manifest.get("perturbation")),
    )
    found.clients = {name: host for name, host in found.hosts.items() if host.role == "alone"}
    machines = [host.machine for host in found.clients.values()]
    followers = [
        name
        for place, (name, host) in enumerate(found.clients.items())
        if machines.index(host.machine) != place
    ]
    found.hosts = {name: host for name, host in found.hosts.items() if name not in followers}
    found.groups = _groups_of(header)
    found.members = {
        name: found.hosts[name] for group in found.groups.values() for name in group if name in found.hosts
    }
    for together, among in _machines_of(header).items() if found.hosts else ():
        one = alike.as_one(together, [found.hosts[name] for name in among])
        # In the place of the first of them.
        found.hosts = {
            one.name if name == among[0] else name: one if name == among[0] else host
            for name, host in found.hosts.items()
            if name == among[0] or name not in among
        }
    if stored.counts:
        found.bystanders = {
            name: replace(
                found,
                manifest=each,
                settings=each["settings"],
                hosts=_hosts(each, header),
                warnings=(),
                members={},
                groups={},
            )
            for name, each in bystanders_of(manifest).items()
        }
    return found


def _hosts(manifest: Mapping[str, Any], header: Mapping[str, Any]) -> dict[str, HostData]:
    return {
        name: HostData(
            name,
            host["role"],
            cpus := _cpus(name, host, header),
            {**host, "job": asked(host.get("job"))},
            machine=_machine(name, cpus, header),
            lacking=_lacking(name, header),
            # Campaigns of before have null: all that there are.
            sensors=(header.get("experiment") or {}).get("sensors") or "full",
        )
        for name, host in (manifest.get("hosts") or {}).items()
    }


def _lacking(name: str, header: Mapping[str, Any]) -> dict[str, str]:
    """Sensors that the agent could not open, with the reason that it gave."""
    hello = header.get("hosts", {}).get(name, {}).get("hello") or {}
    return {
        capability["name"].removeprefix("sensor."): capability.get("reason") or "no reason known"
        for capability in hello.get("capabilities") or ()
        if capability["name"].startswith("sensor.") and not capability["available"]
    }


def _machine(name: str, cpus: tuple[int, ...], header: Mapping[str, Any]) -> str:
    """As a testbed tells them apart: by the boot of the kernel, and the CPUs on it."""
    facts = ((header.get("hosts", {}).get(name, {}).get("hello") or {}).get("host")) or {}
    return f"{facts.get('boot_id') or name}/{','.join(map(str, cpus))}"


def _perturbation(stored: Mapping[str, Any] | None) -> Perturbation | None:
    """As the manifest has it; fields of a later version are passed over."""
    if not stored:
        return None
    known = {key: stored[key] for key in Perturbation.__dataclass_fields__ if key in stored}
    return Perturbation(**known)


def _cpus(name: str, host: Mapping[str, Any], header: Mapping[str, Any]) -> tuple[int, ...]:
    """CPUs that the cost of a host is counted on: those of the trial, of the campaign, or all that it may
    use.
    """
    known = header.get("hosts", {}).get(name, {})
    facts = (known.get("hello") or {}).get("host") or {}
    for cpus in (host.get("cpus"), known.get("cpus"), facts.get("cpus_allowed"), facts.get("cpus_online")):
        if cpus:
            return tuple(cpus)
    return ()


def _bracketed(where: object) -> str:
    return f"({where})" if where else ""


def _warnings(stored: Iterable[Mapping[str, str]], where: str = "") -> tuple[Warning, ...]:
    known = {code.value: code for code in WarningCode}
    return tuple(
        Warning(known[d["code"]], d["text"], ", ".join(filter(None, (where, d.get("where")))))
        for d in stored
        if d.get("code") in known
    )
