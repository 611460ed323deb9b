"""Findings of a campaign, as text: for a terminal as wide as that is, for a file or a pipe as wide as the tables are."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.results import CampaignSummary, lost_trials
from iodyno.analysis.summary import analyse
from iodyno.core.quantity import counted
from iodyno.core.warnings import WarningCode
from iodyno.loads.base.report import load_of
from iodyno.report.answer import answer
from iodyno.report.finite_buffer import buffer_tables
from iodyno.report.form import Block, block_text
from iodyno.report.method import changes_note
from iodyno.report.observer import observer_note
from iodyno.report.placement import placement_tables
from iodyno.report.sentences import Sentence, sentences
from iodyno.report.tables import load_tables
from iodyno.report.warnings import WarningGroup, grouped

_ASKED = ("decision", "placement", "search")
"""Topics of a question that was asked with the run: their answer comes before all else."""
LOST_MOST = 5
"""Trials without numbers that are told one by one (chosen: the rest mostly has the same reason)."""
CPU_TIERS = {
    "bpf": "usr and sys are the load's own CPU time, timed at every switch in the kernel (tier bpf).",
    "irq_time": "usr and sys are those of all tasks, sampled at the timer tick; interrupts are timed (tier irq_time).",
    "tick": "usr, sys and intr are those of all tasks, sampled at the timer tick (tier tick).",
}
"""Means by which CPU time was told apart, by tier."""


def print_tables(folder: Path | str, file: TextIO | None = None) -> None:
    """Prints the tables of the campaign in `folder`. Raises StoreError when it is none."""
    show_tables(analyse(read_dataset(folder)), file)


def show_tables(summary: CampaignSummary, file: TextIO | None = None, more: Sequence[Sentence] = ()) -> None:
    """Prints the answer, a section per level, all else that can be said of them and `more`, and the warnings."""
    out = file or sys.stdout
    width = shutil.get_terminal_size().columns if out.isatty() else None
    for block in report_blocks(summary, more, verbose=True):
        out.write(block_text(block, width))


def report_blocks(
    summary: CampaignSummary, more: Sequence[Sentence] = (), *, verbose: bool = False
) -> Iterator[Block]:
    """Yield the answer, the tables of a campaign, and the warnings; `verbose`: all else that can be said, with `more`, and how it
    was found.
    """
    said = [*sentences(summary), *more]
    asked = [sentence for sentence in said if sentence.about in _ASKED]
    first = [*asked, *(each for each in answer(summary, said, ()).first if each not in asked)]
    for sentence in first:
        yield sentence.text + ("\n" if sentence is first[-1] else "")
    yield from load_tables(summary)
    yield from buffer_tables(summary)
    yield from placement_tables(summary)
    load, others = load_of(summary), [sentence for sentence in said if sentence not in first]
    yield from load.remarks(summary)
    yield f"{_interval_note(summary, verbose)}{load.note} {tier_note(summary)}" + ("\n" if verbose else "")
    if verbose:
        for sentence in others:
            yield sentence.text
        yield observer_note(summary)
    else:
        more_found = f"{counted(len(others), 'more finding')}, and how" if others else "How"
        yield f"{more_found} they were found, with -v and on the page."
    groups = [each for group in grouped(summary) for each in _with_reasons(group)]
    lost = list(lost_trials(summary.trials))
    if groups or lost:
        yield ""
    for group in groups:
        yield f"warning: {group.title} ({group.places}): {group.texts[0]}"
    for line in lost[:LOST_MOST]:
        yield f"warning: {line}"
    if len(lost) > LOST_MOST:
        yield (
            f"warning: {counted(len(lost) - LOST_MOST, 'more trial')} damaged or failed; `--json` gives the reason of each"
        )


def _interval_note(summary: CampaignSummary, verbose: bool) -> str:
    """State the basis of the intervals of the tables; `verbose`: and what changes are judged by."""
    trials = [point.finished for point in summary.points if point.finished]
    if max(trials, default=1) > 1:
        one = "; where a point has one trial, over batches within it" if min(trials) == 1 else ""
        changes = changes_note(summary) if verbose else ""
        judged = f" Changes are judged {changes}." if changes else ""
        return f"± is half the 95 % interval over trials{one}.{judged}"
    return "± is half the 95 % interval over batches within the one trial of a point."


def _with_reasons(group: WarningGroup) -> Iterator[WarningGroup]:
    """A group that is told by its first warning; what is missing is told once for each reason, as each is of something else."""
    if group.code != WarningCode.SENSOR_MISSING:
        yield group
        return
    for text in group.texts:
        yield replace(group, warnings=tuple(warning for warning in group.warnings if warning.text == text))


def tier_note(summary: CampaignSummary) -> str:
    """State the source of the cycles and of the kinds of CPU time, as every number of them must; of a load on disks cycles are
    told only where they are asked for.
    """
    if not load_of(summary).tells_cycles(summary):
        return CPU_TIERS[summary.accounting.tier]
    cycles = {
        "pmu": "Cycles are hardware cycles (tier pmu).",
        "tsc": "Cycles are reference cycles: busy time × clock of the time-stamp counter (tier tsc).",
    }
    return f"{cycles[summary.tier]} {CPU_TIERS[summary.accounting.tier]}"
