"""Operations of network file systems and of ZFS, at each point and host: one table, and JSON."""

from __future__ import annotations

from typing import Any

from iodyno.analysis.file_systems import FileOperations
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.estimate_json import estimate_values
from iodyno.report.layout import each_told
from iodyno.report.numbers import details, with_interval
from iodyno.report.table import Cell, Column, Table


def file_system_table(summary: CampaignSummary) -> Table | None:
    """Return the operations of up to `POINTS_MOST` points; None where no file system was seen to do any."""
    rows = [
        (
            Cell(place),
            Cell(one.host),
            Cell(one.file_system),
            Cell(one.operation),
            *(_cell(one.estimates[name]) for name in ("per_s", "mean_ns", "server_mean_ns")),
        )
        for place, one in each_told(summary, lambda point: point.file_operations)
    ]
    if not rows:
        return None
    columns = (
        *map(Column, ("point", "host", "file system", "operation", "rate")),
        Column("mean time", hint="from when it was made to its end"),
        Column("until the answer", hint="of that, from the sending of the request to its answer"),
    )
    return Table("Operations of file systems", columns, tuple(rows), keys=4)


def _cell(found: Estimate) -> Cell:
    if found.estimate is None:
        return Cell("–", found.missing or "")
    return Cell(with_interval(found), details(found), estimates=(found,))


def file_operations_json(one: FileOperations) -> dict[str, Any]:
    """Return an operation as values that JSON knows."""
    each = {name: estimate_values(found) for name, found in one.estimates.items()}
    return {"host": one.host, "file_system": one.file_system, "operation": one.operation, **each}
