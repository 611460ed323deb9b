"""Sections of an experiment file about a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from iodyno.core.design import Design
from iodyno.core.experiment import Experiment, WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.workload import Level, Workload
from iodyno.formats import host_groups
from iodyno.formats import section_values as values
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.base.formats import Load
from iodyno.loads.script.formats import section
from iodyno.loads.script.uperf import points


class ScriptLoad(Load):
    """Parts of a script, which lasts as long as it does, and names its protocols itself."""

    own_names = True
    due_by_rate = False

    def keys(self, workload: Workload) -> dict[str, Any]:
        """Return the key of the profile."""
        return {
            "profile": (Annotated[str, values.PROFILE], Field(description="The profile, as uperf has it.")),
        }

    def read(self, reading: Reading, kind: str, written: Any, path: Path) -> WorkloadSpec | None:
        """Return the workload with its script, when it can be read; what cannot is noted."""
        return host_groups.between_hosts(
            reading, kind, written, path, section.script_of_section(reading, written)
        )

    def check(self, reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
        """Check that every variable has a value."""
        if workload.script is not None:
            section.check_variables(reading, workload, factors)

    def refuse(self, experiment: Experiment, design: Design, file: str) -> None:
        """Raises ExperimentError where the script of a point cannot be carried out."""
        points.refuse_points(experiment, design, file)

    def without_loss(self, transports: Sequence[Level | None]) -> str | None:
        """Return None: each of its connections has a protocol of its own."""
        return None


LOADS = {"script": ScriptLoad()}
