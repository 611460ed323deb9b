"""The file format of speedscope (https://www.speedscope.app/file-format-schema.json): one sampled profile an owner.

Weights are samples. Times are not known of a sample, so that only the views "left heavy" and "sandwich" mean anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from iodyno.analysis.call_tree import MergedStack, merged_stacks
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.stacks import OWNERS, Function
from iodyno.report.function_tables import OWNER_WORDS, place_of_function


def write(profile: PointProfile, title: str) -> bytes:
    """The profile as JSON."""
    numbers: dict[Function, int] = {}
    stacks = merged_stacks(profile)
    profiles = [
        _sampled(f"{title}: {OWNER_WORDS[owner]}", mine, numbers)
        for owner in OWNERS
        if (mine := [stack for stack in stacks if stack.owner == owner])
    ]
    found = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": title,
        "exporter": "iodyno",
        "activeProfileIndex": 0,
        "shared": {"frames": [{"name": f.title, "file": place_of_function(f)} for f in numbers]},
        "profiles": profiles,
    }
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


def _sampled(name: str, stacks: Sequence[MergedStack], numbers: dict[Function, int]) -> dict[str, Any]:
    return {
        "type": "sampled",
        "name": name,
        "unit": "none",
        "startValue": 0,
        "endValue": sum(stack.samples for stack in stacks),
        "samples": [[numbers.setdefault(f, len(numbers)) for f in stack.functions] for stack in stacks],
        "weights": [stack.samples for stack in stacks],
    }
