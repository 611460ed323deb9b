"""Job of one host's agent from the settings of the workload `disk` (`agent/core/src/disk.rs`)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from iodyno.campaign import distributions
from iodyno.core import quantity
from iodyno.core.distribution import parse_zones
from iodyno.core.errors import PreflightError
from iodyno.core.workload import Level
from iodyno.loads.disk.core.parameters import kind_of, paths_of
from iodyno.loads.disk.core.replay import replay_of
from iodyno.loads.disk.formats.block_traces import Trace, read_trace

PPM = 10**6
CHECK_SEED = 1
"""Chosen: any number, the same in every job whose blocks carry checks."""
_FLAGS = ("hipri", "nowait")
_CACHE = {"any": "leave", "no": "drop", "yes": "warm", "each_pass": "each_pass"}


def load_settings(settings: Mapping[str, Level]) -> dict[str, Level]:
    """The settings in the words of a load over connections: workers are its connections."""
    greatest, _ = block_of(settings)
    return {
        **settings,
        "connections": settings.get("workers", 1),
        "size": greatest,
        "transport": "null",
    }


def block_of(settings: Mapping[str, Level]) -> tuple[int, dict[str, Any] | None]:
    """The greatest block in bytes, and the law of the blocks where they are not all alike."""
    block = settings.get("block", 4096)
    return distributions.sizes({"sizes": block} if isinstance(block, str) else {"size": block})


def disk_of(host: str, settings: Mapping[str, Level], seed: int) -> dict[str, Any]:
    """The part of the job that is about the disk. Each host has a seed of its own, or all would read the same blocks."""
    greatest, blocks = block_of(settings)
    paths = paths_of(str(settings["target"]), host)
    size, offset = settings.get("working_set"), int(settings.get("offset", 0))
    verify = str(settings.get("verify", "off"))
    syscalls = str(settings.get("syscalls", "pread"))
    end = None if size is None else offset + int(size)
    return {
        "disk": {
            "targets": [{"path": path, "kind": kind_of(path), "size_bytes": end} for path in paths],
            **_pattern(settings),
            "sequence": settings.get("sequence", "split"),
            "read_ratio_ppm": settings.get("read", PPM),
            "block_bytes": greatest,
            "block_sizes": blocks,
            "align_bytes": settings.get("align"),
            "workers": settings.get("workers", 1),
            "queue_depth": settings.get("queue_depth", 1),
            "batch": settings.get("batch", 1),
            "syscalls": syscalls,
            "flags": [flag for flag in _FLAGS if settings.get(flag)],
            "io_uring": _io_uring(settings),
            "direct": settings.get("direct", False),
            "sync": settings.get("sync", "none"),
            "sync_every": settings.get("sync_every", 1),
            "verify": "none" if verify == "off" else verify,
            "region": None if size is None else {"offset_bytes": offset, "length_bytes": size},
            # The checks of blocks are made with the seed too: those of another trial must be right in this one.
            "seed": CHECK_SEED if verify != "off" else zlib.crc32(host.encode(), seed),
            **_content(settings),
            "operations": settings.get("operations"),
            "advised": settings.get("advised", False),
            "cache": _CACHE[str(settings.get("cached", "any"))],
            "think_ns": settings.get("think", 0),
            "think_every": settings.get("think_every", 1),
            "arrivals": distributions.arrivals(load_settings(settings), seed),
            **_replay(settings),
        }
    }


def trace_of(settings: Mapping[str, Level]) -> Trace:
    """The trace that is replayed. Raises ExperimentError."""
    device = settings.get("replay_device")
    return read_trace(str(settings["replay"]), None if device is None else str(device))


def _replay(settings: Mapping[str, Level]) -> dict[str, Any]:
    """The operations of a trace, where one is replayed. Raises ExperimentError and PreflightError."""
    named = settings.get("replay")
    if named is None:
        return {}
    operations = trace_of(settings).operations
    try:
        replayed = replay_of(operations, settings)
    except ValueError as problem:
        raise PreflightError(
            str(problem), where=str(named), advice="a larger working_set, or `beyond: wrapped`"
        ) from None
    longest = max(operation.length_bytes for operation in operations)
    return {"replay": replayed, "block_bytes": max(longest, 512), "block_sizes": None, "align_bytes": 512}


def writes(settings: Mapping[str, Level]) -> bool:
    """Tell whether the load writes, or blocks are written before for it to read: with checks, or to precondition them."""
    before = settings.get("verify", "off") != "off" or settings.get("precondition")
    return int(settings.get("read", PPM)) < PPM or bool(before)


def _pattern(settings: Mapping[str, Level]) -> dict[str, Any]:
    theta = settings.get("theta")
    pattern = str(settings.get("pattern", "random"))
    zones: tuple[tuple[int, int], ...] = ()
    if pattern in ("hot_spot", "self_similar"):
        space, operations = (
            int(settings.get("hot_space", 200_000)),
            int(settings.get("hot_operations", 800_000)),
        )
        rest = [(PPM - space, PPM - operations)] if pattern == "hot_spot" and space < PPM else []
        zones = ((space, operations), *rest)
    elif pattern.startswith("zones("):
        zones = parse_zones(pattern)
    normal = pattern.startswith("normal(")
    return {
        "pattern": "zones"
        if pattern == "hot_spot" or pattern.startswith("zones(")
        else "normal"
        if normal
        else pattern,
        "random_ratio_ppm": settings.get("random") or 0,
        "in_order": settings.get("in_order", 1),
        "normal_deviation_ppm": quantity.parse("share", pattern[7:-1]) if normal else None,
        "stride_bytes": settings.get("stride") if pattern == "strided" else None,
        "zipf_theta_ppm": round(float(theta) * PPM) if theta is not None and pattern == "zipf" else None,
        "zones": [
            {"share_of_space_ppm": space, "share_of_operations_ppm": operations}
            for space, operations in zones
        ],
    }


def _io_uring(settings: Mapping[str, Level]) -> dict[str, Any]:
    registered = settings.get("registered", True)
    return {
        "registered_files": registered,
        "registered_buffers": registered,
        "sqpoll": settings.get("sqpoll", False),
        "iopoll": settings.get("iopoll", False),
    }


def _content(settings: Mapping[str, Level]) -> dict[str, Any]:
    content = str(settings.get("content", "random"))
    if "(" not in content:
        return {"content": content}
    share = quantity.parse("share", content.partition("(")[2].rstrip(")"))
    return {"content": "compressible", "compressible_ppm": share}
