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


@contextmanager
def bpftrace(program: str) -> Iterator[list[str]]:
    """Has a program run meanwhile. The list holds the lines that it says at its end, from then on.

    Raises RuntimeError when it could not begin, with its words; without bpftrace the bench ends.
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
                said += tracer.communicate(timeout=60)[0].splitlines()
