"""A bound personality as the file program of an agent (`agent/core/src/file_program.rs`)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from iodyno.core.errors import ExperimentError
from iodyno.loads.files.core.binding import laws_used
from iodyno.loads.files.core.bound import Amount, Bound, Files, Flowop, Law, Option, Use

Json = dict[str, Any]

_SYSTEM = ("/dev", "/proc", "/sys")
_MODES = {"timeout": "timeout", "alldone": "all_done", "firstdone": "first_done"}
_OPTIONS = {
    "filename": "fileset",
    "fd": "fd",
    "srcfd": "srcfd",
    "opennext": "open_next",
    "indexed": "index",
    "iosize": "io_bytes",
    "workingset": "working_set_bytes",
    "random": "random",
    "directio": "direct",
    "dsync": "dsync",
    "noreadahead": "no_readahead",
    "blocking": "blocking",
    "target": "target",
    "value": "value",
    "highwater": "high_water",
}
"""Attributes of flowops, and what an agent calls them."""
_ON_A_DESCRIPTOR = (
    "fsync",
    "closefile",
    "read",
    "write",
    "appendfile",
    "appendfilerand",
    "readwholefile",
    "aiowrite",
)


def directory_of(bound: Bound, target: str | None = None) -> str:
    """The directory below which all files are: the target, else the one that the personality's paths have in common.

    Raises ExperimentError where there is none, or where the paths are those of the system.
    """
    paths = [posixpath.normpath(files.path) if files.path else "" for files in bound.files]
    if target is not None:
        if not target.startswith("/"):
            raise ExperimentError(
                f"found the target {target}, which is not absolute",
                where=bound.name,
                advice="a path that begins with /",
            )
        return target
    for files, path in zip(bound.files, paths, strict=True):
        if not path.startswith("/"):
            raise files.place.error(
                f"path: {files.path or 'missing'}, which is not absolute, so it is not known where files are made",
                "--target DIR",
            )
        if path in _SYSTEM or path.startswith(tuple(f"{system}/" for system in _SYSTEM)):
            raise files.place.error(
                f"path: {files.path}, where devices and kernel are; expected a directory",
                "--target DIR for files, `iodyno disk` for a device",
            )
    if not paths:
        raise ExperimentError(
            "the personality defines no file and no fileset, and no target is named",
            where=bound.name,
            advice="--target DIR",
        )
    return posixpath.commonpath(paths)


def places(bound: Bound, target: str | None = None) -> dict[str, str]:
    """Return the place of each file or fileset, relative to the directory: its path beyond the part that all have."""
    paths = {f.name: posixpath.normpath(f.path) if f.path else "" for f in bound.files}
    absolute = [path for path in paths.values() if path.startswith("/")]
    common = posixpath.commonpath(absolute) if absolute else ""
    found = {}
    for name, path in paths.items():
        relative = posixpath.relpath(path, common) if path.startswith("/") else path
        parts = [part for part in relative.split("/") if part not in ("", ".", "..")]
        found[name] = "/".join(parts)
    return found


def program(bound: Bound, *, target: str | None = None, seed: int = 0, remove_after: bool = False) -> Json:
    """The file program. Raises ExperimentError."""
    where = places(bound, target)
    made = _Program(bound)
    processes = [
        {
            "name": process.name,
            "instances": process.instances,
            "nice": process.nice,
            "threads": [
                {
                    "name": thread.name,
                    "instances": thread.instances,
                    "memory_bytes": thread.memory_bytes,
                    "io_priority": thread.io_priority,
                    "flowops": made.flowops(thread.flowops),
                }
                for thread in process.threads
                if thread.instances
            ],
        }
        for process in bound.processes
    ]
    return {
        "directory": directory_of(bound, target),
        "seed": seed,
        "filesets": [made.files(files, where[files.name]) for files in bound.files],
        "processes": processes,
        "variables": [*(_law(law) for law in laws_used(bound)), *(_law(law) for law in made.scaled.values())],
        "events_per_s": _whole(bound.events_per_s) if bound.events_per_s else None,
        "quit": _MODES[bound.mode],
        "remove_after": remove_after,
    }


class _Program:
    """Parts of a program that its flowops need beside themselves."""

    def __init__(self, bound: Bound) -> None:
        self.filesets = {files.name: files for files in bound.files}
        self.laws = {law.name: law for law in bound.laws}
        self.scaled: dict[str, Law] = {}

    def files(self, files: Files, place: str) -> Json:
        """One file or fileset."""
        return {
            "name": files.name,
            "kind": "file" if files.single else "fileset",
            "path": place,
            "entries": files.entries,
            "size_bytes": _amount(files.size),
            "dir_width": files.directory_width,
            "dir_gamma": files.directory_gamma,
            **({"dir_depth": _amount(files.directory_depth)} if files.directory_depth is not None else {}),
            "leaf_dirs": files.leaf_directories,
            "prealloc_percent": files.made_percent,
            # Making files by several threads is never worse; `paralloc` asks for what is so in any case.
            "parallel": True,
            "reuse": files.reuse,
            "read_only": files.read_only,
            "write_only": files.write_only,
            "trust_tree": files.trusted,
        }

    def flowops(self, flowops: tuple[Flowop, ...], open_without_number: str | None = None) -> list[Json]:
        """Flowops in order. One that names neither a descriptor nor files has those of the one before it."""
        written = []
        for flowop in flowops:
            named = flowop.options.get("filename")
            if isinstance(named, str) and "fd" not in flowop.options:
                open_without_number = named
            written.append(self.flowop(flowop, open_without_number))
        return written

    def flowop(self, flowop: Flowop, open_without_number: str | None) -> Json:
        """One flowop."""
        wire: Json = {"name": flowop.name, "call": flowop.kind}
        if flowop.iterations != 1:
            wire["iterations"] = _amount(flowop.iterations)
        if flowop.kind == "composite":
            return wire | {"flowops": self.flowops(flowop.flowops, open_without_number)}
        for key, value in flowop.options.items():
            wire |= self.option(flowop, key, value)
        implicit = "fd" not in wire and "fileset" not in wire and flowop.kind in _ON_A_DESCRIPTOR
        if implicit and open_without_number is not None:
            wire["fileset"] = open_without_number
        return wire

    def option(self, flowop: Flowop, key: str, value: Option) -> Json:
        """One attribute."""
        if key == "value" and isinstance(value, float):
            if flowop.kind == "delay":
                return {"value": round(value * 1000), "unit_ns": 10**6}
            return {"value": round(value)}
        if key == "workingset" and value == 0:
            return {}
        if key == "indexed" and isinstance(value, Use):
            return {"index": {"variable": self.index(flowop, self.laws[value.name])}}
        if isinstance(value, (bool, str)):
            return {_OPTIONS[key]: value}
        return {_OPTIONS[key]: _amount(value)}

    def index(self, flowop: Flowop, law: Law) -> str:
        """The drawn variable of an index. One without a mean draws parts of half of the entries, as version 1.4 had it."""
        files = self.filesets.get(str(flowop.options.get("filename")))
        if law.law != "gamma" or law.parameters["mean"] != law.parameters["gamma"] or files is None:
            return law.name
        count = (
            files.leaf_directories if flowop.kind in ("makedir", "removedir", "listdir") else files.entries
        )
        scale = max(1, count // 2)
        name = f"{law.name}*{scale}"
        mean = law.parameters["mean"] * scale
        parameters = {
            "mean": mean,
            "gamma": law.parameters["gamma"],
            "least": min(law.parameters["least"], mean),
        }
        self.scaled[name] = Law(name, law.law, parameters, (), law.least, law.most, law.round_to, law.seed)
        return name


def _law(law: Law) -> Json:
    if law.law == "tabular":
        rows = [{"weight": share, "least": low, "greatest": high} for share, low, high in law.rows]
        kind: Json = {"kind": law.law, "rows": rows}
    else:
        kind = {"kind": law.law, **law.parameters}
    wire: Json = {"name": law.name, "law": kind}
    bounds: Mapping[str, float | int | None] = {
        "least": law.least, "greatest": law.most, "round": law.round_to, "seed": law.seed,
    }  # fmt: skip
    return wire | {key: _whole(value) for key, value in bounds.items() if value is not None}


def _amount(value: Amount) -> int | Json:
    return {"variable": value.name} if isinstance(value, Use) else round(value)


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value
