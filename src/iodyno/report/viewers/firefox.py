"""The processed profile of Firefox Profiler (docs-developer/processed-profile-format.md there), version 48.

A thread for each owner. When a sample was taken is not stored: stacks stand one after the other, each with the weight of its
samples, so that call tree and flame graph are right and the time axis means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from iodyno.analysis.call_tree import KINDS, Kind, MergedStack, kind_of, merged_stacks
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.stacks import OWNERS, Function
from iodyno.report.function_tables import OWNER_WORDS, place_of_function

VERSION = 48
_GECKO_VERSION = 27
_LIBRARY = 1
"""`resourceTypes.library` of the viewer."""
_COLOURS: dict[Kind, tuple[str, str]] = {
    "root": ("Other", "grey"),
    "user": ("User code", "blue"),
    "system": ("Kernel", "orange"),
    "softirq": ("Soft interrupt", "green"),
    "hardirq": ("Hard interrupt", "magenta"),
}


def write(profile: PointProfile, title: str) -> bytes:
    """The profile as JSON."""
    stacks = merged_stacks(profile)
    hz = profile.sampling.hz or 1000
    threads = [
        _thread(owner, mine, place, 1000 / hz)
        for place, owner in enumerate(OWNERS)
        if (mine := [stack for stack in stacks if stack.owner == owner])
    ]
    found = {
        "meta": {
            "interval": 1000 / hz,
            "startTime": 0,
            "processType": 0,
            "product": f"iodyno: {title}",
            "stackwalk": 1,
            "debug": False,
            "version": _GECKO_VERSION,
            "preprocessedProfileVersion": VERSION,
            "symbolicated": True,
            "categories": [
                {"name": _COLOURS[kind][0], "color": _COLOURS[kind][1], "subcategories": ["Other"]} for kind in KINDS
            ],
            "markerSchema": [],
            "extensions": {"baseURL": [], "id": [], "name": [], "length": 0},
            "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
            "usesOnlyOneStackType": True,
            "doesNotUseFrameImplementation": True,
            "sourceCodeIsNotOnSearchfox": True,
        },
        "libs": [],
        "pages": [],
        "counters": [],
        "profilerOverhead": [],
        "threads": threads,
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


class _Tables:
    """The tables of a thread: texts, modules, functions, frames, stacks; each entry once."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self.modules: dict[str, int] = {}
        self.functions: dict[Function, int] = {}
        self.frames: dict[tuple[int, int], int] = {}
        self.stacks: dict[tuple[int | None, int], int] = {}

    def text(self, written: str) -> int:
        return self.texts.setdefault(written, len(self.texts))

    def stack(self, functions: Sequence[Function]) -> int:
        """The number of a call stack, outermost first."""
        prefix: int | None = None
        kind: Kind = "root"
        for function in functions:
            kind = kind_of(function, kind)
            self.modules.setdefault(place_of_function(function), len(self.modules))
            number = self.functions.setdefault(function, len(self.functions))
            frame = self.frames.setdefault((number, KINDS.index(kind)), len(self.frames))
            prefix = self.stacks.setdefault((prefix, frame), len(self.stacks))
        assert prefix is not None
        return prefix


def _thread(owner: str, stacks: Sequence[MergedStack], place: int, interval_ms: float) -> dict[str, Any]:
    tables = _Tables()
    samples = [tables.stack(stack.functions) for stack in stacks]
    begun, time = 0.0, []
    for stack in stacks:
        time.append(round(begun, 3))
        begun += stack.samples * interval_ms
    frames, functions, modules = tables.frames, tables.functions, tables.modules
    category = {number: kind for (_, kind), number in frames.items()}
    found = {
        "name": OWNER_WORDS[owner],
        "processName": OWNER_WORDS[owner],
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "isMainThread": True,
        "pid": str(place + 1),
        "tid": place + 1,
        "samples": {
            "length": len(samples),
            "stack": samples,
            "time": time,
            "weight": [stack.samples for stack in stacks],
            "weightType": "samples",
        },
        "markers": _table(0, data=[], name=[], startTime=[], endTime=[], phase=[], category=[]),
        "stackTable": _table(
            len(tables.stacks),
            frame=[frame for _, frame in tables.stacks],
            prefix=[prefix for prefix, _ in tables.stacks],
            category=[category[frame] for _, frame in tables.stacks],
            subcategory=[0] * len(tables.stacks),
        ),
        "frameTable": _table(
            len(frames),
            address=[-1] * len(frames),
            inlineDepth=[0] * len(frames),
            category=[kind for _, kind in frames],
            subcategory=[0] * len(frames),
            func=[number for number, _ in frames],
            **dict.fromkeys(("nativeSymbol", "innerWindowID", "implementation", "line", "column"), [None] * len(frames)),
        ),
        "funcTable": _table(
            len(functions),
            name=[tables.text(function.title) for function in functions],
            isJS=[False] * len(functions),
            relevantForJS=[False] * len(functions),
            resource=[modules[place_of_function(function)] for function in functions],
            **dict.fromkeys(("fileName", "lineNumber", "columnNumber"), [None] * len(functions)),
        ),
        "resourceTable": _table(
            len(modules),
            lib=[None] * len(modules),
            name=[tables.text(module) for module in modules],
            host=[None] * len(modules),
            type=[_LIBRARY] * len(modules),
        ),
        "nativeSymbols": _table(0, libIndex=[], address=[], name=[], functionSize=[]),
    }  # fmt: skip
    # Last: the tables above put their texts into it.
    return found | {"stringArray": list(tables.texts)}


def _table(length: int, **columns: Sequence[Any]) -> dict[str, Any]:
    return {"length": length, **columns}
