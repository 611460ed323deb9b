"""Connections of others to the port of the data: counted, closed, and no campaign ends of them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iodyno.cli.main import run

PORTS = 25_017, 25_018
"""No others take them: the kernel chooses higher ones."""
FILE = """name: strangers
question: Who else comes?
hosts:
  client: {access: local}
  server: {access: local, address: 127.0.0.3, data_port: PORT}
workload: {kind: connect_request_response, sender: client, receiver: server, engine: ENGINE, transport: TRANSPORT}
factors: {connections: [2]}
design: {replicates: 1}
windows: {warm_up: 100ms, measured: 3s, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms, retries: 0}
profile: off
"""


@contextlib.contextmanager
def strangers(port: int) -> Iterator[list[bool]]:
    """Connect all the time and say nothing; gives whether the port was there at another address."""
    over, elsewhere, silent = threading.Event(), [], []

    def come() -> None:
        while not over.is_set():
            for address in ("127.0.0.3", "127.0.0.1"):
                with contextlib.suppress(OSError):
                    silent.append(socket.create_connection((address, port), timeout=1))
                    if address == "127.0.0.1":
                        elsewhere.append(True)
            time.sleep(0.005)

    thread = threading.Thread(target=come)
    thread.start()
    try:
        yield elsewhere
    finally:
        over.set()
        thread.join()
        for each in silent:
            each.close()


@pytest.mark.parametrize(
    ("port", "engine", "transport"), [(PORTS[0], "threads", "tcp"), (PORTS[1], "epoll", "tls")]
)
def test_strangers_that_say_nothing_end_no_campaign(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], port: int, engine: str, transport: str
) -> None:
    file = tmp_path / "strangers.yaml"
    file.write_text(
        FILE.replace("PORT", str(port), 1).replace("ENGINE", engine).replace("TRANSPORT", transport)
    )
    with strangers(port) as elsewhere:
        code = run(["run", str(file), "--into", str(tmp_path / "into"), "--json"])
    assert code == 0, capsys.readouterr().err
    assert not elsewhere, "the port was open at an address that is not the data's"
    (folder,) = (tmp_path / "into").iterdir()
    capsys.readouterr()
    assert run(["report", str(folder), "--json"]) == 0
    said = "connections that did not show the trial's token were turned away while the load was on"
    assert said in capsys.readouterr().out
    (trial,) = (folder / "trials").iterdir()
    assert json.loads((trial / "manifest.json").read_text())["status"] == "finished"
