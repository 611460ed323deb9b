"""An experiment file read section by section, and what its keys mean together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from iodyno.core.access import ACCESSES, AccessKind
from iodyno.core.decision import MAX_TRIALS as UNTIL_TRIALS
from iodyno.core.decision import UntilSpec, bind
from iodyno.core.experiment import Experiment, HostSpec, Limits, Windows, WorkloadSpec
from iodyno.core.factor import VARIANT, Factor
from iodyno.core.invalid import found, invalid
from iodyno.core.metric_source import MetricSource
from iodyno.core.outcome import BYSTANDER_NAME, OF_SEVERAL, bystander_names
from iodyno.core.tunable import ALL
from iodyno.core.workload import Level, Workload
from iodyno.formats import (
    bystander_section,
    connection_points,
    design_section,
    host_groups,
    inventory,
    named_traces,
    placement_section,
    ssh_hosts,
    tunable_sections,
    workload_section,
)
from iodyno.formats import experiment_model as model
from iodyno.formats import section_values as values
from iodyno.formats.explain_section import explained
from iodyno.formats.host_groups import NUMBER
from iodyno.formats.metrics_section import mistake_of_metric, read_metrics
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.outcome_names import mistake_of
from iodyno.formats.reading import Reading
from iodyno.formats.search_section import searched
from iodyno.loads.base.formats import load_named

MAX_TRIALS = 99_999
"""A trial's folder is named by five digits."""

QUICK_WINDOWS = Windows(warm_up_ns=300_000_000, measured_ns=1_500_000_000, interval_ns=250_000_000)
"""Windows of the quick form where the file names none. Chosen: slow start of a TCP flow within one machine
ends within 300 ms, and six intervals are enough to see a drift."""


class ExperimentReading(Reading):
    """One pass over the document: section by section, so that a mistake in one does not hide the others."""

    def experiment(self, text: str, *, quick: bool) -> Experiment | None:
        """The experiment; None, or incomplete with mistakes noted, when the file has any."""
        top = self.section(model.TopSection, self.plain, ())
        if not isinstance(self.plain, dict):
            return None
        hosts, placement = placement_section.read(self, self.hosts())
        workload = workload_section.read(self, ("workload",))
        bystanders = bystander_section.read(self)
        described = workload.workload if workload else workload_section.named(self.plain)
        tunables = self.tunables()
        factors = self.factors(described, self.plain.get("factors"), ("factors",), workload)
        tunable_sections.check_tunables(tunables, factors, tuple(self.host_names), self.note, ("factors",))
        if workload is not None:
            load_named(workload.kind).check(self, workload, factors)
        traces = named_traces.found(self, {("workload",): workload, **bystanders}, factors)
        if workload is not None:
            load_named(workload.kind).check_points(self, workload, factors, hosts, tunables)
        for section, beside in bystanders.items():
            # Its settings are the same at every point: factors are of the workload, or of the path that both go by.
            connection_points.check_beside(self, beside, section, workload, factors, hosts, tunables)
        design = self.section(design_section.DesignSection, self.plain.get("design"), ("design",))
        windows = self.section(model.WindowsSection, self.plain.get("windows"), ("windows",))
        limits = self.section(model.LimitsSection, self.plain.get("limits"), ("limits",))
        metrics = read_metrics(self, windows)
        outcomes = self.outcomes(workload, metrics)
        until = self.until(top, workload, factors)
        explain = explained(self, described, factors)
        if windows is not None:
            self.check_windows(windows, ("windows",))
        if design is not None:
            design_section.check(design, factors, self.note, ("design",))
            self.check_trials(factors, design, ("factors",))
        short, notes = self.quick(described, factors, design, windows, workload)
        if quick:
            factors, design, windows = short
        search = searched(self, workload, factors, windows)
        if self.mistakes or workload is None:
            return None
        parameters = tunable_sections.parameters_of(described, tuple(self.host_names))
        spec = design_section.spec_of(design, factors, parameters, self.folder, self.note, ("design",))
        if self.mistakes:
            return None
        return Experiment(
            name=top.name,
            question=top.question,
            hosts=hosts,
            workload=named_traces.settled(workload, traces),
            tunables=tunables,
            metrics=metrics,
            placement=placement,
            factors=tuple(factors.values()),
            design=spec,
            windows=Windows(windows.warm_up, windows.measured, windows.drain, windows.interval),
            limits=Limits(
                limits.retries, limits.start_skew, limits.background, limits.background_window, limits.rest
            ),
            outcomes=outcomes,
            prove=top.prove,
            explain=explain,
            search=search,
            bystanders={
                name: named_traces.settled(beside, traces)
                for name, beside in zip(bystander_names(len(bystanders)), bystanders.values(), strict=True)
            },
            traces=traces,
            until=until,
            profile_hz=Experiment.profile_hz if top.profile and top.sensors != "off" else 0,
            sensors=top.sensors,
            text=text,
            quick=quick,
            notes=notes if quick else (),
        )

    def hosts(self) -> dict[str, HostSpec]:
        """Every host that can be read; what cannot is noted."""
        written = self.plain.get("hosts")
        if "hosts" not in self.plain or not self.mapping(written, ("hosts",), "hosts by name"):
            return {}
        if not written:
            self.note(("hosts",), "missing hosts: expected the hosts by name")
        hosts = {}
        for name, entry in written.items():
            path = ("hosts", name)
            try:
                values.HOST_NAME_TEXT.read(name)
            except ValueError as problem:
                self.note(path, str(problem))
            if name == ALL:
                self.note(
                    path,
                    f"invalid value {ALL!r}: it means every host where tunables are set; expected another name",
                )
            if BYSTANDER_NAME.fullmatch(name):
                self.note(path, f"invalid value {name!r}: it is a workload beside; expected another name")
            if not self.mapping(entry, path, "keys such as `access: local`"):
                continue
            # Whoever keeps an inventory reaches its hosts by ssh.
            access = entry.get("access", "ssh" if "inventory" in entry else None)
            if access is None and "access" not in entry:
                self.note_missing(path, "access", ", ".join(ACCESSES))
                continue
            if not isinstance(access, str) or access not in ACCESSES:
                self.note(
                    (*path, "access"), unknown(access if isinstance(access, str) else found(access), ACCESSES)
                )
                continue
            kind = ACCESSES[access]
            if "inventory" in entry and kind.target and kind.target in entry:
                self.note((*path, kind.target), "cannot be used with inventory, which names the hosts")
            if "group" in entry and "inventory" not in entry:
                self.note((*path, "group"), "can only be used with inventory")
            by_inventory = {kind.target: NUMBER} if "inventory" in entry and kind.target else {}
            section = self.section(
                model.HOST_SECTIONS[access], {**by_inventory, "access": access, **entry}, path
            )
            if section is None:
                hosts[name] = HostSpec(name, access)
                continue
            held = section.model_dump(exclude_unset=True)
            asked = held.get("cpus", [])
            placed, cpus = (asked, []) if isinstance(asked, str) else ("", asked)
            self.no_duplicates(cpus, (*path, "cpus"), str)
            options = {o.name: held[o.name] for o in kind.options if o.name in held}
            address, data_port = held.get("address"), held.get("data_port", 0)
            one = HostSpec(name, access, options, tuple(cpus), address, data_port, placed)
            if "inventory" in held:
                numbered = self.from_inventory(one, held, kind, path)
            else:
                numbered = host_groups.expanded(one, held.get("count"))
            if access == "ssh" and numbered:
                numbered = ssh_hosts.with_ports(numbered, path, self.note)
            self.groups[name] = tuple(host.name for host in numbered)
            hosts |= {host.name: host for host in numbered}
        self.host_names = host_groups.names_of(self.host_names, self.groups)
        host_groups.check(self.groups, self.note)
        joined = [host.name for host in hosts.values() if host.access == "netns"]
        if not host_groups.alone(self.plain) and len(hosts) == len(written) and len(joined) == 1:
            text = "invalid value: one host alone in a namespace; expected netns for both hosts, or for none"
            self.note(("hosts", joined[0], "access"), text)
        return hosts

    def from_inventory(
        self, host: HostSpec, held: Mapping[str, Any], kind: AccessKind, path: Path
    ) -> list[HostSpec]:
        """The first hosts of an inventory, as many as `count` says; left out: all. The file's own text gets their list."""
        try:
            found_there = inventory.listed(held["inventory"], held.get("group"), kind, self.folder)
        except ValueError as problem:
            self.note((*path, "inventory"), str(problem))
            return []
        count = held.get("count", len(found_there))
        if count > len(found_there):
            text = f"invalid value {count}: the inventory has {len(found_there)} such hosts; expected {len(found_there)} at most"
            self.note((*path, "count"), text)
            return []
        if count > model.MOST_HOSTS:
            self.note(
                (*path, "inventory"),
                f"it has {count} hosts; expected {model.MOST_HOSTS} at most: name them by `count`",
            )
            return []
        chosen = found_there[:count]
        kept = {
            key: value
            for key, value in self.plain["hosts"][host.name].items()
            if key not in ("inventory", "group")
        }
        self.listed[host.name] = {**kept, "access": host.access, "inventory": chosen}
        own = {name: value for name, value in host.options.items() if name != kind.target}
        return [
            replace(each, options={**own, **one})
            for each, one in zip(host_groups.expanded(host, count), chosen, strict=True)
        ]

    def tunables(self) -> dict[str, Level]:
        """The tunables that are set in every trial."""
        if "tunables" not in self.plain:
            return {}
        return tunable_sections.read_tunables(self.plain["tunables"], tuple(self.host_names), self.note)

    def factors(
        self, described: Workload, written: Any, path: Path, workload: WorkloadSpec | None
    ) -> dict[str, Factor]:
        """Every factor that can be read, by name in the file's order."""
        if written is None and not self.has(path):
            return {}
        if not self.mapping(written, path, "parameters of the workload with their levels"):
            return {}
        hosts = tuple(self.host_names)
        parameters = tunable_sections.parameters_of(described, hosts)
        factors: dict[str, Factor] = {}
        set_by: dict[str, str] = {}
        for name, content in written.items():
            here = (*path, name)
            if name not in parameters:
                self.note(here, tunable_sections.unknown_factor(described.name, name, parameters))
                continue
            entry = values.range_ends(content)
            if not isinstance(entry, (list, dict)):
                self.note(
                    here,
                    invalid(entry, "a list of levels, a range such as 1..8, or levels and together"),
                )
                continue
            held_by = tunable_sections.factor_section(described, name, entry, hosts)
            section: Any = self.section(held_by, entry, here)
            if section is None:
                continue
            held = section.together.model_dump(exclude_unset=True) if section.together else {}
            if name == VARIANT:
                tunable_sections.check_variant(entry, held, here, self.note)
            levels_at = here if isinstance(entry, list) else (*here, "levels")
            self.no_duplicates(section.levels, levels_at, parameters[name].show)
            for other, levels in held.items():
                if len(levels) != len(section.levels):
                    wanted = f"{len(section.levels)} levels, one for each of {name}"
                    text = invalid(len(levels), wanted)
                    self.note((*here, "together", other), text)
            for other, where in ((name, here), *((o, (*here, "together", o)) for o in held)):
                if other in set_by:
                    self.note(where, f"duplicate setting: the factor {set_by[other]} sets it already")
                elif workload is not None and other in workload.settings:
                    line = self.top.line_of(("workload", other))
                    self.note(where, f"duplicate setting: the workload sets it too (line {line})")
                set_by.setdefault(other, name)
            factors[name] = Factor(
                name, tuple(section.levels), {other: tuple(levels) for other, levels in held.items()}
            )
        if workload is not None:
            self.check_buffers(set_by, workload, path)
        return factors

    def check_buffers(self, set_by: Mapping[str, str], workload: WorkloadSpec, path: Path) -> None:
        """`window` stands for both buffers: it and one of them at once would be two answers."""
        for one in ("send_buffer", "receive_buffer"):
            if "window" in {*set_by, *workload.settings} and one in {*set_by, *workload.settings}:
                varied = next((name for name in (one, "window") if name in set_by), None)
                where = (*path, set_by[varied]) if varied else ("workload", one)
                self.note(
                    where, f"window cannot be used with {one}: expected window alone, or the two buffers"
                )

    def outcomes(self, workload: WorkloadSpec | None, metrics: Mapping[str, MetricSource]) -> tuple[str, ...]:
        """The outcomes named, or rate and cost at both ends when none is."""
        named = self.plain.get("outcomes")
        if not isinstance(named, list) or not named:
            if workload is None:
                return ()
            return load_named(workload.kind).usual_outcomes(workload)
        names = {index: name for index, name in enumerate(named) if isinstance(name, str)}
        listed: set[str] = set()
        for index, name in names.items():
            known = load_named(
                workload.kind if workload is not None else workload_section.named(self.plain).name
            ).outcomes
            beside = bystander_section.names(self)
            groups = workload.groups if workload is not None else {}
            known_ends = workload is not None and {*workload.ends} <= {*self.host_names}
            if name in OF_SEVERAL and not known_ends:
                continue  # Which hosts an end has is what is wrong already.
            text = mistake_of_metric(name, self.plain.get("metrics"), metrics)
            if text is None:
                text = mistake_of(name, self.host_names, beside=beside, known=known, groups=groups)
            if text:
                what, _, allowed = text.partition("expected ")
                self.note(("outcomes", index), f"{what}expected as above" if allowed in listed else text)
                listed |= {allowed} - {""}
        self.no_duplicates(named, ("outcomes",), str)
        return tuple(names.values())

    def until(
        self, top: Any, workload: WorkloadSpec | None, factors: Mapping[str, Factor]
    ) -> UntilSpec | None:
        """The rule that ends the campaign, when the file has one."""
        if top is None or workload is None:
            return None
        if top.until is None:
            if top.max_trials is not None:
                self.note(("max_trials",), "without `until` the design says how many trials there are")
            return None
        if "search" in self.plain:
            self.note(("until",), "cannot be used with search, which decides itself when it ends")
        try:
            return bind(
                top.until,
                factors=factors.values(),
                workload=workload.workload,
                sender=workload.named_ends[0],
                hosts=[*self.host_names, *workload.groups],
                max_trials=top.max_trials or UNTIL_TRIALS,
            )
        except ValueError as problem:
            self.note(("until",), str(problem))
            return None

    def quick(
        self,
        described: Workload,
        factors: dict[str, Factor],
        design: Any,
        windows: Any,
        workload: WorkloadSpec | None,
    ) -> tuple[tuple[dict[str, Factor], Any, Any], tuple[str, ...]]:
        """Factors, design and windows of the quick form, and what is to be said about them."""
        written, path = self.plain.get("quick"), ("quick",)
        if "quick" not in self.plain:
            if design is None or windows is None:
                return (factors, design, windows), ()
            design = design.model_copy(update={"replicates": min(design.replicates, 3)})
            windows = _shorter(windows)
            note = (
                "the file has no quick section, so the quick form is every point with at most 3 replicates, "
                f"{windows.warm_up / 1e9:g} s of warm-up and {windows.measured / 1e9:g} s measured"
            )
            return (factors, design, windows), (note,)
        section = self.section(model.QuickSection, written, path)
        if section is None:
            return (factors, design, windows), ()
        replaced = self.factors(described, written.get("factors"), ("quick", "factors"), workload)
        full = self.plain.get("factors")
        full_names = list(full) if isinstance(full, dict) else []
        for name in replaced:
            if name not in full_names:
                text = unknown(name, full_names, "factor of the experiment")
                self.note(("quick", "factors", name), text)
        merged = {name: replaced.get(name, factor) for name, factor in factors.items()}
        quick_design = self.merged(design_section.DesignSection, design, ("quick", "design"))
        if quick_design is not None and quick_design is not design:
            quick_design = self.quick_design(design, quick_design, merged)
        quick_windows = self.merged(model.WindowsSection, windows, ("quick", "windows"))
        if quick_windows is not None and quick_windows is not windows:
            self.check_windows(quick_windows, ("quick", "windows"))
        if quick_design is not None and "factors" in written:
            self.check_trials(merged, quick_design, ("quick", "factors"))
            self.check_together(merged)
        return (merged, quick_design, quick_windows), ()

    def quick_design(self, full: Any, short: Any, factors: Mapping[str, Factor]) -> Any:
        """The quick design without what belongs to the kind of the full one only."""
        written = self.value(("quick", "design"))
        for key in ("file", "rows", "augment"):
            if key in written:
                self.note(("quick", "design", key), "can only be used in design, not in quick")
        own = full if short.kind == full.kind else design_section.belonging(full, short.kind)
        short = own.model_copy(
            update={name: getattr(short, name) for name in written if hasattr(short, name)}
        )
        design_section.check(short, factors, self.note, ("quick", "design"))
        return short

    def merged(self, section: type[values.Section], full: Any, path: Path) -> Any:
        """The full section with the keys that the quick one names; None when either cannot be read."""
        if not self.has(path):
            return full
        short = self.section(section, self.value(path), path)
        if short is None or full is None:
            return None
        return full.model_copy(update=short.model_dump(exclude_unset=True))

    def check_together(self, factors: Mapping[str, Factor]) -> None:
        """In the merged quick form, too, a parameter is set by one factor only."""
        set_by: dict[str, str] = {}
        for factor in factors.values():
            for name in (factor.name, *factor.together):
                if name in set_by and self.has(("quick", "factors", factor.name)):
                    text = f"duplicate setting {name}: the factor {set_by[name]} sets it already"
                    self.note(("quick", "factors", factor.name), text)
                set_by.setdefault(name, factor.name)

    def check_windows(self, windows: Any, path: Path) -> None:
        """Check the lengths against each other."""
        if windows.interval > windows.measured:
            text = (
                f"invalid value: an interval of {windows.interval / 1e9:g} s in a measured window of "
                f"{windows.measured / 1e9:g} s; expected an interval no longer than the window"
            )
            self.note((*path, "interval" if self.has((*path, "interval")) else "measured"), text)
        if windows.warm_up + windows.measured + windows.drain > 7 * 24 * values.HOUR_NS:
            self.note(path, "more than a week of load in a trial: expected a week at most")

    def check_trials(self, factors: Mapping[str, Factor], design: Any, path: Path) -> None:
        """That the campaign can be numbered."""
        if design.kind != "full_factorial":  # others say it when they are planned
            return
        trials = math.prod(len(factor.levels) for factor in factors.values()) * design.replicates
        if trials > MAX_TRIALS:
            self.note(path, f"invalid value: {trials} trials in all; expected {MAX_TRIALS} at most")


def _shorter(windows: Any) -> Any:
    short = QUICK_WINDOWS
    return windows.model_copy(
        update={
            "warm_up": min(windows.warm_up, short.warm_up_ns),
            "measured": min(windows.measured, short.measured_ns),
            "drain": min(windows.drain, short.drain_ns),
            "interval": min(windows.interval, short.interval_ns),
        }
    )
