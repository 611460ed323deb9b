"""The `iodyno` command, also as `python -m iodyno`: from its first import to the end of Python, Ctrl-C is no accident."""

from __future__ import annotations

import os
import sys

from iodyno.cli.interrupts import interrupt_once, no_more_interrupts

STOPPED = 130
"""128 + SIGINT, as `iodyno.core.errors.Interrupted` has it, which is not imported yet."""


def main() -> None:
    """Runs the command and leaves with its exit code."""
    # Matrices are small here: threads that look for parts of them take CPU time from what is measured, and end no sooner.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    interrupt_once()
    try:
        # Imported here: it takes longer than somebody needs who has second thoughts.
        from iodyno.cli.main import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    finally:
        no_more_interrupts()


if __name__ == "__main__":
    main()
