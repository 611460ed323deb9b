"""What became of datagrams on their way is told beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from iodyno.analysis import datagrams
from iodyno.analysis.host_data import HostData
from iodyno.analysis.interval import NOT_NEGATIVE, estimate
from iodyno.analysis.measured import Measured
from iodyno.analysis.readings import Reading
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.core.outcome import Estimate
from iodyno.core.warnings import WarningCode

CODES = (WarningCode.DATAGRAMS_LOST, WarningCode.DATAGRAMS_DISORDERED)


def trial(workload: str, end: str, **counts: int) -> Trial:
    """100 datagrams came, and what `counts` says of them was seen by that end."""
    hosts = {}
    for name, role in (("client", "send"), ("server", "receive")):
        job: dict[str, Any] = {"transport": "udp", "workload": workload}
        host = hosts[name] = HostData(name, role, (0,), {"job": job})
        host.records.append(Record(0, "measured", 0, 10**9, 10_000, 100, 1, 0))
        told = {"received": 100, "lost": 0, "duplicates": 0, "reordered": 0} | (counts if name == end else {})
        values = {(f"datagram.{metric}", ""): count for metric, count in told.items()}
        host.readings["datagram"] = {0: Reading(10**9, 0, None, values)}
    return Trial("00000-1", 0, 1, 0, 0, "p01", {}, {}, "finished", None, "", {}, hosts=hosts)


@pytest.mark.parametrize(
    ("workload", "end", "counts", "said"),
    [
        ("stream", "server", {}, []),
        (
            "stream",
            "server",
            {"duplicates": 7, "reordered": 3},
            ["7 came twice and 3 came after a later one"],
        ),
        (
            "stream",
            "server",
            {"reordered": 3},
            ["of 100 datagrams that were received 3 came after a later one"],
        ),
        ("request_response", "client", {"duplicates": 7}, ["7 came twice"]),
        ("stream", "server", {"lost": 5, "duplicates": 1}, ["5 of 105 datagrams were lost", "1 came twice"]),
    ],
)
def test_losses_repeats_and_another_order_are_said(
    workload: str, end: str, counts: dict[str, int], said: list[str]
) -> None:
    warnings = [
        warning for warning in datagrams.check(trial(workload, end, **counts)) if warning.code in CODES
    ]
    assert len(warnings) == len(said)
    for warning, text in zip(warnings, said, strict=True):
        assert text in warning.text and warning.where == "00000-1"


@pytest.mark.parametrize("outcome", [datagrams.server_polls_per_s, datagrams.server_wakeups_per_s])
def test_of_waits_that_nobody_counted_there_is_an_upper_bound(outcome: Callable[[Trial], Measured]) -> None:
    """None in two trials of a second each: up to ln 20 / 2 s may be (rule of three); 13 in each are known to within one."""

    def of(count: int) -> Estimate:
        made = trial("request_response", "client")
        values = {("server.polls", ""): count, ("server.wakeups", ""): count}
        made.hosts["server"].readings["server"] = {0: Reading(10**9, 0, None, values)}
        return estimate([outcome(made)] * 2, "1/s", possible=NOT_NEGATIVE)

    none, some = of(0), of(13)
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(math.log(20) / 2)
    assert some.estimate == 13 and some.reach == pytest.approx(1.96 / math.sqrt(6))
