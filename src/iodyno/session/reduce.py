"""Runs the reducer on traces: any size and form in, a grid of counts out.

The trace never passes through this process: the reducer opens the files itself, or takes standard input over; on workers,
one for each trace (tools/heat/src/parts.rs). This module is imported by a command that answers at once, so it imports little.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

from iodyno.cluster import Each
from iodyno.core.errors import ExperimentError, Interrupted, TrialError
from iodyno.core.grid import Grid
from iodyno.session.locate import HEAT, program_path

Progress = Callable[[int, int | None], None]
"""Told the bytes that were read, and how many there are over both passes, or None where nobody knows."""

_BROKEN = 65
"""The exit code of a trace that broke off; what could be read was printed (tools/heat/src/main.rs)."""
_WRONG = 2
_STOPPED = 130
_ENDS_WITHIN_S = 5.0
"""Time for the reducer to end when it is told to. Chosen: it looks between chunks, a millisecond each."""


def reduce(
    paths: Sequence[str | Path],
    *,
    form: str | None = None,
    time_unit: str | None = None,
    value_unit: str | None = None,
    time_column: str | None = None,
    value_column: str | None = None,
    quantity: str | None = None,
    at: str | None = None,
    operation: str | None = None,
    process: str | None = None,
    device: str | None = None,
    column_ns: int | None = None,
    max_columns: int | None = None,
    low: str | float | None = None,
    high: str | float | None = None,
    high_quantile: float | None = None,
    rows: int | None = None,
    row_step: str | float | None = None,
    scale: str | None = None,
    begin: str | float | None = None,
    end: str | float | None = None,
    sub_second: bool = False,
    strict: bool = False,
    truncated: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
    each: Each | None = None,
) -> Grid:
    """The grid of the traces at `paths`; "-" or none is standard input. `each`: of workers that read one trace at a time.

    `low`, `high` and `row_step` are in the unit of values, or carry one ("2ms"). `begin` and `end` are seconds after the
    first event, or with "@" before them on the trace's own clock. What is None is found from the trace.

    Errors: ExperimentError where a trace or an option is wrong, and where a trace breaks off without `truncated`;
    Interrupted; AccessError without the reducer; TrialError where the reducer has a defect.
    """
    command = ["--errors-as-json"]
    options: dict[str, object] = {
        "--format": form,
        "--time-unit": time_unit,
        "--value-unit": value_unit,
        "--time-column": time_column,
        "--value-column": value_column,
        "--quantity": quantity,
        "--at": at,
        "--operation": operation,
        "--process": process,
        "--device": device,
        "--column": None if column_ns is None else f"{column_ns}ns",
        "--max-columns": max_columns,
        "--min": low,
        "--max": high,
        "--max-quantile": high_quantile,
        "--rows": rows,
        "--row-step": row_step,
        "--scale": scale,
        "--from": begin,
        "--to": end,
        "--threads": threads,
    }
    # One word each, so that a value with a dash at its front is no option.
    command += [f"{name}={value}" for name, value in options.items() if value is not None]
    flags = {"--sub-second": sub_second, "--strict": strict, "--truncated": truncated, "--progress": progress}
    command += [name for name, wanted in flags.items() if wanted]
    if each is None:
        printed = _run([*command, *_named(paths)], progress)
    else:
        printed = _in_parts([*([] if threads else ["--threads=1"]), *command], paths, each)
    return Grid.from_json(json.loads(printed))


def _in_parts(command: Sequence[str], paths: Sequence[str | Path], each: Each) -> bytes:
    """The same grid, each trace by a reducer of its own: surveyed for columns and rows that fit all of them, then counted."""
    words, numbers = [*command, *_named(paths)], range(len(paths))
    surveys = each(partial(_of_one, words, "survey", b""), numbers)
    frame = _run(["--step=frame", *words], given=surveys)
    counts = each(partial(_of_one, words, "count", frame), numbers)
    return _run(["--step=join", *words], given=chain([frame], counts))


def _of_one(words: Sequence[str], step: str, given: bytes, number: int) -> bytes:
    return _run([f"--step={step}", f"--trace={number}", *words], given=[given])


def list_region(
    paths: Sequence[str | Path],
    region: str,
    *,
    out: IO[bytes] | None = None,
    limit: int | None = None,
    form: str | None = None,
    time_unit: str | None = None,
    value_unit: str | None = None,
    time_column: str | None = None,
    value_column: str | None = None,
    quantity: str | None = None,
    at: str | None = None,
    operation: str | None = None,
    process: str | None = None,
    device: str | None = None,
    begin: str | float | None = None,
    end: str | float | None = None,
) -> str | None:
    """Prints the lines of a trace whose value lies in `region` ("LOW" or "LOW:HIGH") to `out`, or to standard output.

    Returns what was left out, in words, or None. Errors: as `reduce`.
    """
    options: dict[str, object] = {
        "--outliers": region,
        "--limit": limit,
        "--format": form,
        "--time-unit": time_unit,
        "--value-unit": value_unit,
        "--time-column": time_column,
        "--value-column": value_column,
        "--quantity": quantity,
        "--at": at,
        "--operation": operation,
        "--process": process,
        "--device": device,
        "--from": begin,
        "--to": end,
    }
    command = [
        "--errors-as-json",
        *(f"{name}={value}" for name, value in options.items() if value is not None),
    ]
    process_ = subprocess.Popen(
        [program_path(HEAT), *command, *_named(paths)], stdout=out, stderr=subprocess.PIPE
    )
    said = _ended(process_, process_.stderr)
    if process_.returncode != 0:
        raise _error(process_.returncode, said)
    return said[-1] if said else None


def _named(paths: Sequence[str | Path]) -> list[str]:
    return ["--", *(str(path) for path in paths)] if paths else ["--", "-"]


def _run(
    arguments: Sequence[str],
    progress: Progress | None = None,
    *,
    given: Iterable[bytes] | None = None,
) -> bytes:
    process = subprocess.Popen(
        [program_path(HEAT), *arguments],
        stdin=None if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said: list[str] = []
    reader = threading.Thread(target=_listen, args=(process.stderr, said, progress), daemon=True)
    reader.start()
    assert process.stdout is not None
    with process.stdout as stdout:
        try:
            if process.stdin is not None and given is not None:
                _write(process.stdin, given)
            printed = stdout.read()
            process.wait()
        except KeyboardInterrupt:
            _end(process)
            raise Interrupted("stopped") from None
        except BaseException:
            _end(process)
            raise
    reader.join()
    if process.stderr is not None:
        process.stderr.close()
    if process.returncode != 0:
        raise _error(process.returncode, said)
    return printed


def _write(stdin: IO[bytes], given: Iterable[bytes]) -> None:
    """Hands what is given over; a reducer that has ended before says why."""
    with contextlib.suppress(BrokenPipeError), stdin:
        for part in given:
            stdin.write(part)
            stdin.flush()


def _ended(process: subprocess.Popen[bytes], stderr: IO[bytes] | None) -> list[str]:
    assert stderr is not None
    try:
        said = stderr.read().decode(errors="replace").splitlines()
        process.wait()
    except BaseException as error:
        _end(process)
        if isinstance(error, KeyboardInterrupt):
            raise Interrupted("stopped") from None
        raise
    finally:
        stderr.close()
    return said


def _listen(stderr: IO[bytes], said: list[str], progress: Progress | None) -> None:
    for line in stderr:
        text = line.decode(errors="replace").rstrip("\n")
        if progress is not None and text.startswith('{"done_bytes"'):
            at = json.loads(text)
            progress(at["done_bytes"], at["total_bytes"])
        else:
            said.append(text)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _error(code: int, said: Sequence[str]) -> ExperimentError | Interrupted | TrialError:
    last = next((line for line in reversed(said) if line.startswith("{")), None)
    if code in (_WRONG, _BROKEN):
        if last is not None:
            error = json.loads(last)
            return ExperimentError(error["what"], where=error["where"], advice=error["advice"])
        # A word of the command line that the reducer does not take: it says so in its own form.
        text = next((line for line in said if line.startswith("error: ")), "error: the reducer refused")
        return ExperimentError(text.removeprefix("error: "), advice="iodyno heatmap --help")
    if code in (_STOPPED, -2):
        return Interrupted("stopped")
    return TrialError(
        f"the reducer ended with {code}: {said[-1] if said else 'nothing was said'}",
        advice="this is a defect of iodyno; please report it with the command",
        code="reducer",
    )
