"""Requests and answers: both are delivered, a request is what costs, and who answers is told of first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import made_summary
import pytest

from iodyno.analysis import goodput
from iodyno.analysis.host_data import HostData
from iodyno.analysis.records import Record
from iodyno.analysis.trial import Trial
from iodyno.report import html
from iodyno.report.answer import answer
from iodyno.report.figures import cost_by_class, cost_vs_factor, latency, rate_vs_factor
from iodyno.report.figures.panel import Figure
from iodyno.report.headline import headline
from iodyno.report.sentences import sentences
from iodyno.report.tables import source_tables

SECOND = 10**9
REQUEST, ANSWER = 512, 8192


def trial(kind: str = "request_response", asked: int = 1000, answered: int = 990) -> Trial:
    """A second, in which some answers did not come back."""
    job: dict[str, Any] = {"workload": kind, "response_bytes": ANSWER}
    ends = {
        "client": ("send", Record(1, "measured", 0, SECOND, asked * REQUEST, answered, 4, 0)),
        "server": ("receive", Record(1, "measured", 0, SECOND, asked * REQUEST, asked, 4, 0)),
    }
    hosts = {
        name: HostData(name, role, (0,), {"job": job}, [record]) for name, (role, record) in ends.items()
    }
    settings = {"size": REQUEST, "response_size": ANSWER}
    return Trial("t", 0, 1, 0, 0, "p01", {}, settings, "finished", None, "", {}, (), hosts)


@pytest.mark.parametrize("kind", ["request_response", "connect_request_response"])
def test_goodput_is_what_both_ends_got(kind: str) -> None:
    found = trial(kind)
    # Requests that came, and answers that came back: those on their way, or lost, are no one's.
    assert goodput.goodput(found).value == pytest.approx(8 * (1000 * REQUEST + 990 * ANSWER))
    assert goodput.messages(found).value == pytest.approx(1000)
    # What is worked out of readings is kept with the end, which is the same each time.
    assert found.end("receive") is found.end("receive")
    assert found.hosts["server"].measured_bytes == 1000 * REQUEST


def test_a_stream_has_no_answers() -> None:
    found = trial("stream")
    assert found.response_bytes == 0
    assert goodput.goodput(found).value == pytest.approx(8 * 1000 * REQUEST)


def exchanges(**changes: Any) -> made_summary.CampaignSummary:
    """As many requests as the tables of 2008 have KiB, each with a cost at either end."""
    made = made_summary.summary()
    points = []
    for point in made.points:
        rate = (point.outcomes["goodput_bits_per_s"].estimate or 0.0) / 8192
        more = {
            "operations_per_s": made_summary.around(rate, "1/s"),
            "latency_mean_ns": made_summary.around(1e9 / rate, "ns"),
            "latency_p99_ns": made_summary.around(3e9 / rate, "ns"),
            "server_polls_per_s": made_summary.around(20.0, "1/s"),
            "sut.cpu_ns_per_operation": made_summary.around(9_000.0, "ns/operation"),
            "clients.cpu_ns_per_operation": made_summary.around(20_000.0, "ns/operation"),
        }
        points.append(replace(point, outcomes={**point.outcomes, **more}))
    hosts = (made_summary.host("sut", "send", 16), made_summary.host("clients", "receive", 2))
    told = {
        "workload": {**made.workload, "kind": "request_response"},
        "hosts": hosts,
        "points": tuple(points),
    }
    return replace(made, **told, **changes)


def test_the_table_has_requests_their_times_and_what_was_asked_for() -> None:
    made = exchanges(asked=("operations_per_s", "server_polls_per_s", "latency_p99_ns"))
    table = source_tables(made)[0]
    titles = [column.title for column in table.columns]
    own = ["Requests", "Throughput", "latency mean", "server polls", "latency p99"]
    assert titles[titles.index("Requests") : titles.index("Limiter")] == own
    assert titles.count("ns/request") == 2 and "cycles/Kbyte" not in titles


def test_bytes_per_cycle_stand_beside_the_times_where_they_are_asked_for() -> None:
    made = exchanges(asked=("clients.bytes_per_cycle", "operations_per_s", "latency_p99_ns"))
    points = tuple(
        replace(
            point,
            outcomes={
                **point.outcomes,
                "sut.bytes_per_cycle": made_summary.nothing("B/cycle"),
                "clients.bytes_per_cycle": made_summary.around(0.3, "B/cycle"),
            },
        )
        for point in made.points
    )
    table = source_tables(replace(made, points=points))[0]
    titles = [column.title for column in table.columns]
    assert titles.count("bytes/cycle") == 2 and "ns/request" not in titles and "latency p99" in titles


def test_the_server_comes_first_and_the_rate_before_its_cost() -> None:
    made = exchanges(asked=("operations_per_s",))
    said = sentences(made)
    costs = [sentence.text for sentence in said if sentence.about == "cost"]
    assert costs[0].startswith("On clients, a request costs ") and costs[1].startswith(
        "On sut, a request costs "
    )
    assert answer(made, said, ()).first[0].about == "peak"
    chosen = [sentence.about for sentence in answer(made, said, ()).first]
    assert "peak" in chosen and "cost" in chosen
    assert not [sentence.text for sentence in said if "KiB costs" in sentence.text]
    assert [tile.what for tile in html.tiles(made)] == [
        "Highest rate of operations",
        "Lowest cost per request, clients",
        "Highest cost per request, clients",
    ]


def test_without_a_rate_asked_for_it_is_that_of_requests() -> None:
    (said,) = [one.text for one in sentences(exchanges(asked=())) if one.about == "rate"]
    assert said.startswith("The rate of operations is ")


def test_a_closed_loop_has_its_times_against_the_clients() -> None:
    made = exchanges(asked=())
    figure = latency.figure(made)
    assert isinstance(figure, Figure)
    assert figure.title == "How long requests take"
    assert next(panel.x.title for panel in figure.panels).startswith("connections")
    assert latency.figure(made_summary.summary()) is None
    for drawn, title in (
        (cost_vs_factor.figure(made), "CPU time per request"),
        (rate_vs_factor.figure(made), "Rate of operations, and how busy the server was"),
    ):
        assert isinstance(drawn, Figure) and drawn.title == title


def test_clients_whose_rate_is_that_of_all_are_counted_in_the_heading() -> None:
    several = [f"client-{number}" for number in (1, 2, 3)]
    made = made_summary.single()
    workload = {
        "kind": "stream",
        "senders": several,
        "groups": {"client": several},
        "settings": {"connections": 1},
    }
    hosts = tuple(
        replace(made_summary.host(n, role, 1), access="netns")
        for n, role in (("client", "send"), ("server", "receive"))
    )
    windows = {**made.windows, "measured_ns": 10**9}
    said = headline(replace(made, workload=workload, hosts=hosts, windows=windows), "campaigns/tcp").title
    assert "3 clients x " in said and said.endswith("client -> server (4 namespaces of this machine)")


def one_point(*, scheduled: bool) -> made_summary.CampaignSummary:
    """Requests at one point, of 64 bytes: a sixteenth of a KiB, answers included an eighth."""
    point = exchanges().points[0]
    more = {
        "latency_p50_ns": made_summary.around(2e5, "ns"),
        "latency_p99_ns": made_summary.around(9e5, "ns"),
        "clients.cpu_ns_per_kib": made_summary.around(160_000.0, "ns/KiB"),
        "clients.cpu_usr_ns_per_kib": made_summary.around(40_000.0, "ns/KiB"),
    }
    if scheduled:
        more |= {
            "latency_from_schedule_p50_ns": made_summary.around(3e5, "ns"),
            "latency_from_schedule_p99_ns": made_summary.around(8e6, "ns"),
        }
    made = exchanges(asked=("operations_per_s",))
    made = replace(made, points=(replace(point, outcomes={**point.outcomes, **more}),))
    factors = tuple(replace(factor, levels=factor.levels[:1]) for factor in made.factors)
    return replace(made, factors=factors)


@pytest.mark.parametrize(
    ("scheduled", "tiles", "said"),
    [
        (False, ["Latency, median", "Latency, p99"], "at the 99th percentile."),
        (True, ["Latency from schedule, median", "Latency from schedule, p99"], "from when it was due."),
    ],
)
def test_the_first_screen_says_how_many_how_fast_and_at_what_cost(
    scheduled: bool, tiles: list[str], said: str
) -> None:
    made = one_point(scheduled=scheduled)
    assert [tile.what for tile in html.tiles(made)] == ["Rate of operations", *tiles, "A request, clients"]
    first = answer(made, sentences(made), ()).first
    assert [sentence.about for sentence in first] == ["rate", "latency", "cost"]
    (text,) = [sentence.text for sentence in first if sentence.about == "latency"]
    assert text.startswith("A request takes ") and text.endswith(said)


def test_the_picture_of_requests_is_of_a_request() -> None:
    """20 us a request, and user time a quarter of that, as it is of a KiB."""
    figure = cost_by_class.figure(one_point(scheduled=False))
    assert figure is not None and figure.title == "CPU time of a request by class"
    assert figure.panels[0].y_title == "CPU time, us per request"
    (stack,) = [stack for stack in figure.panels[0].stacks if "clients" in stack.label]
    assert stack.total == pytest.approx(20.0)
    assert stack.layers[0].y == pytest.approx(5.0)
