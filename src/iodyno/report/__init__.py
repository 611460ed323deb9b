"""Shows what the analysis found: tables, sentences, figures, one self-contained page. Computes no number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iodyno.report.html import write_report
    from iodyno.report.terminal import print_tables

__all__ = ["print_tables", "write_report"]


def __getattr__(name: str) -> Any:
    # Imported when asked for: a heat map of a trace must not wait for the report of a campaign.
    if name == "write_report":
        from iodyno.report.html import write_report

        return write_report
    if name == "print_tables":
        from iodyno.report.terminal import print_tables

        return print_tables
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
