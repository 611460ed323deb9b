"""What a load over connections may be told together: what is right is taken, though parts of it alone would not be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iodyno.cli.design_options import plan_of, planned
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.formats.experiment_file import parse_experiment

FILE = """
name: t
hosts: {{client: {{access: netns}}, server: {{access: netns}}}}
workload: {{kind: request_response, sender: client, receiver: server, {settings}}}
{more}
"""


def checked(text: str) -> Experiment:
    """The experiment in a text that `iodyno check` finds nothing wrong with."""
    experiment = parse_experiment(text, file="FILE")
    plan_of(experiment, "FILE")
    return experiment


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        # Each key has an effect at one of the points.
        ("rate: 100, burst_on: 1ms", "factors: {arrivals: [closed, bursty]}"),
        ("nagle: on", "factors: {transport: [unix, tcp]}"),
        ("", "factors: {variant: {levels: [a, b], together: {transport: [tcp, udp], server_engine: [epoll, packet_v3]}}}"),
        ("engine: epoll, queue_depth: 4", ""),
        ("client_engine: epoll, queue_depth: 4", ""),
        ("transport: udp, queue_depth: 4", ""),
        ("transport: udp, client_engine: epoll, server_engine: segments, response_size: 1472", ""),
        ("transport: udp, client_engine: epoll, server_engine: segments, response_size: 3000", "tunables: {all: {mtu: 4000}}"),
        ("transport: udp, client_engine: epoll, server_engine: segments, response_size: 3000, path: loopback", ""),
        ("", "tunables: {server: {blanking: 50us}, all: {gro: on}}"),
        ("transport: udp, sizes: 'exponential(100, most=1400)'", ""),
        # Which levels meet is for the design to say.
        (
            "",
            "factors: {transport: [tcp, udp], server_engine: [epoll, packet_v3]}\ndesign: {kind: csv, rows: "
            "\"transport,server_engine\\ntcp,epoll\\nudp,packet_v3\\n\"}",
        ),
    ],
)  # fmt: skip
def test_what_can_be_together_is_taken(settings: str, more: str) -> None:
    assert checked(FILE.format(settings=settings, more=more)).name == "t"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("transport: udp, response_size: 70000", "invalid value '70000"),
        ("rate: 100, arrivals: closed", "bystander.rate: can only be used with arrivals"),
        (
            "queue_depth: 4",
            "bystander.queue_depth: the load cannot be made with 4 requests in flight",
        ),
    ],
)
def test_a_bystander_is_looked_at_as_the_workload_is(settings: str, said: str) -> None:
    more = f"bystander: {{kind: request_response, sender: client, receiver: server, {settings}}}"
    with pytest.raises(ExperimentError) as raised:
        checked(FILE.format(settings="engine: epoll, queue_depth: 4", more=more))
    assert said in str(raised.value) and "2 mistakes" not in str(raised.value)


BESIDE = (
    "bystander: {kind: request_response, sender: client, receiver: server, transport: udp, client_engine: epoll, "
    "server_engine: segments, response_size: 3000}\n"
)


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ("", "1472 bytes"),
        ("tunables: {all: {mtu: 2000}}", "1972 bytes"),
        ("factors: {server.mtu: [9000, 2500]}", "2472 bytes"),
        ("factors: {server.mtu: [9000, 2500], client.mtu: [9000, 1500]}\ndesign: {kind: one_factor}", ""),
        ("tunables: {all: {mtu: 4000}}", ""),
        ("factors: {path: [loopback]}", ""),
    ],
)
def test_a_bystander_is_looked_at_on_the_path_of_the_points(more: str, most: str) -> None:
    text = FILE.format(settings="", more=BESIDE + more)
    if not most:
        assert parse_experiment(text).bystanders
        return
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(text, file="FILE")
    assert (
        f"invalid value for bystander.response_size: 3000B from a server by segments; expected {most}"
        in str(raised.value)
    )


def test_a_tunable_that_is_wrong_for_workload_and_bystander_is_told_once() -> None:
    more = "bystander: {kind: request_response, sender: client, receiver: server}\ntunables: {server: {blanking: 50us}}"
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(FILE.format(settings="", more=more), file="FILE")
    assert str(raised.value).count("needs server.gro: on") == 1 and "2 mistakes" not in str(raised.value)


@pytest.mark.parametrize(
    ("end", "way"),
    [("server_engine", "recvmmsg"), ("server_engine", "segments"), ("client_engine", "recvmmsg")],
)
def test_calls_for_several_datagrams_are_refused_by_their_own_word(end: str, way: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        checked(FILE.format(settings=f"{end}: {way}", more=""))
    value = "" if way == "segments" else f"invalid value {way!r} for "
    assert f"{value}workload.{end}: the load cannot be made with" in str(raised.value)


def test_points_that_a_design_names_are_looked_at_when_it_is_planned(tmp_path: Path) -> None:
    rows = "transport,server_engine\\ntcp,epoll\\ntcp,packet_v3\\n"
    more = f'factors: {{transport: [tcp, udp], server_engine: [epoll, packet_v3]}}\ndesign: {{kind: csv, rows: "{rows}"}}'
    file = tmp_path / "e.yaml"
    file.write_text(FILE.format(settings="", more=more))
    with pytest.raises(ExperimentError) as raised:
        planned(str(file))
    assert f"{file}:5" in str(raised.value) and ": packet_v3 with transport tcp" in str(raised.value)


def test_a_list_of_outcomes_stands_once_and_the_nearest_name_first() -> None:
    text = FILE.format(settings="", more="outcomes: [goodput_bit, zzzz, yyyy]")
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(text, file="FILE")
    _, near, far, again, *_ = str(raised.value).splitlines()
    assert "invalid value 'goodput_bit' for outcomes[0]: expected goodput_bits_per_s and " in near
    assert "expected goodput_bits_per_s, " in far and re.search(r" and \d+ more$", far)
    assert again.endswith("invalid value 'yyyy' for outcomes[2]: expected as above")


@pytest.mark.parametrize("end", ["client_engine", "server_engine"])
@pytest.mark.parametrize(
    ("client", "server", "said"),
    [
        ("{access: local}", '{access: local, address: "fd19::2"}', "frames of IPv4"),
        ("{access: local}", "{access: local, address: 127.0.0.1}", "loopback addresses"),
        ("{access: local}", "{access: local}", "loopback addresses"),
        ("{access: local}", "{access: local, address: 10.1.2.3}", ""),
        ("{access: netns}", "{access: netns}", ""),
    ],
)
def test_a_ring_is_refused_where_it_cannot_reach_the_server(
    end: str, client: str, server: str, said: str
) -> None:
    text = (
        f"name: t\nhosts:\n  client: {client}\n  server: {server}\n"
        f"workload: {{kind: request_response, sender: client, receiver: server, transport: udp, {end}: packet_v3}}\n"
    )
    if not said:
        assert checked(text).workload.settings[end] == "packet_v3"
        return
    with pytest.raises(ExperimentError) as raised:
        checked(text)
    assert f"FILE:5: invalid value 'packet_v3' for workload.{end}: " in str(raised.value) and said in str(
        raised.value
    )
