"""The line that a trial leaves on stderr: where it was, and the goodput that the report will have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from places import experiment

from iodyno import designs
from iodyno.cli.progress import PlainWatcher
from iodyno.core.factor import Factor
from iodyno.loads.script.core.values import Script

SECOND = 10**9


def line(
    capsys: pytest.CaptureFixture[str],
    got: dict[str, tuple[int, int]],
    *,
    kind: str = "stream",
    factors: tuple[Factor, ...] = (),
    **settings: Any,
) -> str:
    """What is said of a trial whose hosts count so many bytes and operations in each of two seconds."""
    made = experiment(factors=factors, **settings)
    made = replace(made, workload=replace(made.workload, kind=kind))
    design = designs.plan(made)
    watcher = PlainWatcher(made, design)
    planned = design.trials[0]
    watcher.on_trial_start(planned, 1)
    for second in range(2):
        times = {"window": "measured", "begin_ns": second * SECOND, "end_ns": (second + 1) * SECOND}
        for host, (moved, operations) in got.items():
            watcher.on_progress(host, {**times, "bytes": moved, "operations": operations})
    watcher.on_trial_end(planned, {"reason": None, "warnings": []})
    return capsys.readouterr().err.strip()


@pytest.mark.parametrize("kind", ["request_response", "connect_request_response"])
def test_the_rate_of_requests_is_that_of_exchanges(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    both = {"client": (512_000, 1000), "server": (512_000, 1000)}
    assert line(capsys, both, kind=kind, size=512, response_size=1024).endswith(": 1000 exchanges/s")


@pytest.mark.parametrize(
    ("direction", "said"), [("forward", "8.00 Mbit/s"), ("reverse", "4.00 Mbit/s"), ("both", "12.00 Mbit/s")]
)
def test_goodput_of_a_stream_is_what_the_ends_that_receive_got(
    capsys: pytest.CaptureFixture[str], direction: str, said: str
) -> None:
    ends = {"client": (500_000, 10), "server": (1_000_000, 10)}
    assert line(capsys, ends, direction=direction).endswith(said)


def end_of_a_script(call: str, moved: int, lasted_ms: int, role: str) -> dict[str, Any]:
    """What a manifest has of an end: one transaction of one operation."""
    begun_ns = 7 * SECOND
    end_ns = begun_ns + lasted_ms * 10**6
    one = {
        "begin_ns": begun_ns,
        "end_ns": end_ns,
        "iterations": 1,
        "operations": [{"call": call, "bytes": moved}],
    }
    script = {"groups": [{"threads": 1, "transactions": [one]}]}
    return {"role": role, "result": {"start_ns": begun_ns, "script": script}}


def test_of_a_script_the_line_tells_what_its_ends_got_in_the_time_in_which_it_ran(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The end that follows the profile reads datagrams for half a second, and a tenth of them comes."""
    made = experiment(factors=())
    made = replace(made, workload=replace(made.workload, kind="script", script=Script("reads", ())))
    design = designs.plan(made)
    watcher = PlainWatcher(made, design)
    watcher.on_trial_start(design.trials[0], 1)
    for host, moved in (("server", 10_000_000), ("client", 1_000_000)):
        times = {"window": "measured", "begin_ns": 0, "end_ns": SECOND}
        watcher.on_progress(host, {**times, "bytes": moved, "operations": 10})
    assert watcher._rate == "8.00 Mbit/s"
    hosts = {
        "client": end_of_a_script("read", 1_000_000, 500, "send"),
        "server": end_of_a_script("write", 10_000_000, 500, "receive"),
    }
    watcher.on_trial_end(design.trials[0], {"reason": None, "warnings": [], "hosts": hosts})
    assert capsys.readouterr().err.strip() == "trial 1 of 1: 16.00 Mbit/s"


def test_a_trial_is_named_by_its_levels_and_by_nothing_where_none_varies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ends = {"client": (1_000_000, 10), "server": (1_000_000, 10)}
    assert line(capsys, ends) == "trial 1 of 1: 8.00 Mbit/s"
    varied = line(capsys, ends, factors=(Factor("connections", (2,)),))
    assert varied == "trial 1 of 1: connections 2: 8.00 Mbit/s"
