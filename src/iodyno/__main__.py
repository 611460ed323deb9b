"""The `iodyno` command, also as `python -m iodyno`: from its first import to the end of Python, Ctrl-C is no accident."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys

from iodyno.cli.interrupts import interrupt_once, no_more_interrupts

STOPPED = 130
"""128 + SIGINT, as `iodyno.core.errors.Interrupted` has it, which is not imported yet."""


def run() -> int:
    """Runs the command; its exit code."""
    # Matrices are small here: threads that look for parts of them take CPU time from what is measured, and end no sooner.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    interrupt_once()
    try:
        # Imported here: it takes longer than somebody needs who has second thoughts.
        from iodyno.cli.main import main as command

        command()
    except KeyboardInterrupt:
        return STOPPED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        no_more_interrupts()
    return 0


def main() -> None:
    """Runs the command and ends the process with its exit code, without the 50 ms in which Python takes its modules apart."""
    code = run()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
