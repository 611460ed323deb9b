"""How fast a trace becomes counts and a picture, beside trace2heatmap.pl and beside awk that only counts.

The peer is no part of this project: its path is an argument (`python -m bench heatmap --peer PATH`), and without it its
rows are skipped and say so.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.ratio import paired
from iodyno.session.locate import HEAT, program_path

LINES = 10_000_000
STORED_MOST = 20_000_000
"""Lines of a trace that is stored for the bench (chosen: 300 MB)."""
SECONDS = 120
_PIECE = 100_000
_AWK = "{ c[int($1 / 1000000), int($2 / 40)]++ } END { for (k in c) n += c[k]; print n }"
"""Counts into the same columns and rows, and draws nothing."""


@dataclass(frozen=True)
class Run:
    """One run of one program."""

    seconds: float
    """From the start of the program to its end."""
    cpu_s: float
    """CPU time of the program and of those that it started."""
    resident_bytes: int
    """The most that the program, or one that it started, had resident."""


async def run(pairs: int, *, peer: str | None = None, lines: int = LINES) -> list[dict[str, object]]:
    """Ten million lines into a grid (reduce) and a picture (heatmap; at most 0.5 s and 32 MB), beside peers in turn.

    More lines than `STORED_MOST` are made while they are read, through a pipe, and without peers: a tenth of them, then all,
    so that memory and rate are seen to stay.
    """
    if lines > STORED_MOST:
        return await asyncio.to_thread(_streamed, lines)
    return await asyncio.to_thread(_compare, pairs, peer, lines)


def _streamed(lines: int) -> list[dict[str, object]]:
    """A tenth of the lines, then all of them: the rate that stays, and the memory that does not grow.

    The rate is of the program's own CPU time: who writes into the pipe is slower than who reads from it.
    """
    print(f"  peers skipped: they keep every line, and {lines:,} are too many", file=sys.stderr)
    done = {}
    for many in (lines // 10, lines):
        with tempfile.TemporaryDirectory(prefix="iodyno-bench-") as folder:
            done[many] = _from_pipe(many, Path(folder) / "heat.svg")
    least = done[lines // 10]
    return [
        {
            "program": "iodyno heatmap, from a pipe (its writer's speed is in the seconds)",
            "lines": many,
            "seconds": f"{run.seconds:.2f}",
            "cpu_s": f"{run.cpu_s:.2f}",
            "million_events_per_cpu_s": f"{many / run.cpu_s / 1e6:.1f}",
            "rate_to_a_tenth": f"{(many / run.cpu_s) / (lines // 10 / least.cpu_s):.2f}",
            "resident_mb": f"{run.resident_bytes / 1e6:.1f}",
            "resident_to_a_tenth": f"{run.resident_bytes / least.resident_bytes:.2f}",
        }
        for many, run in done.items()
    ]


def _from_pipe(lines: int, picture: Path) -> Run:
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()", "heatmap", "-"]
    units = ["--time-unit", "us", "--value-unit", "us"]
    return _timed([*command, *units, "--max", "2000", "-o", str(picture)], pieces(lines))


def _compare(pairs: int, peer: str | None, lines: int) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="iodyno-bench-") as folder:
        trace, picture = Path(folder) / "trace.txt", Path(folder) / "heat.svg"
        write_trace(trace, lines)
        units = ["--time-unit", "us", "--value-unit", "us"]
        command = "from iodyno.cli.main import main; main()"
        ours = {
            "reduce": [str(program_path(HEAT)), str(trace), *units],
            "heatmap": [sys.executable, "-c", command, "heatmap", str(trace), *units, "--max", "2000", "-o", str(picture)],
        }  # fmt: skip
        theirs: dict[str, list[str]] = {}
        if awk := shutil.which("awk"):
            theirs["awk"] = [awk, _AWK, str(trace)]
        if peer is None:
            print("  trace2heatmap.pl skipped: --peer PATH names it", file=sys.stderr)
        else:
            options = ["--unitstime=us", "--unitslabel=us", "--maxlat=2000", "--grid"]
            theirs["trace2heatmap.pl"] = ["perl", peer, *options, str(trace)]
        done: dict[str, list[Run]] = {name: [] for name in (*ours, *theirs)}
        for number in range(pairs):
            # Turned round in every other pair, so that a drift is on either side.
            for name in list(done) if number % 2 else reversed(list(done)):
                done[name].append(_timed({**ours, **theirs}[name]))
    return [_row(name, runs, done["heatmap"], lines, name in ours) for name, runs in done.items()]


def write_trace(path: Path, lines: int, seconds: int = SECONDS) -> None:
    """Writes the made trace of `pieces` to a file."""
    with path.open("wb") as file:
        file.writelines(pieces(lines, seconds))


def pieces(lines: int, seconds: int = SECONDS) -> Iterator[bytes]:
    """A made trace of two columns in microseconds: two modes that drift towards each other, and rare outliers.

    The same in every run. Times ascend; values are 1 or more.
    """
    draw = random.Random(1)
    # A table of draws, as a draw a line would take minutes.
    near = [draw.gauss(0.0, 1.0) for _ in range(_PIECE)]
    coin = [draw.random() for _ in range(_PIECE)]
    step_us = seconds * 1e6 / lines
    for first in range(0, lines, _PIECE):
        share = first / lines
        fast, slow = 300 + 150 * share, 950 - 200 * share
        shift = draw.randrange(_PIECE)
        rows = []
        for at in range(min(_PIECE, lines - first)):
            z, which = near[at - shift], coin[at]
            value = fast + 40 * z if which < 0.6 else slow + 90 * z
            if which > 0.998:
                value *= 1 + 10 * abs(math.sin(at))
            rows.append(f"{100_000_000 + int((first + at) * step_us)} {max(1, int(value))}\n")
        yield "".join(rows).encode()


_LAUNCHER = """
import json, os, sys, time
began = time.monotonic()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, used = os.wait4(process, 0)
took = time.monotonic() - began
code = os.waitstatus_to_exitcode(status)
print(json.dumps([code, took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""
"""Starts the program from a small process: what the starting one has resident is counted as the program's own, from the
moment between fork and exec (getrusage(2))."""


def _timed(command: Sequence[str], fed: Iterable[bytes] = ()) -> Run:
    """Runs a program, with `fed` on its standard input."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(launcher, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        for piece in fed:
            process.stdin.write(piece)
        process.stdin.close()
        printed = process.stdout.read()
    code, took, cpu_s, resident_bytes = json.loads(printed)
    if code:
        raise RuntimeError(f"{command[0]} ended with {code}")
    return Run(took, cpu_s, resident_bytes)


def _row(name: str, runs: list[Run], heatmap: list[Run], lines: int, own: bool) -> dict[str, object]:
    took = statistics.median(run.seconds for run in runs)
    ratio = "{:.1f} [{:.1f}, {:.1f}]".format(*paired([r.seconds for r in runs], [r.seconds for r in heatmap]))
    return {
        "program": name if not own else f"iodyno {name}",
        "seconds": f"{took:.2f}",
        "cpu_s": f"{statistics.median(run.cpu_s for run in runs):.2f}",
        "million_events_per_s": f"{lines / took / 1e6:.1f}",
        "resident_mb": round(max(run.resident_bytes for run in runs) / 1e6),
        "times_of_iodyno_heatmap": ratio,
        "cpu_times_of_it": "{:.1f} [{:.1f}, {:.1f}]".format(
            *paired([r.cpu_s for r in runs], [r.cpu_s for r in heatmap])
        ),
    }
