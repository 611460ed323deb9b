"""Profiles in the forms of other viewers. To add one: one file, and one line in `VIEWERS`."""

from collections.abc import Callable
from dataclasses import dataclass

from iodyno.analysis.functions import PointProfile
from iodyno.report.viewers import folded, pprof, speedscope


@dataclass(frozen=True)
class Viewer:
    """A form: its name, the usual ending of a file, what writes it, and whether a terminal can show it."""

    name: str
    ending: str
    write: Callable[[PointProfile, str], bytes]
    text: bool
    help: str


VIEWERS = (
    Viewer("folded", "folded", folded.write, True, "a stack a line with its samples, as flame graph scripts read it"),
    Viewer("speedscope", "speedscope.json", speedscope.write, True, "speedscope"),
    Viewer("pprof", "pb.gz", pprof.write, False, "pprof: samples, and CPU time per MiB"),
)  # fmt: skip
"""Every form. A writer is told the profile and its title."""
