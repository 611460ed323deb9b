"""Sections of an experiment file about a file program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.workload import Workload
from iodyno.formats import section_values as values
from iodyno.formats.mistakes import Path
from iodyno.formats.reading import Reading
from iodyno.loads.disk.formats import section
from iodyno.loads.disk.formats.load import StorageLoad
from iodyno.loads.files.core.parameters import workload_of
from iodyno.loads.files.formats import program as program_section
from iodyno.loads.files.wml.text import inline


class FilesLoad(StorageLoad):
    """Parts of a file program."""

    own_names = True

    def keys(self, workload: Workload) -> dict[str, Any]:
        """Return the key of the personality."""
        text = "A file with a personality of Filebench, or its text on several lines."
        return {"program": (Annotated[str, values.PROGRAM], Field(description=text))}

    def read(self, reading: Reading, kind: str, written: Any, path: Path) -> WorkloadSpec | None:
        """Return the workload with its personality, when it can be read; what cannot is noted."""
        program = program_section.read(reading, written, path)
        if program is None:
            return None
        return section.read(reading, workload_of(program), written, path, program)

    def check(self, reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
        """Check that the personality means something at the points."""
        program_section.check(reading, workload, factors)
        section.check_server_cache(reading, workload, factors)

    def usual_outcomes(self, workload: WorkloadSpec) -> tuple[str, ...]:
        """Return the outcomes that are worth showing where the file names none."""
        usual = ("iops", "bytes_per_s", "service_time_p50_ns", "service_time_p99_ns")
        return section.outcomes_of(workload, usual)

    def whole(self, workload: WorkloadSpec, written: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the section with the text of the personality in the place of its file's name."""
        if workload.program is None or "\n" in str(written.get("program")).strip():
            return None
        return {**written, "program": inline(workload.program.text)}


LOADS = {"files": FilesLoad()}
