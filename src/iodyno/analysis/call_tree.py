"""Call trees: all stacks of a point merged from their callers on, with the cost of every path; of one point or of two.

Each sample stands for the same part of its trial's CPU time per KiB, so that the tree's costs agree with the table of
functions. Paths that take less than a thousandth of the whole, and of too many the cheapest, are left out; what they
took stays with their caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from iodyno.analysis.functions import PointProfile
from iodyno.analysis.stacks import OWNERS, Function, Integers, StackTable

LEAST_RATIO = 0.001
"""Part of the whole under which a path is left out (chosen: a pixel at a width of 1000)."""
PATHS_MOST = 1000
"""The dearest paths that are kept (chosen: more cannot be told apart on a screen, and a page is to stay small)."""

Kind = Literal["root", "user", "system", "softirq", "hardirq"]
KINDS: tuple[Kind, ...] = ("root", "user", "system", "softirq", "hardirq")
_SOFTIRQ = ("handle_softirqs", "__do_softirq", "do_softirq")
_HARDIRQ = ("asm_common_interrupt", "common_interrupt", "asm_sysvec_", "sysvec_", "__sysvec_", "el1h_64_irq")

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Node:
    """A path from the outermost caller on. `function` is None at the root and, under it, at an owner's node.

    `ns_per_kib`: inclusive, at the point; `before`: at the point that it is compared with.
    """

    function: Function | None
    owner: str
    kind: Kind
    depth: int
    ns_per_kib: float
    before: float


@dataclass(frozen=True)
class CallTree:
    """Nodes in depth-first order, the dearest child first. `samples` and `noise`: of the point, and of the one before.

    `noise` is the relative standard error that all paths share, from what varies between trials beyond sampling.
    """

    nodes: tuple[Node, ...]
    samples: tuple[int, int]
    noise: tuple[float, float]


def call_tree(
    profile: PointProfile, before: PointProfile | None = None, least: float = LEAST_RATIO
) -> CallTree:
    """The call tree of a profile, or of two of one campaign: the second as it is, the first as `before`."""
    table = profile.table
    parts = [profile] if before is None else [profile, before]
    if any(part.table is not table for part in parts):
        raise ValueError("call trees are compared within one campaign")
    rows = np.concatenate([each for part in parts for each in part.rows])
    weights = np.zeros((len(rows), 2))
    begin = 0
    for column, part in enumerate(parts):
        for mine, busy in zip(part.rows, part.busy_by_trial, strict=True):
            scale = busy / table.samples(mine) / len(part.rows)
            weights[begin : begin + len(mine), column] = table.count[mine] * scale
            begin += len(mine)
    samples = (profile.samples, before.samples if before else 0)
    noise = (profile.exclusive.noise, before.exclusive.noise if before else 0.0)
    return CallTree(tuple(_dearest(_nodes(table, rows, weights, least))), samples, noise)


def _nodes(table: StackTable, rows: Integers, weights: Numbers, least: float) -> list[Node]:
    """Level by level: rows that share a path share its node; rows of a path that is too small are dropped."""
    whole = weights.sum(axis=0)
    floor = np.where(whole > 0, least * whole, np.inf)
    levels: list[tuple[Integers, Integers, Numbers]] = []
    parent = np.zeros(len(rows), dtype=np.int64)
    keys, width = table.owner[rows], len(OWNERS)
    depth = 0
    while len(rows):
        unique, node = np.unique(parent * width + keys, return_inverse=True)
        costs = np.zeros((len(unique), 2))
        np.add.at(costs, node, weights)
        kept = np.any(costs >= floor, axis=1)
        number = np.cumsum(kept) - 1
        levels.append((unique[kept] // width, unique[kept] % width, costs[kept]))
        longer = kept[node] & (table.starts[rows + 1] - table.starts[rows] > depth)
        rows, weights, parent = rows[longer], weights[longer], number[node[longer]]
        keys, width = table.frames[table.starts[rows] + depth], max(1, len(table.functions))
        depth += 1
    root = Node(None, "", "root", 0, *map(float, whole))
    return [root, *_depth_first(table, levels)]


def _dearest(nodes: list[Node]) -> list[Node]:
    """Not more than `PATHS_MOST`. A path costs no more than its caller, so that what is left hangs together."""
    if len(nodes) <= PATHS_MOST:
        return nodes
    root = nodes[0]
    wholes = [whole or np.inf for whole in (root.ns_per_kib, root.before)]
    parts = [max(node.ns_per_kib / wholes[0], node.before / wholes[1]) for node in nodes]
    least = sorted(parts, reverse=True)[PATHS_MOST]
    return [node for node, part in zip(nodes, parts, strict=True) if part > least]


def _depth_first(table: StackTable, levels: Sequence[tuple[Integers, Integers, Numbers]]) -> list[Node]:
    children: list[dict[int, list[int]]] = []
    for parents, _, costs in levels:
        under: dict[int, list[int]] = {}
        for number in np.argsort(-costs.max(axis=1), kind="stable").tolist():
            under.setdefault(int(parents[number]), []).append(number)
        children.append(under)
    found: list[Node] = []
    # (level, number at the level, owner, kind of the caller), the next one to visit last.
    waiting: list[tuple[int, int, str, Kind]] = (
        [(0, n, "", "root") for n in reversed(children[0].get(0, []))] if levels else []
    )
    while waiting:
        level, number, owner, caller = waiting.pop()
        _, keys, costs = levels[level]
        function = None if level == 0 else table.functions[int(keys[number])]
        owner = OWNERS[int(keys[number])] if level == 0 else owner
        kind = kind_of(function, caller)
        found.append(Node(function, owner, kind, level + 1, *map(float, costs[number])))
        if level + 1 < len(levels):
            waiting += [(level + 1, n, owner, kind) for n in reversed(children[level + 1].get(number, []))]
    return found


def kind_of(function: Function | None, caller: Kind) -> Kind:
    """What the CPU did there: interrupts are what runs below the functions that the kernel enters them by."""
    if function is None:
        return "root"
    if function.space == "user":
        return "user"
    if function.name.startswith(_SOFTIRQ):
        return "softirq"
    if function.name.startswith(_HARDIRQ) and caller != "softirq":
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
    """Every stack of a profile once, the dearest first."""
    samples: dict[tuple[str, tuple[int, ...]], int] = {}
    costs: dict[tuple[str, tuple[int, ...]], float] = {}
    for rows, busy in zip(profile.rows, profile.busy_by_trial, strict=True):
        scale = busy / profile.table.samples(rows) / len(profile.rows)
        for stack in profile.table.stacks(rows):
            key = (stack.owner, stack.frames)
            samples[key] = samples.get(key, 0) + stack.count
            costs[key] = costs.get(key, 0.0) + stack.count * scale
    functions = profile.table.functions
    found = [
        MergedStack(owner, tuple(functions[number] for number in frames), count, costs[owner, frames])
        for (owner, frames), count in samples.items()
    ]
    found.sort(key=lambda one: (-one.ns_per_kib, one.owner, [f.name for f in one.functions]))
    return found
