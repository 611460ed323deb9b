"""Open loops on real traffic: what is offered is what was asked for, and the path's delay is told from the generator's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import command_server
import pytest
from places import HUNG_S, done_or_void

pytestmark = pytest.mark.alone
EXPERIMENT = """
name: open
question: Is the rate offered, and who is late?
hosts: {{client: {{access: netns}}, server: {{access: netns}}}}
workload: {{kind: request_response, sender: client, receiver: server, {settings}}}
factors: {{{factors}}}
design: {{replicates: 1, seed: 1}}
windows: {{warm_up: 200ms, measured: 1s, drain: 200ms, interval: 125ms}}
limits: {{background: 1, background_window: 100ms}}
"""


def points(folder: Path, settings: str, factors: str) -> list[dict[str, dict[str, float | None]]]:
    """The estimates of each point, by outcome."""
    file = folder / "open.yaml"
    file.write_text(EXPERIMENT.format(settings=settings, factors=factors), encoding="utf-8")
    words = ["run", str(file), "--into", str(folder / "campaigns"), "--json"]
    command = [*command_server.iodyno(), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HUNG_S, cwd=folder)
    assert done_or_void(ran), ran.stderr
    from iodyno.analysis.dataset import read_dataset
    from iodyno.analysis.summary import analyse

    (campaign,) = (folder / "campaigns").iterdir()
    summary = analyse(read_dataset(campaign))
    return [
        {name: {"estimate": found.estimate} for name, found in point.outcomes.items()}
        for point in summary.points
        if point.finished
    ]


@pytest.mark.root
@pytest.mark.parametrize("engine", ["threads", "epoll"])
def test_a_rate_is_offered_by_every_law(engine: str, tmp_path: Path) -> None:
    settings = f"engine: {engine}, connections: 8, rate: 2000, burst_on: 5ms, burst_off: 45ms, size: 64, response_size: 64"
    found = points(tmp_path, settings, "arrivals: [constant, poisson, bursty]")
    for point in found:
        offered = point["offered_operations_per_s"]["estimate"]
        assert offered is not None
        # 2000 arrivals, of which bursty ones come in 20 cycles: 2.2 % of standard error, five of those.
        assert abs(offered / 2000 - 1) < 0.12
        response = point["latency_from_schedule_mean_ns"]["estimate"]
        service = point["latency_mean_ns"]["estimate"]
        assert response is not None and service is not None
        # It holds the service time, but for operations that straddle an end of the window.
        assert response > 0.9 * service


@pytest.mark.root
def test_what_a_slow_server_makes_wait_is_not_the_generators(tmp_path: Path) -> None:
    # One answer takes 2 ms: on one connection, 500 of 2000 a second can be answered.
    settings = "engine: epoll, connections: 1, rate: 2000, size: 64, response_size: 64, server_compute: 2ms"
    # The agent's own lateness adds up over a second of which no connection is ever free, and is no reason to void the trial.
    (point,) = points(tmp_path, settings, "arrivals: [constant]")
    achieved, offered, missed = (
        point[name]["estimate"]
        for name in ("achieved_operations_per_s", "offered_operations_per_s", "missed_arrivals_ratio")
    )
    assert achieved is not None and offered is not None and missed is not None
    assert achieved < 520
    assert offered == pytest.approx(2000, rel=0.01)
    assert missed > 0.5
    response = point["latency_from_schedule_p50_ns"]["estimate"]
    service = point["latency_p50_ns"]["estimate"]
    assert response is not None and service is not None
    assert response > 50 * service
