"""Checks before the first trial that hosts have what a script names: congestion controls, protocols, folders with files."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iodyno.campaign.preflight_lines import Line, congestion_line, line
from iodyno.campaign.testbed import Testbed
from iodyno.core.workload import Level
from iodyno.loads.script.campaign.jobs import script_of
from iodyno.loads.script.core.flowops import OPENING

_OVER_TCP = ("tcp", "tls")
_OTHER_PROTOCOL = "take a kernel that has it (its module may have to be installed), or protocol=tcp"

Settings = Sequence[Mapping[str, Level]]


def named(testbed: Testbed, settings: Settings) -> Iterator[tuple[Line, str]]:
    """Check that each host has what the flowops of every point name there."""
    for host in testbed.experiment.workload.ends:
        flowops = list(_flowops(testbed, host, settings))
        asked = {
            str(control)
            for flowop in flowops
            # What may fail is counted, and the script goes on.
            if (control := flowop.get("socket", {}).get("congestion_control")) is not None
            and flowop.get("protocol", "tcp") in _OVER_TCP
            and not flowop.get("can_fail")
        }
        if asked:
            yield congestion_line(
                host, asked, testbed.sessions[host].hello["host"]["congestion_controls"], "cc"
            )
        protocols = {
            str(flowop.get("protocol"))
            for flowop in flowops
            if flowop["call"] in OPENING and not flowop.get("can_fail")
        }
        for protocol in sorted(protocols):
            if why := _without(testbed, host, protocol):
                yield line("transport", False, f"host {host}: `protocol={protocol}`: {why}", _OTHER_PROTOCOL)
        # Of another machine's files its agent tells, when it opens them.
        folders = {str(flowop["directory"]): flowop["call"] for flowop in flowops if "directory" in flowop}
        for folder, call in sorted(folders.items()) if testbed.on_this_machine(host) else ():
            why = without_files(folder)
            yield line(
                "files",
                not why,
                f"host {host}: {call} takes its files from {folder}, {why or 'which has some'}",
                "name a folder with files: dir=FOLDER",
            )


def _without(testbed: Testbed, host: str, protocol: str) -> str | None:
    """Why the host cannot have the protocol; None: it has it, or only a trial can tell."""
    if protocol == "vsock":
        capabilities = testbed.sessions[host].hello["capabilities"]
        (found,) = [each for each in capabilities if each["name"] == "transport.vsock"] or [
            {"available": True}
        ]
        return None if found["available"] else found["reason"] or "the kernel has no vsock"
    if protocol == "sctp" and testbed.on_this_machine(host):
        # As the agent does, which has the kernel load its module, where there is one.
        try:
            socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_SCTP).close()
        except OSError as problem:
            return f"the kernel has no SCTP: {problem.strerror}"
    return None


def without_files(folder: str) -> str:
    """Why a folder has no file to send; empty: there is one that can be read and holds something, in it or below it.

    As the agent looks for them (`agent/load/src/script/files.rs`), which opens them.
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


def _flowops(testbed: Testbed, host: str, settings: Settings) -> Iterator[dict[str, Any]]:
    """Every flowop that the host is told at some point."""
    workload = testbed.experiment.workload
    assert workload.script is not None
    names = {variable.name for variable in workload.script.variables()}
    distinct = {tuple(point.get(name) for name in sorted(names)): point for point in settings}
    role = "send" if host in workload.senders else "receive"
    for point in distinct.values():
        script = script_of(testbed.experiment, role, point, host)
        for group in script["groups"] if script else ():
            for transaction in group["transactions"]:
                yield from transaction["operations"]
