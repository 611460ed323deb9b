"""Reading an experiment file: what right files become, and that wrong ones cost one clear error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import jsonschema
import pytest
from hypothesis import example, given, settings
from ruamel.yaml import YAML

from iodyno.cli.init import STARTER
from iodyno.core.access import ACCESSES
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment, HostSpec
from iodyno.core.workload import STREAM
from iodyno.formats.experiment_file import (
    experiment_schema,
    experiment_text,
    parse_experiment,
    read_experiment,
)
from iodyno.loads.base.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.yaml"))
HOSTS = {"IODYNO_CLIENT": "me@one", "IODYNO_SERVER": "me@two:2222"}
SMALL = """\
name: cost
hosts: {client: {access: local}, server: {access: local}}
workload: {kind: stream, sender: client, receiver: server}
"""
SEEN_BY_THE_SCHEMA = (
    *("unknown_key_top", "unknown_key_host", "unknown_key_workload", "unknown_key_factor"),
    *("unknown_key_together", "unknown_key_windows", "unknown_key_quick_windows", "unknown_access"),
    *("ssh_without_target", "engine_unknown", "unit_unknown", "unit_of_a_rate", "unit_missing"),
    *("level_zero", "level_huge", "levels_none", "factor_unknown", "outcome_unknown", "name_bad"),
    *("outcome_without_host", "replicates_zero", "workload_without_receiver"),
)
ERRORS = ROOT / "tests" / "golden" / "experiment_errors"


def test_the_source_s_study_is_read_with_windows_and_connections_crossed() -> None:
    experiment = read_experiment(ROOT / "studies" / "tcp-transmit.yaml")
    connections = next(factor for factor in experiment.factors if factor.name == "connections")
    assert connections.levels == (1, 4, 8, 32, 100, 400, 1000, 2000, 4000, 6000)
    # The source has small windows with many connections: what one does was told of the other.
    window = next(factor for factor in experiment.factors if factor.name == "window")
    assert window.levels == (262144, 32768) and not connections.together
    size = next(factor for factor in experiment.factors if factor.name == "size")
    assert size.levels == (65536, 8192, 1024)
    assert experiment.workload.settings == {"engine": "threads"}
    assert experiment.design.seed == 20081217
    assert experiment.text == (ROOT / "studies" / "tcp-transmit.yaml").read_text()


@pytest.mark.parametrize("quick", [False, True])
def test_the_study_of_two_storage_protocols_has_the_levels_of_its_source(quick: bool) -> None:
    """Reads at 0 % and 100 %, so that the point that the source's headline is of lies in the range; 32 points, 640 runs."""
    experiment = read_experiment(ROOT / "studies" / "protocol-cost.yaml", quick=quick)
    assert {factor.name: factor.levels for factor in experiment.factors} == {
        "volume": ("loop", "nfs"),
        "read": (0, 10**6),
        "random": (0, 10**6),
        "block": (4096, 8192),
        "rate": (1000, 4000),
    }
    assert (experiment.design.kind, experiment.design.replicates) == ("full_factorial", 2 if quick else 20)


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
@pytest.mark.parametrize("quick", [False, True])
def test_every_study_and_the_starter_are_right(study: Path, quick: bool) -> None:
    experiment = read_experiment(study, quick=quick, environment=HOSTS)
    assert experiment.name == study.stem
    assert experiment.question
    assert experiment.quick is quick
    assert not experiment.notes
    assert parse_experiment(STARTER, quick=quick).name == "my-experiment"


def test_quick_replaces_factors_by_name_and_other_sections_key_by_key() -> None:
    text = SMALL + (
        "factors: {size: [1KiB, 64KiB], connections: [1, 2, 3]}\n"
        "design: {replicates: 5, seed: 7}\n"
        "windows: {warm_up: 2s, measured: 9s}\n"
        "quick: {factors: {connections: [8]}, design: {replicates: 2}, windows: {measured: 3s}}\n"
    )
    full, quick = parse_experiment(text), parse_experiment(text, quick=True)
    assert [factor.name for factor in quick.factors] == ["size", "connections"]
    assert [factor.levels for factor in quick.factors] == [(1024, 65536), (8,)]
    assert (quick.design.replicates, quick.design.seed) == (2, 7)
    assert (quick.windows.warm_up_ns, quick.windows.measured_ns) == (2 * 10**9, 3 * 10**9)
    assert (full.design.replicates, full.windows.measured_ns) == (5, 9 * 10**9)


def test_without_a_quick_section_the_quick_form_is_shorter_and_says_so() -> None:
    text = SMALL + "factors: {size: [1KiB, 64KiB]}\ndesign: {replicates: 9}\n"
    quick = parse_experiment(text, quick=True)
    assert quick.design.replicates == 3
    assert quick.windows.measured_ns == 1_500_000_000
    assert quick.windows.warm_up_ns == 300_000_000
    assert quick.factors == parse_experiment(text).factors
    assert "no quick section" in quick.notes[0]
    shorter = SMALL + "windows: {warm_up: 0s, measured: 100ms, interval: 50ms}\n"
    assert parse_experiment(shorter, quick=True).windows == parse_experiment(shorter).windows


def test_variables_stand_for_values_anywhere() -> None:
    text = SMALL + 'design: {replicates: "${N:-4}"}\nquestion: "costs $${HOME}?"\n'
    assert parse_experiment(text, environment={}).design.replicates == 4
    assert parse_experiment(text, environment={"N": "2"}).design.replicates == 2
    assert parse_experiment(text, environment={}).question == "costs ${HOME}?"
    with pytest.raises(ExperimentError, match=r"NAME is not set.*\$\{NAME:-value\}"):
        parse_experiment(SMALL.replace("name: cost", "name: ${NAME}"), environment={})


def test_hosts_hold_their_options_in_base_units() -> None:
    server = "access: ssh, to: 'me@[fe80::1]:2222', command_timeout: 5s, cpus: [0, 2], address: 10.0.0.2"
    text = SMALL.replace("server: {access: local}", f"server: {{{server}}}")
    assert parse_experiment(text).hosts["server"] == HostSpec(
        "server",
        "ssh",
        {"to": "me@fe80::1", "port": 2222, "command_timeout": 5 * 10**9},
        cpus=(0, 2),
        address="10.0.0.2",
    )


@pytest.mark.parametrize("written", ["null", '"null"', "~"])
def test_the_null_target_needs_no_quotes(written: str) -> None:
    text = f"name: a\nhosts: {{h: {{access: local}}}}\nworkload: {{kind: disk, hosts: h, target: {written}, working_set: 1MiB}}\n"
    assert parse_experiment(text).workload.settings["target"] == "null"


def test_outcomes_left_out_are_rate_and_cost() -> None:
    assert parse_experiment(SMALL).outcomes == (
        "goodput_bits_per_s",
        "client.cycles_per_kib",
        "client.cpu_ns_per_kib",
        "server.cpu_ns_per_kib",
    )


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (2**20 + 1))
    for path, said in (
        (tmp_path / "none.yaml", "No such file"),
        (tmp_path, "a folder"),
        (fifo, "no regular file"),
        (large, "1 MiB"),
        (Path("a\0b"), "cannot be read"),
        (Path("x" * 5000), "too long"),
    ):
        with pytest.raises(ExperimentError, match=said) as raised:
            read_experiment(path)
        assert raised.value.where.startswith(str(path))


def test_all_mistakes_are_told_at_once_in_the_order_of_lines() -> None:
    with pytest.raises(ExperimentError) as raised:
        parse_experiment((ERRORS / "many.yaml").read_bytes(), file="f.yaml")
    lines = [
        int(line.split(":")[1]) for line in str(raised.value).splitlines() if line.startswith("  f.yaml:")
    ]
    assert len(lines) == 5
    assert lines == sorted(lines)


def test_of_very_many_mistakes_the_first_are_listed() -> None:
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(SMALL + f"factors: {{connections: {[0] * 300}}}\n", file="f.yaml")
    assert raised.value.what.startswith("300 mistakes")
    assert "f.yaml: and 250 more" in raised.value.what


def test_the_schema_agrees_with_the_reader() -> None:
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    yaml = YAML(typ="safe", pure=True)
    for text in [*(study.read_text() for study in STUDIES), STARTER, SMALL]:
        validator.validate(yaml.load(text))
    for case in SEEN_BY_THE_SCHEMA:
        wrong = yaml.load((ERRORS / f"{case}.yaml").read_text())
        assert list(validator.iter_errors(wrong)), case


def test_the_schema_describes_every_parameter_and_option() -> None:
    definitions = experiment_schema()["$defs"]
    for name, workload in WORKLOADS.items():
        for parameter in workload.parameters:
            described = definitions[f"{name}_workload"]["properties"][parameter.name]["description"]
            assert described == parameter.help
    for access in ACCESSES.values():
        for option in access.options:
            assert definitions[f"{access.name}_host"]["properties"][option.name]["description"] == option.help


_TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=30)
_MAPPINGS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"\A[a-z][a-z0-9-]{0,20}\Z"),
        "question": _TEXTS.filter(lambda text: text != ""),
        "hosts": st.just({"a": {"access": "local"}, "b": {"access": "local", "cpus": [1]}}),
        "workload": st.just({"kind": "stream", "sender": "a", "receiver": "b", "nagle": True}),
        "factors": st.fixed_dictionaries(
            {"size": st.lists(st.integers(1, 2**30), min_size=1, max_size=4, unique=True)}
        ),
        "design": st.fixed_dictionaries({"seed": st.integers(0, 2**63 - 1), "blocks": st.booleans()}),
    }
)


@given(_MAPPINGS)
@settings(deadline=None)
def test_what_is_made_in_memory_is_read_back(mapping: dict[str, Any]) -> None:
    text = experiment_text(mapping)
    experiment = parse_experiment(text, environment={})
    assert experiment.name == mapping["name"]
    assert experiment.question == mapping["question"]
    assert experiment.factors[0].levels == tuple(mapping["factors"]["size"])
    assert experiment.design.seed == mapping["design"]["seed"]
    assert experiment.design.blocks is mapping["design"]["blocks"]
    assert experiment.text == text


def is_read_or_refused(text: str | bytes) -> None:
    """Whatever is written: an experiment, or one ExperimentError that names the file."""
    try:
        for quick in (False, True):
            assert isinstance(parse_experiment(text, file="f.yaml", quick=quick, environment={}), Experiment)
    except ExperimentError as error:
        assert error.where.startswith("f.yaml")
        assert error.what
        assert all(len(line) < 2000 for line in str(error).splitlines())


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
@example('"\\UFFFFFFFF"')
@example("%YAML 9.9\n---\na")
@example("%TAG ! x\n%TAG ! x\n---\n!a b")
@example("a: &a\n  <<: *a")
@example("\ud800")
@example("? \n: ${")
@example("[" * 100_000)
@example("a: " * 10_000)
@example("9" * 5000)
@example("? " * 5000)
@example("- " * 5000)
@example("!<" + "a" * 100)
@example('a: "' + "${" * 200_000 + '"')
@example("a: " + "9" * 1_000_000)
@example("".join(f"k{n}: 1\n" for n in range(50_000)))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    is_read_or_refused(text)


_WORDS = sorted(
    {
        *(
            "name",
            "question",
            "hosts",
            "workload",
            "factors",
            "design",
            "windows",
            "outcomes",
            "limits",
            "quick",
        ),
        *(
            "levels",
            "together",
            "access",
            "local",
            "ssh",
            "to",
            "kind",
            "stream",
            "sender",
            "receiver",
            "a",
            "b",
        ),
        *("measured", "interval", "seed", "replicates", "goodput_bits_per_s", "64KiB", "-1s", "1e999k", "on"),
        *(parameter.name for parameter in STREAM.parameters),
    }
)
_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(_WORDS), st.text(max_size=8)
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_WORDS), inner, max_size=6)
    ),
    max_leaves=30,
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(_WORDS), _TREES, max_size=8))
def test_any_structure_is_read_or_refused(mapping: dict[str, Any]) -> None:
    is_read_or_refused(experiment_text(mapping))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(STUDIES), st.data())
def test_a_damaged_study_is_read_or_refused(study: Path, data: st.DataObject) -> None:
    text = study.read_text()
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 30)))
    is_read_or_refused(text[:begin] + data.draw(st.text(max_size=6)) + text[end:])


def test_a_range_is_its_two_ends() -> None:
    short = parse_experiment(
        SMALL + "factors: {size: 1KiB..64KiB, server.mtu: 1500 .. 9000, think: 0.5ms..2ms}\n"
    )
    assert [factor.levels for factor in short.factors] == [(1024, 65536), (1500, 9000), (500_000, 2_000_000)]
    with pytest.raises(ExperimentError, match=r"factors\.size\[1\]"):
        parse_experiment(SMALL + "factors: {size: 1KiB..64}\n".replace("64", "64Kib"))
    for wrong in ("1..2..3", "..", "1..", "..2"):
        with pytest.raises(ExperimentError, match="a range such as"):
            parse_experiment(SMALL + f"factors: {{size: {wrong}}}\n")
