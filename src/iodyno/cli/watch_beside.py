"""The live page beside a campaign that runs: `iodyno watch` as a process of its own, so that it costs the lab nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.05
_LEAVING_S = 5.0


@contextmanager
def page_beside(folder: Path) -> Iterator[None]:
    """Has the campaign in `folder` watched until the end of the block, from when it has begun.

    The watcher says the page's address on stderr, and ends with the campaign.
    """
    stop = threading.Event()
    started: list[subprocess.Popen[bytes]] = []
    thread = threading.Thread(target=_start_when_begun, args=(folder, stop, started), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        for watcher in started:
            try:
                watcher.wait(_LEAVING_S)
            except subprocess.TimeoutExpired:
                watcher.terminate()
                watcher.wait()


def _start_when_begun(folder: Path, stop: threading.Event, started: list[subprocess.Popen[bytes]]) -> None:
    from iodyno.store.schema import CAMPAIGN

    while not (folder / CAMPAIGN).is_file():
        if stop.wait(_POLL_S):
            return
    program = "from iodyno.cli.main import main; main()"
    command = [sys.executable, "-c", program, "watch", str(folder), "--until-end"]
    started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
