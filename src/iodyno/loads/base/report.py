"""Questions of a report to a load: its tables, sentences and first numbers, and the words for its rate and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iodyno.analysis.results import CampaignSummary, PointSummary, TrialSummary
from iodyno.loads.base.kinds import part
from iodyno.report.layout import Layout
from iodyno.report.sentence import Sentence
from iodyno.report.table import Column, Table

if TYPE_CHECKING:
    from iodyno.report.figures.stacks import StackFigure


@dataclass(frozen=True)
class End:
    """An end of the range of an outcome, for the first screen. `only`: its name where one point has it, `several`: of several
    points. `most`: the largest, else the least, which is shown of several points only.
    """

    outcome: str
    only: str
    several: str
    most: bool = True


@dataclass(frozen=True)
class Row:
    """A line of the answer on the terminal: a label, and outcomes in a row, each behind its word (as `p99`).

    `works_at`: of a cost, the outcome of the rate, in units of the cost a second: with it the line says how many CPUs that took;
    `unit`: how much of that rate is one of what the cost is of.
    """

    label: str
    outcomes: Sequence[tuple[str, str]]
    works_at: str = ""
    unit: float = 1.0


class Load:
    """Parts of a report that each load fills; words are those of a load that sends one way.

    `rate_is`: what its rate is. `note`: a sentence below the tables, `page_note`: some above them on a page. `between`: stands
    between the names of its hosts. `not_drawn`: figures that say nothing of it. `operation`: what the outcomes that are times of
    its operations begin with. `subject`: the role whose cost is told first. `costs`: of these the first that is known is shown.
    `rates`: rates that are shown before goodput. `asks`: an operation is a request with its answer, and what costs. `done`: what
    is done, in titles. `one_transport`: all its connections have the transport of its settings.
    """

    rate_is = "goodput: payload that the receiving application got in the measured window, over its length on that host's clock"
    note = " Throughput is goodput."
    page_note = (
        "usr/sys/intr/idle in per cent of the host's CPUs, background included; cost has it subtracted. Throughput is the"
        " goodput: payload that the receiving application got."
    )
    between = " → "
    not_drawn: frozenset[str] = frozenset({"disk-rate", "disk-times"})
    operation = "write_"
    subject = "send"
    costs: tuple[str, ...] = ("cycles_per_kib", "cpu_ns_per_kib")
    rates: tuple[str, ...] = ()
    asks = False
    done = "transmit"
    one_transport = True

    def described(self, summary: CampaignSummary) -> str:
        """Return kind, hosts and settings as people write them."""
        raise NotImplementedError

    def title(self, summary: CampaignSummary, point: PointSummary) -> str:
        """Return what was loaded, on one line, as the answer on the terminal begins."""
        return ", ".join(f"{name} {text}" for name, text in point.labels.items())

    def rows(self, summary: CampaignSummary) -> list[Row]:
        """Return the lines of the answer on the terminal: rate, times, costs."""
        return [Row(name, [("", name)]) for name in summary.asked]

    def tells_cycles(self, summary: CampaignSummary) -> bool:
        """Tell whether costs are shown in cycles."""
        return True

    def columns(self, summary: CampaignSummary) -> dict[str, Column]:
        """Return the columns of its rate and times, by outcome."""
        raise NotImplementedError

    def tables(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the points: a row for each, a table for each level of the section's factor."""
        raise NotImplementedError

    def tables_before(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of what the load is made of, where these are the load."""
        return []

    def tables_after(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of what the load is made of, where it is a part of the load."""
        return []

    def shown(self, summary: CampaignSummary) -> set[str]:
        """Return the outcomes that `tables` shows."""
        raise NotImplementedError

    def sentences(self, summary: CampaignSummary, layout: Layout) -> list[Sentence]:
        """Return the findings."""
        raise NotImplementedError

    def remarks(self, summary: CampaignSummary) -> list[str]:
        """Return what is said of the parts that the load is made of."""
        return []

    def ends(self, summary: CampaignSummary) -> Sequence[End]:
        """Return the numbers of the first screen."""
        raise NotImplementedError

    def trial(self, summary: CampaignSummary, trial: TrialSummary) -> tuple[str, str]:
        """Return rate and cost of a trial, in words."""
        raise NotImplementedError

    def by_class(
        self, summary: CampaignSummary, drawn: Callable[[CampaignSummary], StackFigure | None]
    ) -> StackFigure | None:
        """Return the figure of the cost by class of CPU time, which `drawn` makes of the cost of a KiB."""
        return drawn(summary)

    def json(self, summary: CampaignSummary) -> dict[str, Any]:
        """Return the results that no other load has, by key, as values that JSON knows."""
        return {}


def load_of(summary: CampaignSummary) -> Load:
    """Return the load of a campaign."""
    found: Load = part(str(summary.workload.get("kind")), "report")
    return found
