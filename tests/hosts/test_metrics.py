"""Metrics of other programs beside a load between two namespaces: read, stored, shown with their source, and evidence."""

from __future__ import annotations

import http.server
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command_server
import pytest
from places import HUNG_S, done_or_void

from iodyno.analysis.frames import CampaignFrames
from iodyno.store.writer import write_document

RATE = 1e6
EXPERIMENT = """
name: beside
hosts: {client: {access: netns}, server: {access: netns}}
workload: {kind: stream, sender: client, receiver: server, size: 64KiB, think: 1ms}
design: {replicates: 1}
windows: {warm_up: 200ms, measured: 1s, drain: 100ms, interval: 100ms}
limits: {background: 1, background_window: 100ms}
profile: off
outcomes: [goodput_bits_per_s, array.written]
metrics:
  array:
    prometheus: ADDRESS/metrics
    every: 100ms
    values:
      written: {name: written_total, labels: {volume: v1}, kind: counter, unit: B}
      busy: {full: 0.9}
      gone: {}
  own:
    command: [sh, -c, "touch MARK; echo up 1"]
    every: 500ms
    timeout: 10s
    values: {up: {}}
  adapter:
    nic: server
    every: 500ms
    timeout: 10s
    values:
      drops: {name: rx_drops}
      dropped: {name: rx_drops, labels: {queue: 0-1}}
      passed: {name: rx_queue_0_xdp_packets}
      packets: {name: rx_packets}
"""


@pytest.fixture
def address() -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            written = time.monotonic() * RATE
            body = f'written_total{{volume="v1"}} {written}\nwritten_total{{volume="v2"}} 1\nbusy 0.97\n'
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def iodyno(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*command_server.iodyno(), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, cwd=cwd)


def test_metrics_stand_beside_a_load_with_their_source(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, file = tmp_path / "mark", tmp_path / "beside.yaml"
    file.write_text(EXPERIMENT.replace("ADDRESS", address).replace("MARK", str(mark)))
    refused = iodyno("run", file, "--into", tmp_path / "c", cwd=tmp_path)
    assert refused.returncode == 3 and "IODYNO_EXEC=sh" in refused.stderr and not mark.exists()
    monkeypatch.setenv("IODYNO_EXEC", "sh")
    ran = iodyno("run", file, "--into", tmp_path / "c", cwd=tmp_path)
    assert done_or_void(ran), ran.stderr
    (campaign,) = (each for each in (tmp_path / "c").iterdir() if list(each.glob("trials/*")))
    assert mark.exists()

    # Whoever gets a campaign runs nothing by looking at it.
    mark.unlink()
    monkeypatch.delenv("IODYNO_EXEC")
    shown = iodyno("report", campaign, cwd=tmp_path)
    told: Any = json.loads(iodyno("report", campaign, "--json", cwd=tmp_path).stdout)
    assert not mark.exists()

    (point,) = told["points"]
    written = point["outcomes"]["array.written"]
    assert written["low"] <= RATE <= written["high"] and written["unit"] == "B/s"
    assert (
        point["outcomes"]["array.busy"]["estimate"] == 0.97 and point["outcomes"]["own.up"]["estimate"] == 1
    )
    # Of a veth pair: names of its driver, one in common and one of its own; it counts no packets of its queues.
    assert (
        point["outcomes"]["adapter.drops"]["estimate"] == point["outcomes"]["adapter.passed"]["estimate"] == 0
    )
    assert point["outcomes"]["adapter.drops"]["unit"] == "1/s"
    assert point["outcomes"]["adapter.dropped_0"]["estimate"] == 0
    assert "none of rx_queue_#_drops of the queue 1" in point["outcomes"]["adapter.dropped_1"]["missing"]
    assert "the driver veth tells no rx_packets" in point["outcomes"]["adapter.packets"]["missing"]
    gone = point["outcomes"]["array.gone"]
    assert gone["estimate"] is None and "gone is not on the page" in gone["missing"]
    assert "array.gone: " in shown.stderr + shown.stdout and "written" in shown.stdout
    (suspect,) = (one for one in point["limiter"]["ranked"] if one["name"] == "array.outside_resource")
    (evidence,) = suspect["evidence"]
    # A busy machine may not have read it in every interval.
    assert suspect["held"] > 0.5 and evidence["source"] == f"prometheus {address}/metrics"
    page = (campaign / "report.html").read_text()
    assert f"array.busy (prometheus {address}/metrics)" in page and "each value of a time known to" in page
    values = CampaignFrames(campaign).metrics.filter("metric = 'busy'").fetchall()
    assert len(values) >= 5

    # One that the experiment does not name is an error.
    header = json.loads((campaign / "campaign.json").read_text())
    del header["sha256"], header["experiment"]["metrics"]["own"]
    write_document(campaign / "campaign.json", header)
    refused = iodyno("report", campaign, cwd=tmp_path)
    assert (
        refused.returncode == 6
        and "holds the metric own.up, which the experiment does not name" in refused.stderr
    )
