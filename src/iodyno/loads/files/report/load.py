"""Report of a file program: a table of flowops, then what it says of any load on storage."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.disk.report.load import StorageLoad
from iodyno.loads.files.report.section import flowop_tables
from iodyno.report.table import Table


class FilesLoad(StorageLoad):
    """Parts of a file program, all of whose operations are flowops."""

    def tables_before(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the flowops."""
        return flowop_tables(summary.programs)

    def tables_after(self, summary: CampaignSummary) -> list[Table]:
        """Return none: those of the flowops stand before."""
        return []


LOADS = {"files": FilesLoad()}
