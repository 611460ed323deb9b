"""Interrupts by CPU and queue, at each point and host: one table, and JSON."""

from __future__ import annotations

from typing import Any

from iodyno.analysis.interrupt_rates import InterruptRate
from iodyno.analysis.results import CampaignSummary
from iodyno.report.estimate_json import estimate_values
from iodyno.report.layout import each_told
from iodyno.report.numbers import details, digits, with_interval
from iodyno.report.table import Cell, Column, Table

_CPUS_MOST = 4
"""CPUs of an interrupt that a row names (chosen: they fit on a line; the JSON has all)."""


def interrupt_table(summary: CampaignSummary) -> Table | None:
    """Return the interrupts of up to `POINTS_MOST` points; None where none were counted."""
    rows = [
        (
            Cell(place),
            Cell(one.host),
            Cell(one.name),
            Cell(with_interval(one.per_s), details(one.per_s), estimates=(one.per_s,)),
            _queue_cell(one),
            Cell(_cpus(one)),
        )
        for place, one in each_told(summary, lambda point: point.interrupts)
    ]
    if not rows:
        return None
    columns = (
        Column("point"),
        Column("host"),
        Column("interrupt"),
        Column("rate"),
        Column(
            "share of its adapter's queues",
            hint="of those of one name that differ in the queue's number alone",
        ),
        Column("on CPUs, 1/s"),
    )
    return Table("Interrupts by CPU and queue", columns, tuple(rows), keys=3)


def _queue_cell(one: InterruptRate) -> Cell:
    if one.of_queues is None or one.of_queues.estimate is None:
        return Cell("–")
    text = f"{100 * one.of_queues.estimate:.0f} % of {one.queues}"
    return Cell(text, details(one.of_queues), estimates=(one.of_queues,))


def _cpus(one: InterruptRate) -> str:
    named = [f"CPU {cpu}: {digits(rate)}" for cpu, rate in one.by_cpu.items()]
    beyond = len(named) - _CPUS_MOST
    return ", ".join(named[:_CPUS_MOST]) + (f", {beyond} more" if beyond > 0 else "")


def interrupts_json(one: InterruptRate) -> dict[str, Any]:
    """Return an interrupt as values that JSON knows, with every CPU that took any."""
    return {
        "host": one.host,
        "name": one.name,
        "per_s": estimate_values(one.per_s),
        "by_cpu_per_s": {str(cpu): rate for cpu, rate in one.by_cpu.items()},
        "queue_share": None if one.of_queues is None else estimate_values(one.of_queues),
        "queues": one.queues,
    }
