"""Files that are made, asked for, renamed and removed, beside fio's engines that do the same."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
from typing import Any

from bench.ratio import paired
from bench.storage_agent import carried_out
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.disk.fio.file_engines import WholeFiles
from iodyno.loads.files.campaign.jobs import files_of
from iodyno.loads.files.wml.experiment import CLIENT

Rows = list[dict[str, object]]

_FILES = 1000
_THREADS = (1, 8)
_MOST_S = 30.0
_RENAME = "flowop renamefile name=rename,filesetname=files"


async def run(pairs: int) -> Rows:
    """Files made, asked for, renamed and removed a second, in one directory; ratios to fio's engines (it has no rename)."""
    if shutil.which("fio") is None:
        raise SystemExit("fio is not there: apt-get install fio")
    return [
        _row(engine, threads, pairs)
        for engine in ("filecreate", "filestat", "filedelete", "rename")
        for threads in _THREADS
    ]


def _row(engine: str, threads: int, pairs: int) -> dict[str, object]:
    ours, theirs = [], []
    for number in range(pairs):
        sides = [lambda: ours.append(_by_agent(engine, threads))]
        if engine != "rename":
            sides.append(lambda: theirs.append(_by_fio(engine, threads)))
        # In turn first, so that neither always finds the directory as the other left the disk.
        for side in sides if number % 2 else reversed(sides):
            side()
    ratio = "{:.2f} ({:.2f} to {:.2f})".format(*paired(ours, theirs)) if theirs else "none"
    return {
        "operation": engine.removeprefix("file"),
        "threads": threads,
        "k_per_s": round(statistics.median(ours) / 1e3, 1),
        "fio_k_per_s": round(statistics.median(theirs) / 1e3, 1) if theirs else "",
        "ratio": ratio,
    }


def _by_agent(engine: str, threads: int) -> float:
    """Operations a second, over the time in which any flowop was at work."""
    kind = "filestat" if engine == "rename" else engine
    text = WholeFiles(kind, "/", _FILES, threads, 0).personality("meta")
    if engine == "rename":
        # A tenth of the names is free, for files to be given one of them.
        text = text.replace("flowop statfile name=stat,filesetname=files", _RENAME).replace(
            "prealloc", "prealloc=90"
        )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        keys = {
            "name": "meta",
            "hosts": {CLIENT: {"access": "local"}},
            "workload": {"kind": "files", "hosts": CLIENT, "target": folder, "program": text},
        }
        workload = parse_experiment(experiment_text(keys), environment={}).workload
        settings = dict(workload.settings)
        ends = engine in ("filecreate", "filedelete")
        told: dict[str, Any] = files_of(workload, CLIENT, settings, 1)
        account = carried_out(told, _MOST_S if ends else 1.0)["files"]
    flowop = account["flowops"][0]
    if flowop["errors"]:
        raise RuntimeError(f"{engine}: {flowop['first_error']}")
    return float(flowop["operations"] / (account["elapsed_ns"] / 1e9))


def _by_fio(engine: str, threads: int) -> float:
    """Operations a second of fio's engine, each of whose jobs has files of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        words = {
            "name": "meta",
            "directory": folder,
            "ioengine": engine,
            "nrfiles": _FILES // threads,
            "numjobs": threads,
            "filesize": 4096,
            "openfiles": 1,
            "create_on_open": 1 if engine == "filecreate" else 0,
            "fallocate": "none",
            "thread": 1,
            "group_reporting": 1,
        }
        command = ["fio", "--output-format=json", *(f"--{key}={value}" for key, value in words.items())]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip() or done.stdout[-500:])
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    # What the engine does is counted as reads; its run time has a millisecond at least.
    side = job["read"] if job["read"]["total_ios"] else job["write"]
    spent_s = side["clat_ns"]["mean"] * side["total_ios"] / threads / 1e9
    return float(side["total_ios"] / max(spent_s, side["runtime"] / 1e3))
