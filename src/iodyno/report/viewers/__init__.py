"""Profiles in the forms of other viewers. To add one: one file, and one line in `VIEWERS`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iodyno.analysis.functions import PointProfile


@dataclass(frozen=True)
class Viewer:
    """A form: its name, which is that of the module here that writes it, the usual ending of a file, and whether a terminal can
    show it.
    """

    name: str
    ending: str
    text: bool
    help: str

    def write(self, profile: PointProfile, title: str) -> bytes:
        """The profile in this form."""
        written: bytes = import_module(f"{__name__}.{self.name}").write(profile, title)
        return written


VIEWERS = (
    Viewer("folded", "folded", True, "a stack a line with its samples, as flame graph scripts read it"),
    Viewer("speedscope", "speedscope.json", True, "speedscope"),
    Viewer("pprof", "pb.gz", False, "pprof: samples, and CPU time per MiB"),
)  # fmt: skip
"""Every form. A writer is told the profile and its title."""
