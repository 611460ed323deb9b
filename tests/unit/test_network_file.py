"""The model file of networks: what it says, and every mistake with its line and key."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.core.errors import ExperimentError
from iodyno.core.network import ClosedClass, Demand, Network, OpenClass, Station
from iodyno.formats.network_file import parse_network

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "three-tier.yaml"
GOOD = """
name: shop
classes:
  browse: {population: 12, think: 2s}
  api: {rate: 0.5k/s}
stations:
  web: {servers: 4, discipline: ps}
  disk:
  wan: {kind: delay}
demands:
  browse: {web: 2.4847us, disk: {visits: 2.5, service: 3ms}, wan: 0.5ns}
  api: {web: 1ms}
"""


def test_a_file_says_what_a_network_is() -> None:
    assert parse_network(GOOD) == Network(
        (Station("web", servers=4, discipline="ps"), Station("disk"), Station("wan", "delay")),
        (ClosedClass("browse", 12, 2.0), OpenClass("api", 500.0)),
        {
            "browse": {"web": Demand(2.4847e-6), "disk": Demand(3e-3, 2.5), "wan": Demand(5e-10)},
            "api": {"web": Demand(1e-3)},
        },
        "shop",
    )


def test_the_example_of_the_documentation_is_one() -> None:
    network = parse_network(EXAMPLE.read_bytes())
    assert [s.servers for s in network.stations if s.kind == "queue"] == [4, 2, 1]


def test_variables_of_the_environment_are_put_in() -> None:
    text = GOOD.replace("{population: 12, think: 2s}", "\n    population: ${USERS:-12}")
    assert parse_network(text, environment={}).closed_classes[0].population == 12
    assert parse_network(text, environment={"USERS": "70"}).closed_classes[0].population == 70


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("population: 12", "population: 0", 4, "invalid value 0 for classes.browse.population: expected a whole number of 1 job"),
        ("population: 12", "population: 1.5", 4, "invalid value 1.5 for classes.browse.population: expected a whole number"),
        ("population: 12", "population: many", 4, "invalid value 'many'"),
        ("population: 12", "populaton: 12", 4, "did you mean 'population'?"),
        ("think: 2s", "think: 2", 4, "invalid value 2 for classes.browse.think: a unit is missing"),
        ("think: 2s", "think: -2s", 4, "expected 0 or more"),
        ("think: 2s", "rate: 2/s", 4, "missing key population (closed) or rate (open)"),
        ("rate: 0.5k/s", "rate: -1/s", 5, "invalid value '-1/s' for classes.api.rate: expected 0 or more"),
        ("rate: 0.5k/s", "rate: 5000/s", 7, "unstable: open work of 5 busy servers is offered to 4"),
        ("rate: 0.5k/s", "rate: 1/s, think: 3s", 5, "an open class has no think time"),
        ("rate: 0.5k/s", "rate: 1e999/s", 5, "classes.api.rate"),
        ("servers: 4", "servers: 0", 7, "invalid value 0 for stations.web.servers: expected 1 server or more"),
        ("servers: 4", "servers: 2.5", 7, "whole number of servers"),
        ("discipline: ps", "discipline: lifo", 7, "expected one of fcfs, ps, lcfs-pr"),
        ("kind: delay", "kind: dealy", 9, "did you mean 'delay'?"),
        ("kind: delay", "kind: delay, servers: 3", 9, "cannot be used with a delay"),
        ("  disk:", "  2nd disk:", 8, "a letter, then letters"),
        ("  disk:", "  disk: 7", 8, "invalid value 7 for stations.disk: expected keys of kind, servers, discipline"),
        ("web: 1ms", "web: -1ms", 12, "invalid value '-1ms' for demands.api.web: expected 0 or more"),
        ("web: 1ms", "web: 1 parsec", 12, "unknown unit 'parsec'"),
        ("web: 1ms", "wbe: 1ms", 12, "did you mean 'web'?"),
        ("web: 1ms", "web: 0s", 12, "the class 'api' demands nothing of any station"),
        ("web: 1ms", "web: [1, 2]", 12, "invalid value for demands.api.web: a list"),
        ("visits: 2.5", "visits: -1", 11, "invalid value -1 for demands.browse.disk.visits"),
        ("visits: 2.5, service: 3ms", "visits: 2.5", 11, "missing key service"),
        ("  api: {web: 1ms}", "  apo: {web: 1ms}", 12, "did you mean 'api'?"),
        ("name: shop", "name: [a]", 2, "invalid value for name: a list"),
        ("name: shop", "nom: shop", 2, "unknown key 'nom': expected one of name, classes, stations, demands"),
        ("wan: 0.5ns", "web: 1ms", 11, "duplicate key"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_line_key_and_what_is_allowed(
    old: str, new: str, line: int, said: str
) -> None:
    assert old in GOOD
    with pytest.raises(ExperimentError) as raised:
        parse_network(GOOD.replace(old, new), file="shop.yaml")
    assert f"shop.yaml:{line}: " in str(raised.value)
    assert said in str(raised.value)
    assert raised.value.exit_code == 2


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(ExperimentError, match="3 mistakes"):
        parse_network(GOOD.replace("servers: 4", "servers: x").replace("2s", "2").replace("0.5k/s", "-1"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty file: expected a model"),
        ("[1, 2]", "expected keys of name, classes, stations, demands"),
        ("name: x", "missing key classes"),
        ("classes: {}\nstations: {}\ndemands: {}", "invalid value for classes: an empty mapping"),
        ("a: [", "not YAML"),
        ("a: 1\n---\nb: 2", "expected one model in a file"),
    ],
)
def test_what_is_no_model_is_told(text: str, said: str) -> None:
    with pytest.raises(ExperimentError) as raised:
        parse_network(text)
    assert said in str(raised.value)


PIECES = st.sampled_from(
    [
        *GOOD.split(),
        "population: 1e9",
        "{",
        "}",
        "\n",
        "  ",
        ": ",
        "-1",
        "1e400",
        "null",
        "[",
        "]",
        "${X}",
        "&a",
        "*a",
        "ps",
        "1ns",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=60) | st.binary(max_size=60))
def test_whatever_stands_in_it_is_a_network_or_one_error(text: str | bytes) -> None:
    try:
        parse_network(text)
    except ExperimentError as error:
        assert error.what


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(GOOD.splitlines()[1:]), st.integers(0, 60), st.text(max_size=6))
def test_a_damaged_line_is_a_network_or_one_error(line: str, at: int, put: str) -> None:
    try:
        parse_network(GOOD.replace(line, line[:at] + put + line[at + 1 :]))
    except ExperimentError as error:
        assert error.where.startswith("model.yaml")
