"""Whether the hosts have what a script names, asked before the first trial: congestion controls, folders with files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.campaign.preflight_lines import Line, congestion_line, line
from iodyno.campaign.rig import Rig
from iodyno.campaign.scripted import script_of
from iodyno.core.workload import Level

_OVER_TCP = ("tcp", "tls")

Settings = Sequence[Mapping[str, Level]]


def named(rig: Rig, settings: Settings) -> Iterator[tuple[Line, str]]:
    """What the flowops of every point name, at the host that needs it."""
    for host in rig.experiment.workload.ends:
        flowops = list(_flowops(rig, host, settings))
        asked = {
            str(control)
            for flowop in flowops
            # What may fail is counted, and the script goes on.
            if (control := flowop.get("socket", {}).get("congestion_control")) is not None
            and flowop.get("protocol", "tcp") in _OVER_TCP
            and not flowop.get("can_fail")
        }
        if asked:
            yield congestion_line(host, asked, rig.sessions[host].hello["host"]["congestion_controls"])
        # Of another machine's files its agent tells, when it opens them.
        folders = {str(flowop["directory"]): flowop["call"] for flowop in flowops if "directory" in flowop}
        for folder, call in sorted(folders.items()) if rig.on_this_machine(host) else ():
            why = without_files(folder)
            yield line(
                "files",
                not why,
                f"host {host}: {call} takes its files from {folder}, {why or 'which has some'}",
                "name a folder with files: dir=FOLDER",
            )


def without_files(folder: str) -> str:
    """Why a folder has no file to send; empty: there is one that can be read and holds something, in it or below it.

    As the agent looks for them (`agent/load/src/workload/script/files.rs`), which opens them.
    """
    top = Path(folder)
    try:
        next(top.iterdir(), None)
    except OSError as problem:
        return f"which cannot be read: {problem.strerror}"
    files = (Path(place) / name for place, _, names in os.walk(top) for name in names)
    return "" if any(map(_holds_something, files)) else "in which there is no file with anything in it"


def _holds_something(file: Path) -> bool:
    try:
        return file.is_file() and os.access(file, os.R_OK) and file.stat().st_size > 0
    except OSError:
        # It is gone by now.
        return False


def _flowops(rig: Rig, host: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """Every flowop that the host is told at some point."""
    workload = rig.experiment.workload
    assert workload.script is not None
    names = {variable.name for variable in workload.script.variables()}
    told = {tuple(point.get(name) for name in sorted(names)): point for point in settings}
    role = "send" if host == workload.sender else "receive"
    for point in told.values():
        script = script_of(rig.experiment, role, point, host)
        for group in script["groups"] if script else ():
            for transaction in group["transactions"]:
                yield from transaction["operations"]
