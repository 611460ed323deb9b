"""Questions of the reader of an experiment file to a load: its keys, how they are read, and what goes with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment, HostSpec, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.outcome import OF_SEVERAL, OUTCOMES, TIMES_OF_REQUESTS
from iodyno.core.workload import Level, Workload
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.base.kinds import part
from iodyno.loads.disk.core.outcomes import ONLY_OF_DISKS


class Load:
    """Parts of an experiment file that each load fills. `outcomes`: names of those that it may have. `beside`: it may run beside
    another, as it lasts as long as the windows. `own_names`: its parameters may have any name, so that none names a trace, and
    the JSON Schema allows all. `due_by_rate`: nothing is due at a time where no rate is set.
    """

    outcomes: frozenset[str] = (
        frozenset(OUTCOMES) - ONLY_OF_DISKS - frozenset(TIMES_OF_REQUESTS.values()) - frozenset(OF_SEVERAL)
    )
    beside = False
    own_names = False
    due_by_rate = True

    def keys(self, workload: Workload) -> dict[str, Any]:
        """Return the keys of the section `workload` that are neither hosts nor parameters, with what each may hold."""
        return {}

    def add_to_schema(self, definitions: dict[str, Any]) -> None:
        """Add to the JSON Schema what its keys do not say."""

    def read(self, reading: Reading, kind: str, written: Any, path: Path) -> WorkloadSpec | None:
        """Return the workload, when it can be read; what cannot is noted."""
        raise NotImplementedError

    def check(self, reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
        """Check the settings together with the factors."""

    def check_points(
        self,
        reading: Reading,
        workload: WorkloadSpec,
        factors: Mapping[str, Factor],
        hosts: Mapping[str, HostSpec],
        tunables: Mapping[str, Level],
    ) -> None:
        """Check what comes together at points, on these hosts."""

    def refuse(self, experiment: Experiment, design: Design, file: str) -> None:
        """Raises ExperimentError, with every mistake and its line in the file, where a point cannot be had."""

    def usual_outcomes(self, workload: WorkloadSpec) -> tuple[str, ...]:
        """Return the outcomes that are worth showing where the file names none."""
        costs = tuple(f"{host}.cpu_ns_per_kib" for host in workload.named_ends)
        return ("goodput_bits_per_s", f"{workload.named_ends[0]}.cycles_per_kib", *costs)

    def without_loss(self, transports: Sequence[Level | None]) -> str | None:
        """Return why nothing can be lost, over these transports; None: it can."""
        others = [level for level in transports if level != "udp"]
        return f"nothing is lost over {others[0]}" if others else None

    def whole(self, workload: WorkloadSpec, written: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the section `workload` with the files that it names in it; None where it names none."""
        return None

    def shown(self, workload: WorkloadSpec) -> str:
        """Return kind and hosts in words."""
        each = ", in pairs" if workload.between == "pairs" else ""
        named = {hosts: f"{name} ({len(hosts)} hosts)" for name, hosts in workload.groups.items()}
        ends = (named.get(end, ", ".join(end)) for end in (workload.senders, workload.receivers))
        return f"{workload.kind} from {' to '.join(ends)}{each}"


def load_named(kind: str) -> Load:
    """Return the load of a kind."""
    found: Load = part(kind, "formats")
    return found
