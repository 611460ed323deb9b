"""Personalities of Filebench on the real agent, each scaled small: which run, and the one error of those that do not."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.storage_agent import carried_out
from iodyno.core.errors import IodynoError
from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.files.campaign.jobs import files_of
from iodyno.loads.files.core.values import FilesText, Literal, Reference, SetVariable
from iodyno.loads.files.wml import read_personality
from iodyno.loads.files.wml.experiment import CLIENT, experiment_keys

Rows = list[dict[str, object]]

SECONDS = 1.0
"""chosen: enough for every flowop that is not held back by a rate."""
MOST_ENTRIES = 300
MOST_BYTES = 4 << 20
MOST_THREADS = 20
"""chosen: forty-seven filesets in some minutes, on any disk."""


async def run(pairs: int, folder: str | None = None) -> Rows:
    """Personalities of Filebench (--folder, its workloads) on the real agent, filesets scaled small: ok, or the one error."""
    del pairs
    if folder is None or not (files := sorted(Path(folder).glob("*.f"))):
        raise SystemExit(
            f"personalities: SKIPPED, nothing was run: found no *.f in {folder or 'no folder'}; "
            "--folder PATH names the workloads of a copy of Filebench (github.com/filebench/filebench)"
        )
    rows = [_row(file) for file in files]
    done = sum(row["result"] == "ok" for row in rows)
    rows.append(_line(f"{done} of {len(files)} run", "", {}))
    return rows


def _row(file: Path) -> dict[str, object]:
    # tmpfs has no O_DIRECT on older kernels, and no disk below it.
    where = tempfile.mkdtemp(dir="/var/tmp")
    try:
        experiment = _experiment(file, where)
        result = carried_out(_load(experiment), SECONDS)
    except (IodynoError, RuntimeError) as error:
        return _line(file.name, str(error), {})
    finally:
        shutil.rmtree(where)
    return _line(file.name, "ok", result["files"])


def _line(name: str, result: str, account: Mapping[str, Any]) -> dict[str, object]:
    flowops = account.get("flowops", ())
    return {
        "personality": name,
        "result": result,
        "threads": account.get("threads", ""),
        "operations": sum(flowop["operations"] for flowop in flowops) if account else "",
        "failed": sum(flowop["errors"] for flowop in flowops) if account else "",
        "never_done": " ".join(flowop["name"] for flowop in flowops if not flowop["operations"]),
        "ended": account.get("end", ""),
        "by": account.get("ended_by") or "",
    }


def _experiment(file: Path, where: str) -> Experiment:
    """What `iodyno run FILE --target DIR` makes of it. Raises ExperimentError."""
    personality = read_personality(file)
    set_ = {s.name: s.value for s in personality.statements if isinstance(s, SetVariable)}
    counted = (
        statement.attributes.get(attribute)
        for statement in personality.statements
        if isinstance(statement, FilesText)
        for attribute in ("entries", "leafdirs")
    )
    # As a person would make it small: by its variable, which other parts of it may use too.
    given = {
        entries.name: MOST_ENTRIES
        for entries in counted
        if isinstance(entries, Reference)
        and isinstance(value := set_.get(entries.name), Literal)
        and isinstance(value.value, int)
        and value.value > MOST_ENTRIES
    }
    keys, _ = experiment_keys(personality, given, {}, target=where, seconds=SECONDS)
    return parse_experiment(experiment_text(keys), file=str(file), environment={})


def _load(experiment: Experiment) -> dict[str, Any]:
    """The agent's load, with filesets, threads and working sets made small; everything else is as it was written."""
    workload = experiment.workload
    settings = dict(workload.settings)
    told = files_of(workload, CLIENT, settings, 1)
    for files in told["files"]["filesets"]:
        files["entries"] = min(files["entries"], MOST_ENTRIES)
        files["leaf_dirs"] = min(files["leaf_dirs"], MOST_ENTRIES)
        if isinstance(files["size_bytes"], int):
            files["size_bytes"] = min(files["size_bytes"], MOST_BYTES)
    for process in told["files"]["processes"]:
        for thread in process["threads"]:
            thread["instances"] = min(thread["instances"], MOST_THREADS)
    return told
