"""Folded stacks: one stack a line, frames joined by semicolons, and its samples; the kernel's frames end in `_[k]`."""

from __future__ import annotations

from iodyno.analysis.call_tree import merged_stacks
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.stacks import Function
from iodyno.report.function_tables import OWNER_WORDS


def write(profile: PointProfile, title: str) -> bytes:
    """The profile as text. The first frame says whose task was on the CPU."""
    lines = [
        ";".join([OWNER_WORDS[stack.owner], *map(_frame, stack.functions)]) + f" {stack.samples}"
        for stack in merged_stacks(profile)
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def _frame(function: Function) -> str:
    name = function.title.replace(";", ":").replace("\n", " ")
    return f"{name}_[k]" if function.space == "kernel" else name
