"""Runs the agent's trace of the block layer on this machine."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from iodyno.core.errors import AccessError, TrialError
from iodyno.session.locate import program_path

_UNAVAILABLE = 69
_ENDS_WITHIN_S = 5.0


@dataclass(frozen=True)
class Traced:
    """Operations of a trace: those printed, and those that could not be, as the ring was full, they had begun before, or their
    end was not seen: the kernel told none, or they had not ended.
    """

    operations: int
    no_room: int
    begun_before: int
    unseen: int


def trace_block(
    out: IO[bytes], *, seconds: float | None = None, device: str | None = None, least_us: int = 0
) -> Traced:
    """Prints every operation of the block devices of this machine to `out`, in iosnoop's columns, until Ctrl-C or for so long.

    Ctrl-C is the usual end and no error. Raises AccessError where the kernel takes no programs, TrialError for a defect.
    """
    words: list[str | Path] = [program_path(), "trace-block", f"--least={least_us}"]
    words += [f"--seconds={seconds}"] if seconds is not None else []
    words += [f"--device={device}"] if device is not None else []
    # A session of its own: Ctrl-C is ours, and the end of its stdin tells it to print what is left.
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stdin is not None and process.stderr is not None
    try:
        process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        process.stdin.close()
        try:
            process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    said = process.stderr.read().decode(errors="replace").splitlines()
    process.stderr.close()
    if process.returncode == _UNAVAILABLE:
        raise AccessError(
            f"the block layer cannot be traced: {json.loads(said[-1])['error']}",
            where="this machine",
            advice="run as root of a machine whose kernel has BPF and its type information (/sys/kernel/btf/vmlinux)",
        )
    if process.returncode != 0 or not said:
        raise TrialError(
            f"the trace ended with {process.returncode}: {said[-1] if said else 'nothing was said'}",
            advice="look whether there is room for the trace",
            code="trace",
        )
    return Traced(**json.loads(said[-1]))
