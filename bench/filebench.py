"""Personalities of Filebench, scaled small, by Filebench itself and by the agent: what each does in a time, flowop by flowop."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.storage_agent import carried_out
from iodyno.core.errors import IodynoError
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.loads.files.campaign.jobs import files_of
from iodyno.loads.files.wml import read_personality
from iodyno.loads.files.wml.experiment import CLIENT, experiment_keys

Rows = list[dict[str, object]]
SECONDS = 3.0
_SMALL = {
    "nfiles": "1000",
    "nthreads": "4",
    "nshadows": "8",
    "ndbwriters": "2",
    "filesize": "64k",
    "logfilesize": "1m",
}
_FEW = 30
"""Operations below which a share says nothing."""
_LINE = re.compile(r"^(\S+)\s+(\d+)ops\s+\d+ops/s\s+([\d.]+)mb/s")


async def run(pairs: int, folder: str | None = None) -> Rows:
    """Personalities (--folder, a built tree of Filebench) by both: shares and bytes of each flowop, largest difference."""
    del pairs
    program = Path(folder or "") / "filebench"
    if folder is None or not program.is_file():
        raise SystemExit(
            "filebench: SKIPPED, nothing was run: --folder PATH names a built tree of Filebench "
            "(github.com/filebench/filebench)"
        )
    return [_row(file, program) for file in sorted((Path(folder) / "workloads").glob("*.f"))]


def _row(file: Path, program: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as temporary:
        target, small = Path(temporary) / "target", Path(temporary) / file.name
        target.mkdir()
        small.write_text(_scaled(file.read_text(encoding="utf-8"), target), encoding="utf-8")
        try:
            ours = _ours(small, target)
            shutil.rmtree(target)
            target.mkdir()
            theirs = _theirs(small, program)
        except (IodynoError, RuntimeError) as error:
            return _line(file.name, str(error).splitlines()[0][:100])
    return _compared(file.name, ours, theirs)


def _scaled(text: str, target: Path) -> str:
    text = re.sub(r"cvar\(type=cvar-gamma,parameters=mean:(\d+)[^)]*\)", r"\1", text)
    text = re.sub(r"(?m)^(\s*run)\s.*$", rf"\1 {SECONDS:.0f}", text)
    text = text.rstrip() + "\n"
    if not re.search(r"(?m)^\s*p?s?run\s", text):
        text += f"run {SECONDS:.0f}\n"
    for name, value in {**_SMALL, "dir": str(target)}.items():
        text = re.sub(rf"(?m)^set \${name}=.*$", f"set ${name}={value}", text)
    return text


def _theirs(file: Path, program: Path) -> dict[str, tuple[int, float]]:
    """Operations and bytes of each flowop, as Filebench counts them."""
    words = ["setarch", "-R", str(program), "-f", str(file)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    took = re.search(r"Run took (\d+) seconds", ran.stdout)
    seconds = float(took[1]) if took else SECONDS
    found = {
        match[1]: (int(match[2]), float(match[3]) * 2**20 * seconds)
        for line in ran.stdout.splitlines()
        if (match := _LINE.match(line))
    }
    if not found:
        said = [line for line in (ran.stdout + ran.stderr).splitlines() if "cvar directory" not in line]
        raise RuntimeError(f"Filebench: {said[-1]}")
    return found


def _ours(file: Path, target: Path) -> dict[str, tuple[int, float]]:
    keys, _ = experiment_keys(read_personality(file), {}, {}, target=str(target), seconds=SECONDS)
    workload = parse_experiment(experiment_text(keys), file=str(file), environment={}).workload
    load = files_of(workload, CLIENT, dict(workload.settings), 1)
    account: Mapping[str, Any] = carried_out(load, SECONDS)["files"]
    return {flowop["name"]: (flowop["operations"], flowop["bytes"]) for flowop in account["flowops"]}


def _compared(
    name: str, ours: Mapping[str, tuple[int, float]], theirs: Mapping[str, tuple[int, float]]
) -> dict[str, object]:
    both = [flowop for flowop in theirs if flowop in ours]
    whole = [sum(side[flowop][0] for flowop in both) or 1 for side in (ours, theirs)]
    shares, sizes = {}, {}
    for flowop in both:
        (mine, moved), (other, their_moved) = ours[flowop], theirs[flowop]
        if min(mine, other) < _FEW:
            continue
        shares[flowop] = (mine / whole[0]) / (other / whole[1])
        if moved and their_moved:
            sizes[flowop] = (moved / mine) / (their_moved / other)
    lacking = sorted(set(theirs) ^ set(ours))
    return _line(name, "ok", whole[0] / whole[1], _worst(shares), _worst(sizes), " ".join(lacking))


def _worst(ratios: Mapping[str, float]) -> str:
    if not ratios:
        return "-"
    name = max(ratios, key=lambda flowop: abs(ratios[flowop] - 1))
    return f"{ratios[name]:.2f} {name}"


def _line(
    name: str, result: str, rate: float | None = None, share: str = "", size: str = "", lacking: str = ""
) -> dict[str, object]:
    return {
        "personality": name,
        "result": result,
        "operations_ratio": "" if rate is None else f"{rate:.2f}",
        "worst_share": share,
        "worst_bytes": size,
        "only_one_has": lacking,
    }
