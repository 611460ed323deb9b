"""Call trees: all stacks of a point merged from their callers on, with the cost of every path; of one point or of two.

Each sample stands for the same part of its trial's CPU time per KiB, so that the tree's costs agree with the table of
functions. Paths that take less than a thousandth of the whole, and of too many the cheapest, are left out; what they
took stays with their caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from iodyno.analysis.function_change import Verdict, verdict_of
from iodyno.analysis.functions import Per, PointProfile
from iodyno.analysis.shares import ratio
from iodyno.analysis.stacks import HARDIRQ, OWNERS, SOFTIRQ, Function, Integers, Reach, StackTable

LEAST_RATIO = 0.001
"""Part of the whole under which a path is left out (chosen: a pixel at a width of 1000)."""
PATHS_MOST = 1000
"""The costliest paths that are kept (chosen: more cannot be told apart on a screen, and a page is to stay small)."""

Kind = Literal["root", "user", "system", "softirq", "hardirq"]
KINDS: tuple[Kind, ...] = ("root", "user", "system", "softirq", "hardirq")

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A path from the outermost caller on. `function` is None at the root and, under it, at an owner's node.

    `ns_per_kib`: inclusive, at the point; `before`: at the point that it is compared with, `verdict`: whether it differs
    from there beyond noise, as the table of functions has it.
    """

    function: Function | None
    owner: str
    kind: Kind
    depth: int
    ns_per_kib: float
    before: float
    verdict: Verdict = "unchanged"


@dataclass(frozen=True)
class CallTree:
    """Nodes in depth-first order, the costliest child first. `samples`: of the point, and of the one before.

    `reach`: what was sampled. `per`: what the costs are of.
    """

    nodes: tuple[Node, ...]
    samples: tuple[int, int]
    reach: Reach = "all"
    per: Per = "KiB"


@dataclass(frozen=True)
class _Path:
    """A node with its samples by trial: those of the point first, then those of the point before."""

    node: Node
    counts: Numbers


def call_tree(
    profile: PointProfile, before: PointProfile | None = None, least: float = LEAST_RATIO
) -> CallTree:
    """The call tree of a profile, or of two of one campaign: the second as it is, the first as `before`."""
    table = profile.table
    parts = [profile] if before is None else [profile, before]
    if any(part.table is not table for part in parts):
        raise ValueError("call trees are compared within one campaign")
    trials = [rows for part in parts for rows in part.rows]
    weights = [each for part in parts for each in part.weights]
    rows = np.concatenate(trials)
    counts = np.zeros((len(rows), len(trials)))
    scales = np.zeros((len(trials), 2))
    begin = 0
    for place, mine in enumerate(trials):
        counts[begin : begin + len(mine), place] = table.weighed(mine, weights[place])
        begin += len(mine)
    place = 0
    for column, part in enumerate(parts):
        for samples, busy in zip(part.samples_by_trial, part.busy_by_trial, strict=True):
            scales[place, column] = busy / samples / len(part.rows)
            place += 1
    paths = _paths(table, rows, counts, scales, least)
    seen = (profile.seen, before.seen if before else 0)
    nodes = [path.node for path in paths] if before is None else _judged(paths, profile, before)
    return CallTree(tuple(nodes), seen, profile.reach, profile.per)


def _judged(paths: Sequence[_Path], profile: PointProfile, before: PointProfile) -> list[Node]:
    """The nodes with their verdicts, by the same intervals as functions have."""
    counts = np.asarray([path.counts for path in paths]).T
    split = len(profile.rows)
    second = profile.inclusive.with_counts(counts[:split])
    first = before.inclusive.with_counts(counts[split:])
    found = ratio(first, second)
    verdicts: list[Verdict] = [verdict_of(found, number) for number in range(len(paths))]
    # The whole is not drawn towards what is usual of its parts.
    verdicts[0] = verdict_of(ratio(before.whole, profile.whole), 0)
    return [replace(path.node, verdict=verdict) for path, verdict in zip(paths, verdicts, strict=True)]


def _paths(table: StackTable, rows: Integers, counts: Numbers, scales: Numbers, least: float) -> list[_Path]:
    """Level by level: rows that share a path share its node; rows of a path that is too small are dropped."""
    whole = counts.sum(axis=0)
    totals = whole @ scales
    floor = np.where(totals > 0, least * totals, np.inf)
    levels: list[_Level] = []
    parent = np.zeros(len(rows), dtype=np.int64)
    keys, width = table.owner[rows], len(OWNERS)
    depth = 0
    while len(rows):
        unique, node = np.unique(parent * width + keys, return_inverse=True)
        sums = np.zeros((len(unique), counts.shape[1]))
        np.add.at(sums, node, counts)
        kept = np.any(sums @ scales >= floor, axis=1)
        number = np.cumsum(kept) - 1
        levels.append(_Level(unique[kept] // width, unique[kept] % width, sums[kept], (sums @ scales)[kept]))
        longer = kept[node] & (table.starts[rows + 1] - table.starts[rows] > depth)
        rows, counts, parent = rows[longer], counts[longer], number[node[longer]]
        keys, width = table.frames[table.starts[rows] + depth].astype(np.int64), max(1, len(table.functions))
        depth += 1
    root = _Path(Node(None, "", "root", 0, float(totals[0]), float(totals[1])), whole)
    return [root, *_depth_first(table, levels, totals)]


@dataclass(frozen=True)
class _Level:
    """Paths of one length: the number of the caller's, owner or function, samples by trial, costs."""

    parents: Integers
    keys: Integers
    counts: Numbers
    costs: Numbers


def _costliest(levels: Sequence[_Level], totals: Numbers) -> list[npt.NDArray[np.bool_]]:
    """Tell of each path whether it remains: with the root not more than `PATHS_MOST`. A path costs no more than its caller, so
    that what is left hangs together.
    """
    parts = [(level.costs / np.where(totals > 0, totals, np.inf)).max(axis=1) for level in levels]
    every = np.concatenate([[np.inf], *parts])
    least = np.sort(every)[-PATHS_MOST - 1] if len(every) > PATHS_MOST else -np.inf
    return [part > least for part in parts]


def _depth_first(table: StackTable, levels: Sequence[_Level], totals: Numbers) -> list[_Path]:
    children: list[dict[int, list[int]]] = []
    for level, kept in zip(levels, _costliest(levels, totals), strict=True):
        under: dict[int, list[int]] = {}
        order = np.argsort(-level.costs.max(axis=1), kind="stable")
        for number in order[kept[order]].tolist():
            under.setdefault(int(level.parents[number]), []).append(number)
        children.append(under)
    found: list[_Path] = []
    # (depth, number at that depth, owner, kind of the caller), the next one to visit last.
    waiting: list[tuple[int, int, str, Kind]] = []
    if levels:
        waiting = [(0, number, "", "root") for number in reversed(children[0].get(0, []))]
    while waiting:
        depth, number, owner, caller = waiting.pop()
        level = levels[depth]
        key = int(level.keys[number])
        function = None if depth == 0 else table.functions[key]
        owner = OWNERS[key] if depth == 0 else owner
        kind = kind_of(function, caller)
        cost, before = level.costs[number].tolist()
        node = Node(function, owner, kind, depth + 1, cost, before)
        found.append(_Path(node, level.counts[number]))
        if depth + 1 < len(levels):
            waiting += [(depth + 1, n, owner, kind) for n in reversed(children[depth + 1].get(number, []))]
    return found


def kind_of(function: Function | None, caller: Kind) -> Kind:
    """Return the kind of CPU work there: interrupts are what runs below the functions that the kernel enters them by."""
    if function is None:
        return "root"
    if function.space == "user":
        return "user"
    if function.name.startswith(SOFTIRQ):
        return "softirq"
    if function.name.startswith(HARDIRQ) and caller != "softirq":
        return "hardirq"
    return caller if caller in ("softirq", "hardirq") else "system"


@dataclass(frozen=True)
class MergedStack:
    """A call stack over all trials of a point, outermost caller first."""

    owner: str
    functions: tuple[Function, ...]
    samples: int
    ns_per_kib: float


def merged_stacks(profile: PointProfile) -> list[MergedStack]:
    """Every stack of a profile once, the costliest first."""
    samples: dict[tuple[str, tuple[int, ...]], int] = {}
    costs: dict[tuple[str, tuple[int, ...]], float] = {}
    trials = zip(profile.rows, profile.weights, profile.samples_by_trial, profile.busy_by_trial, strict=True)
    for rows, weights, seen, busy in trials:
        scale = busy / seen / len(profile.rows)
        weighed = profile.table.weighed(rows, weights).tolist()
        for stack, count in zip(profile.table.stacks(rows), weighed, strict=True):
            key = (stack.owner, stack.frames)
            samples[key] = samples.get(key, 0) + stack.count
            costs[key] = costs.get(key, 0.0) + count * scale
    functions = profile.table.functions
    found = [
        MergedStack(owner, tuple(functions[number] for number in frames), count, costs[owner, frames])
        for (owner, frames), count in samples.items()
    ]
    found.sort(key=lambda one: (-one.ns_per_kib, one.owner, [f.name for f in one.functions]))
    return found
