"""Shows what the analysis found: tables, sentences, figures, one self-contained page. Computes no number."""

from iodyno.report.html import write_report
from iodyno.report.terminal import print_tables

__all__ = ["print_tables", "write_report"]
