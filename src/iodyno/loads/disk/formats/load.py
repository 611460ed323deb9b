"""Sections of an experiment file about a load on disks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.workload import Level, Workload
from iodyno.formats import experiment_model as model
from iodyno.formats import section_values as values
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import Load
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.core.outcomes import NAMES_OF_DISKS
from iodyno.loads.disk.formats import section


class StorageLoad(Load):
    """Parts of a load that reads and writes, and needs no other end."""

    outcomes = NAMES_OF_DISKS

    def usual_outcomes(self, workload: WorkloadSpec) -> tuple[str, ...]:
        """Return the outcomes that are worth showing where the file names none."""
        return section.outcomes_of(workload)

    def without_loss(self, transports: Sequence[Level | None]) -> str | None:
        """Return that nothing is lost."""
        return "nothing is lost"

    def shown(self, workload: WorkloadSpec) -> str:
        """Return kind and hosts in words."""
        first, *more = workload.hosts
        last = f" to {more[-1]} ({len(workload.hosts)} clients)" if more else ""
        return f"{workload.kind} on {first}{last}"


class DiskLoad(StorageLoad):
    """Parts of a load on blocks."""

    def keys(self, workload: Workload) -> dict[str, Any]:
        """Return the key of settings that one host has of its own."""
        return {
            "each": (
                dict[Annotated[str, values.HOST_NAME_TEXT], model.own_section(workload)],  # type: ignore[misc]
                Field({}, description="Settings of one of the hosts, by its name, in place of those of all."),
            )
        }

    def add_to_schema(self, definitions: dict[str, Any]) -> None:
        """Add the forms of a target that are short for several keys."""
        section.add_to_schema(definitions)

    def read(self, reading: Reading, kind: str, written: Any, path: Path) -> WorkloadSpec | None:
        """Return the workload, when it can be read; what cannot is noted."""
        return section.read(reading, WORKLOAD, section.with_target(reading, written, path), path)

    def check(self, reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
        """Check the settings together with the factors."""
        section.check(reading, workload, factors)


LOADS = {"disk": DiskLoad()}
