"""Flame graphs of a report: the data of all call trees as one piece of JSON, and the script that draws them.

The page allows this one script by its hash and no other. Costs are stored as parts of the costliest of the
one or two wholes, and all of it is compressed (zlib), so that a tree of some hundred paths takes some kilobytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from iodyno.analysis.call_tree import KINDS, CallTree
from iodyno.analysis.function_change import Verdict
from iodyno.analysis.stacks import OWNERS, Function
from iodyno.report.function_tables import OWNER_WORDS, WHOLE_WORDS, place_of_function
from iodyno.report.page_script import shorter_script

PARTS = 20_000
VERDICTS: tuple[Verdict, ...] = ("unchanged", "rises", "falls")
"""As the script numbers them."""


@cache
def script() -> str:
    """The script that draws, as it stands in the page."""
    return shorter_script(
        (files("iodyno.report") / "templates" / "flame_graph.js").read_text(encoding="utf-8")
    )


def script_source() -> str:
    """Return the source that a content security policy must allow for the script to run: its hash."""
    digest = hashlib.sha256(script().encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def graph_data(trees: Mapping[str, tuple[str, CallTree]]) -> str:
    """JSON of trees, by name with a title: compressed and in base64, which no symbol can break out of."""
    numbers: dict[Function, int] = {}
    graphs = {name: _graph(title, tree, numbers) for name, (title, tree) in trees.items()}
    modules = list(dict.fromkeys(place_of_function(function) for function in numbers))
    found = {
        "owners": [OWNER_WORDS[owner] for owner in OWNERS],
        "names": [function.name for function in numbers],
        "modules": modules,
        "places": [modules.index(place_of_function(function)) for function in numbers],
        "graphs": graphs,
        "parts": PARTS,
    }
    text = json.dumps(found, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _graph(title: str, tree: CallTree, numbers: dict[Function, int]) -> dict[str, Any]:
    two = tree.samples[1] > 0
    root = tree.nodes[0]
    total = max(root.ns_per_kib, root.before)
    unit = total / PARTS
    found: dict[str, Any] = {
        "title": title,
        "whole": WHOLE_WORDS[tree.reach],
        "unit": f"ns/{tree.per}",
        "total": round(total, 3),
        "n": list(tree.samples[: 2 if two else 1]),
        "f": [
            -1 - OWNERS.index(node.owner or OWNERS[0])
            if node.function is None
            else numbers.setdefault(node.function, len(numbers))
            for node in tree.nodes
        ],
        "d": [node.depth for node in tree.nodes],
        "k": [KINDS.index(node.kind) for node in tree.nodes],
        "v": [round(node.ns_per_kib / unit) for node in tree.nodes],
    }
    if two:
        found["a"] = [round(node.before / unit) for node in tree.nodes]
        found["c"] = [VERDICTS.index(node.verdict) for node in tree.nodes]
    return found
