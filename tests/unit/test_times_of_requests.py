"""How long requests take: told where that is what the experiment names first, and what is decided goes before what is not."""

from __future__ import annotations

from dataclasses import replace

import made_summary

from iodyno.analysis.factors import FactorLevels
from iodyno.report.answer import answer
from iodyno.report.sentences import sentences

P50 = "latency_p50_ns"


def campaign(*asked: str, held_us: float = 200.0) -> made_summary.CampaignSummary:
    """Requests at two blanking times, of which the longer holds an answer back, and over two transports that take as long."""
    made = made_summary.summary()
    points = tuple(
        replace(
            made.points[0],
            id=f"{transport}{blanking}",
            levels={"transport": transport, "server.blanking": blanking},
            labels={"transport": transport, "server.blanking": f"{blanking}us"},
            outcomes={
                **made.points[0].outcomes,
                "operations_per_s": made_summary.around(1000, "1/s"),
                P50: made_summary.around(1000 * (held_us if blanking else 50), "ns"),
                "sut.cpu_ns_per_operation": made_summary.around(9000, "ns/operation"),
                "clients.cpu_ns_per_operation": made_summary.around(9000, "ns/operation"),
            },
        )
        for transport in ("udp", "tcp")
        for blanking in (0, 100)
    )
    factors = (
        FactorLevels("transport", ("udp", "tcp"), (), "", False),
        FactorLevels("server.blanking", (0, 100), (), "", True),
    )
    labels = {"transport": ("udp", "tcp"), "server.blanking": ("0us", "100us")}
    workload = {**made.workload, "kind": "request_response"}
    return replace(made, workload=workload, points=points, factors=factors, factor_labels=labels, asked=asked)


def first(made: made_summary.CampaignSummary) -> list[str]:
    return [sentence.text for sentence in answer(made, sentences(made), ()).first]


def test_the_time_of_a_request_is_told_where_it_is_asked_for_first() -> None:
    told = first(campaign(P50, "operations_per_s"))
    assert told[0] == (
        "The median latency of a request is 50.0 [48.5, 51.5] us at the least (server.blanking 0us, transport udp) and"
        " 200.0 [194.0, 206.0] us at the most (server.blanking 100us, transport tcp): a factor of 4.00 [3.77, 4.25]."
    )
    assert not [text for text in first(campaign("operations_per_s", P50)) if "latency" in text]


def test_a_change_that_is_decided_goes_before_one_that_is_not() -> None:
    told = first(campaign(P50))
    assert any("server.blanking 0us to 100us" in text and "rises at both" in text for text in told), told
    assert not any("may rise or fall" in text for text in told), told
    # Without one, what is undecided is said.
    assert any("may rise or fall" in text for text in first(campaign(P50, held_us=50.0)))
