"""Report of a load on disks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iodyno.analysis.results import CampaignSummary, PointSummary, TrialSummary
from iodyno.core.outcome import Estimate
from iodyno.core.quantity import show as quantity_text
from iodyno.loads.base.report import End, Load, Row
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.report import sentences, tables
from iodyno.loads.files.report.section import flowop_sentences, flowop_tables, program_json
from iodyno.report import method
from iodyno.report.layout import Layout
from iodyno.report.numbers import digits, quantity
from iodyno.report.sentence import Sentence
from iodyno.report.table import Table

if TYPE_CHECKING:
    from iodyno.report.figures.stacks import StackFigure


_ALL = 10**6
"""Share of reads, in millionths, where all are."""


class StorageLoad(Load):
    """Parts of a load that reads and writes, and needs no other end. A level of it may be a file program, too."""

    rate_is = (
        "operations that were complete in the measured window, over its length on each client's clock;"
        " of all clients the sum"
    )
    note = ""
    page_note = "The background of the idle machine is subtracted from costs."
    between = ", "
    not_drawn = frozenset({"cost"})
    operation = ""

    def described(self, summary: CampaignSummary) -> str:
        """Return kind, clients and settings as people write them."""
        return method.of_clients(summary)

    def title(self, summary: CampaignSummary, point: PointSummary) -> str:
        """Return what is done with which target, as in `Disk, random 4KiB, 70% reads, queue depth 16, work.dat`."""
        settings = {**WORKLOAD.defaults(), **(summary.workload.get("settings") or {}), **point.levels}
        read = settings.get("read", _ALL)
        depth = f", queue depth {settings['queue_depth']}" if "queue_depth" in settings else ""
        workers = f", {settings['workers']} workers" if settings.get("workers", 1) != 1 else ""
        block = quantity_text("size", size) if isinstance(size := settings.get("block"), int) else size or ""
        pattern = settings.get("pattern", "random")
        words = {0: f"{pattern} writes of {block}", _ALL: f"{pattern} reads of {block}"}
        done = words.get(read, f"{pattern} {block}, {int(read) / _ALL:.0%} reads")
        return f"Disk, {done}{depth}{workers}, {settings.get('target', '')}"

    def rows(self, summary: CampaignSummary) -> list[Row]:
        """Return operations and bytes a second, times of each direction, the cost of an operation, the device, the page cache."""
        ways = [way for way in ("read", "write") if f"{way}_bytes_per_s" in summary.asked]
        rows = [Row("Operations", [("", "iops"), *((f"{way}s", f"{way}_bytes_per_s") for way in ways)])]
        if "offered_operations_per_s" in summary.asked:
            rows += [
                Row("Offered", [("", "offered_operations_per_s"), ("missed", "missed_arrivals_ratio")]),
                Row("From schedule", [(f"p{q}", f"response_time_p{q}_ns") for q in (50, 99)]),
            ]
        for way in (*ways, "fsync"):
            names = [(f"p{q}", f"{way}_service_time_p{q}_ns") for q in (50, 99)]
            if names[0][1] in summary.asked:
                rows.append(Row(f"{way.capitalize()} time", names))
        for name in summary.asked:
            if name.endswith(".cpu_us_per_io"):
                several = "fairness" in summary.asked
                rows.append(Row("CPU", [("", name)], "" if several else "iops", 1e-3))
            elif name.endswith(".device_busy_ratio") and tables.uses_device(summary):
                rows.append(Row("Device busy", [("", name)]))
            elif name.endswith(".load_from_cache_ratio"):
                rows.append(Row("From cache", [("", name)]))
        if "fairness" in summary.asked:
            rows.append(Row("Fairness", [("", "fairness"), ("slowest", "slowest_client_ratio")]))
        return rows

    def tells_cycles(self, summary: CampaignSummary) -> bool:
        """Tell whether costs in cycles are asked for."""
        return any("cycle" in name for name in summary.asked)

    def tables(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the points, and of the clients where there are several."""
        return tables.storage_tables(summary)

    def tables_after(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the flowops."""
        return flowop_tables(summary.programs)

    def shown(self, summary: CampaignSummary) -> set[str]:
        """Return the outcomes that `tables` shows."""
        without = (
            set()
            if tables.uses_device(summary)
            else {n for n in summary.asked if n.endswith(".device_busy_ratio")}
        )
        return {*tables.storage_names(summary), *without}

    def sentences(self, summary: CampaignSummary, layout: Layout) -> list[Sentence]:
        """Return the findings: rate, times and cost of an operation."""
        return sentences.of_storage(summary, layout)

    def remarks(self, summary: CampaignSummary) -> list[str]:
        """Return what is said of the flowops."""
        return flowop_sentences(summary.programs)

    def ends(self, summary: CampaignSummary) -> Sequence[End]:
        """Return the highest rate, the longest time and the highest cost of an operation."""
        return tables.ends(summary)

    def trial(self, summary: CampaignSummary, trial: TrialSummary) -> tuple[str, str]:
        """Return rate and cost of a trial, in words."""
        machine = next(iter(tables.machines_of(summary)), "")
        value = trial.outcomes.get(f"{machine}.{tables.COST}")
        return quantity(trial.outcomes.get("iops"), "1/s"), "–" if value is None else f"{digits(value)} us/IO"

    def by_class(
        self, summary: CampaignSummary, drawn: Callable[[CampaignSummary], StackFigure | None]
    ) -> StackFigure | None:
        """Return the figure of the cost by class of CPU time, of an operation."""
        points = tuple(replace(point, outcomes=_of_operations(point)) for point in summary.points)
        made = drawn(replace(summary, points=points))
        if made is None:
            return None
        panels = tuple(replace(panel, y_title="CPU time, us per operation") for panel in made.panels)
        return replace(made, title="CPU time of an operation by class", panels=panels)

    def json(self, summary: CampaignSummary) -> dict[str, Any]:
        """Return the results of the file programs."""
        return {"programs": [program_json(found) for found in summary.programs]} if summary.programs else {}


def _of_operations(point: PointSummary) -> dict[str, Estimate]:
    """The outcomes, with the costs of an operation, in microseconds, in the place of those of a KiB."""
    costs = {
        name.replace("_ns_per_operation", "_ns_per_kib"): _in_us(found)
        for name, found in point.outcomes.items()
        if name.endswith("_ns_per_operation")
    }
    return {**point.outcomes, **costs}


def _in_us(found: Estimate) -> Estimate:
    estimate, low, high = (
        None if one is None else one / 1e3 for one in (found.estimate, found.low, found.high)
    )
    return replace(found, estimate=estimate, low=low, high=high, unit="us")


LOADS = {"disk": StorageLoad()}
