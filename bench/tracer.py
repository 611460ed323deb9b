"""bpftrace, as a meter that is not ours."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

_MOUNTED = (
    "for tree in debug:debugfs tracing:tracefs; do mount -t ${tree#*:} none /sys/kernel/${tree%:*} 2>/dev/null; "
    'done; exec bpftrace "$@"'
)
"""In a mount namespace of its own: bpftrace wants the kernel's tracing tree mounted."""
_KEYS = 200_000
"""Room in each of a program's maps."""
_ENDS_WITHIN_S = 60
"""Of a program that is told to end. chosen: ten times what it takes to print full maps on a busy machine."""


@contextmanager
def bpftrace(program: str) -> Iterator[list[str]]:
    """Has a program run meanwhile. The list holds the lines that it says at its end, from then on.

    Raises RuntimeError when it could not begin, with its words, or did not end; without bpftrace the bench ends.
    """
    if shutil.which("bpftrace") is None:
        raise SystemExit("bench: bpftrace is not installed; `make bench` installs what is compared with")
    command = ["unshare", "--mount", "sh", "-c", _MOUNTED, "sh", "-e", program]
    environment = {**os.environ, "BPFTRACE_MAP_KEYS_MAX": str(_KEYS)}
    said: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as tracer:
        assert tracer.stdout is not None
        try:
            first = tracer.stdout.readline()  # "Attaching ...": it compiles first
            if not first.startswith("Attaching"):
                raise RuntimeError(f"bpftrace: {tracer.communicate(timeout=20)[1].strip()}")
            time.sleep(1.0)
            yield said
        finally:
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)
                try:
                    said += tracer.communicate(timeout=_ENDS_WITHIN_S)[0].splitlines()
                except subprocess.TimeoutExpired:
                    # It has been seen to take no notice of the signal; the bench must not wait for it for ever.
                    tracer.kill()
                    raise RuntimeError(
                        "bpftrace did not end when it was told to; call the bench again"
                    ) from None
