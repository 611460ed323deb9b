"""What a profile's numbers may be and how long they last is known before a host is opened, in files with factors, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iodyno import designs
from iodyno.cli import uperf
from iodyno.cli.design_options import plan_of
from iodyno.cli.main import run as iodyno
from iodyno.core.errors import ExperimentError
from iodyno.formats.experiment_file import parse_experiment
from iodyno.loads.script.campaign.preflight import without_files
from iodyno.loads.script.core.wire import script_json
from iodyno.loads.script.uperf import (
    converted,
    experiment_keys,
    host_notes,
    parse_profile,
    read_profile,
    values_of,
)
from iodyno.loads.script.uperf.bounds import least_ns

LOOP = """<profile name="p"><group nthreads="$n">
<transaction><flowop type="connect" options="remotehost=$h protocol=tcp wndsz=$w"/></transaction>
<transaction iterations="$i" rate="$r">
<flowop type="write" options="size=$s"/>
<flowop type="think" options="duration=$t count=2"/></transaction>
<transaction><flowop type="disconnect"/></transaction></group></profile>
"""
CLOSES = '<flowop type="disconnect"/>'
CLOSING = f"<transaction>{CLOSES}"
LEVELS = {"n": "1", "w": "8k", "i": "5", "r": "10", "s": "64", "t": "100ms"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": "0"}, r"profile.xml:1: invalid value '0' for \$n: expected 1 to 60000"),
        ({"w": "2g"}, r"profile.xml:2: invalid value '2g' for \$w: expected 0 to 1GiB"),
        ({"w": "rand(8k,9k)"}, r"profile.xml:2: invalid value 'rand\(8k,9k\)' for \$w: expected one number"),
        ({"s": "0"}, r"profile.xml:4: invalid value '0' for \$s: expected 1B to"),
        ({"s": "rand(1,2g)"}, r"profile.xml:4: invalid value 'rand\(1,2g\)' for \$s: expected 1B to 1GiB"),
        ({"t": "0"}, r"profile.xml:5: invalid value '0' for \$t: expected 1ns to 604800s \(7 d\)"),
    ],
)
def test_a_variable_that_is_out_of_its_range_is_refused_where_it_stands(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ExperimentError, match=said):
        values_of(parse_profile(LOOP), {}, {**LEVELS, **given})


def test_of_a_variable_that_stands_in_two_places_the_narrower_one_counts() -> None:
    text = LOOP.replace("count=2", "count=$n").replace("$n", "$r")
    assert values_of(parse_profile(text), LEVELS)["r"] == 10
    with pytest.raises(ExperimentError, match=r":1: invalid value '0' for \$r: expected 1 to"):
        values_of(parse_profile(text), {**LEVELS, "r": "0"})


@pytest.mark.parametrize("command", ["run", "check", "convert"])
def test_the_commands_refuse_it_with_the_line_of_the_profile(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.xml"
    profile.write_text(LOOP)
    settings = [word for name, value in {**LEVELS, "n": "0"}.items() for word in ("--set", f"{name}={value}")]
    assert iodyno([command, str(profile), *settings]) == 2
    assert f"{profile}:1: invalid value '0' for $n: expected 1 to 60000" in capsys.readouterr().err


def test_no_iterations_and_no_rate_mean_what_they_mean_to_uperf() -> None:
    profile = parse_profile(LOOP)
    levels = values_of(profile, {}, {**LEVELS, "i": "0", "r": "0"})
    (group,) = script_json(profile.script.bound(levels), "send")["groups"]
    assert [t["operations"][0]["call"] for t in group["transactions"]] == ["connect", "disconnect"]
    (group,) = script_json(profile.script.bound({**levels, "i": 3}), "receive")["groups"]
    assert [t["rate"] for t in group["transactions"]] == [None, None, None]


def test_that_a_variable_leaves_a_transaction_out_is_said(tmp_path: Path) -> None:
    file = tmp_path / "p.xml"
    file.write_text(LOOP)
    for iterations, said in (("0", 1), ("2", 0)):
        variables = tuple(f"{name}={value}" for name, value in {**LEVELS, "i": iterations}.items())
        notes = uperf.experiment_of(str(file), variables, None, None, None).notes
        assert len([note for note in notes if note.startswith(f"{file}:3: iterations=0: never")]) == said


def test_hosts_of_what_is_never_made_are_no_hosts() -> None:
    further = (
        '<transaction iterations="$i"><flowop type="connect" options="remotehost=b conn=2"/></transaction>'
    )
    profile = parse_profile(LOOP.replace("</group>", f"{further}</group>"))
    for iterations, receivers in ((0, {"server"}), (1, {"h", "b"})):
        levels = {**values_of(profile, {}, LEVELS), "i": iterations}
        assert set(experiment_keys(profile, levels)["hosts"]) == {"client", *receivers}
        assert len(host_notes(profile, levels, None)) == len(receivers)


def test_a_group_of_which_nothing_is_made_is_one_error() -> None:
    text = '<profile>\n<group>\n<transaction iterations="$i"><flowop type="nop"/></transaction></group></profile>'
    with pytest.raises(ExperimentError, match=r"profile.xml:2: group 1: iterations=0 in every"):
        experiment_keys(parse_profile(text), {"i": 0})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOOP.replace("size=$s", "size=8 conn=3"), "p.xml:4: group 1: write uses conn=3"),
        (LOOP.replace(CLOSING, f'<transaction iterations="2">\n{CLOSES}'),
         "p.xml:7: group 1: disconnect uses a connection without a name"),
        (LOOP.replace("size=$s", "size=8 sctp_pr_value=5"), "p.xml:4: write has sctp_pr_value"),
        (LOOP.replace("wndsz=$w", "encaps=99"), "p.xml:2: connect has encaps"),
    ],
)  # fmt: skip
def test_all_that_cannot_run_is_said_with_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "p.xml"
    file.write_text(text)
    profile = read_profile(file)
    given = {variable.name: LEVELS.get(variable.name, "h") for variable in profile.script.variables()}
    levels = values_of(profile, {}, given)
    for make in (experiment_keys, lambda *asked: converted(*asked, plain=False)):
        with pytest.raises(ExperimentError, match=re.escape(f"{tmp_path}/{said}")):
            make(profile, levels)


def test_how_long_a_script_takes_for_certain_follows_its_pauses_rates_and_durations() -> None:
    def takes_ms(**given: str) -> float:
        profile = parse_profile(LOOP)
        return least_ns(profile.script.bound(values_of(profile, {}, {**LEVELS, **given}))) / 1e6

    assert takes_ms() == 5 * 2 * 100
    assert takes_ms(t="1ns") == 4 * 100
    assert takes_ms(t="1ns", r="0") < 1
    assert least_ns(parse_profile(LOOP.replace('iterations="$i"', 'duration="3s"')).script) == 3 * 10**9
    # What is no number yet takes no time: it must not refuse what may run.
    assert least_ns(parse_profile(LOOP).script) == 0


def made(**given: str) -> str:
    """The experiment file that a profile becomes, with other levels in it."""
    profile = parse_profile(LOOP)
    text = converted(profile, values_of(profile, {}, LEVELS), plain=False).text
    for name, level in given.items():
        text = re.sub(rf"(\n  {name}: )\[.*\]", rf"\g<1>{level}", text)
    return text


def refused(text: str) -> str:
    with pytest.raises(ExperimentError) as caught:
        plan_of(parse_experiment(text, file="e.yaml", environment={}), "e.yaml")
    return str(caught.value)


def test_levels_that_take_longer_than_the_windows_are_refused_with_what_is_needed() -> None:
    assert plan_of(parse_experiment(made(), environment={}), "e.yaml").points
    text = made(t="[100ms, 10s]")
    said = refused(text)
    line = text.splitlines().index("  measured: 46s") + 1
    assert (
        f"e.yaml:{line}: invalid value for windows.measured: 46s for a trial; expected more than the 100s"
        in said
    )
    assert "with i 5, r 10, t 10s" in said
    advised = re.search(r"measured: (\w+) in `windows`", said)
    assert advised
    longer = parse_experiment(text.replace("measured: 46s", f"measured: {advised[1]}"), environment={})
    assert len(plan_of(longer, "e.yaml").points) == 2


def test_levels_that_no_trial_can_do_are_refused_where_they_stand() -> None:
    text = made(n="[0, 1]", s="[64B, 'rand(1,2GiB)']")
    said = refused(text)
    lines = text.splitlines()
    n, s = (next(i for i, line in enumerate(lines, 1) if line.startswith(f"  {name}: ")) for name in "ns")
    assert f"e.yaml:{n}: invalid value '0' for factors.n: expected 1 to 60000 (line 3 of the profile)" in said
    assert f"e.yaml:{s}: invalid value 'rand(1,2147483648)' for factors.s: expected 1B to 1GiB" in said
    closed = LOOP.replace(CLOSING, f'<transaction iterations="$d">{CLOSES}')
    profile = parse_profile(closed)
    text = converted(profile, values_of(profile, {}, {**LEVELS, "d": "1"}), plain=False).text
    said = refused(text.replace("d: [1]", "d: [1, 2]"))
    assert "workload.profile: line 12 of it: group 1: disconnect uses" in said
    assert "open it again before" in said


def test_a_limit_is_for_all_that_has_no_duration_together(tmp_path: Path) -> None:
    file = tmp_path / "p.xml"
    file.write_text(LOOP)
    variables = tuple(f"{name}={value}" for name, value in LEVELS.items())

    def measured_s(limit: str | None) -> float:
        return uperf.experiment_of(str(file), variables, None, None, limit).windows.measured_ns / 1e9

    assert measured_s("2s") == 2
    assert measured_s(None) > 30
    timed = '<transaction duration="3s"><flowop type="nop"/></transaction>'
    file.write_text(LOOP.replace(CLOSING, timed + CLOSING))
    assert measured_s("2s") == 5
    with pytest.raises(
        ExperimentError, match=r"p.xml:3: group 1: pauses and .* take 1s and more, and --limit is 900ms"
    ):
        measured_s("900ms")
    for wrong in ("1ms", "30", "8000h"):
        with pytest.raises(ExperimentError, match="for --limit: "):
            measured_s(wrong)


def test_pauses_that_last_get_the_time_that_they_take() -> None:
    profile = parse_profile(LOOP)
    for pause in ("1s", "100s", "1000s"):
        levels = values_of(profile, {}, {**LEVELS, "t": pause})
        experiment = parse_experiment(converted(profile, levels, plain=False).text, environment={})
        assert designs.plan(experiment) == plan_of(experiment, "e.yaml")


def test_a_plain_loop_that_is_shorter_than_a_window_stays_a_script() -> None:
    text = re.sub('iterations="[^"]*" rate="[^"]*"', 'duration="5ms"', LOOP)
    text = re.sub(r".*think.*</transaction>", "</transaction>", text).replace("size=$s", "size=8")
    conversion = converted(parse_profile(text), {"n": 1, "w": 8192})
    assert "shorter than 10ms" in conversion.notes[0]
    assert parse_experiment(conversion.text, environment={}).workload.kind == "script"


def test_a_folder_has_files_to_send_or_it_is_said_why_not(tmp_path: Path) -> None:
    assert "No such file" in without_files(str(tmp_path / "absent"))
    (tmp_path / "file").write_text("x")
    assert "Not a directory" in without_files(str(tmp_path / "file"))
    assert without_files(str(tmp_path)) == ""
    (tmp_path / "file").write_text("")
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "round").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "dangling").symlink_to(tmp_path / "absent")
    assert "no file with anything in it" in without_files(str(tmp_path))
    (tmp_path / "a" / "b" / "c").write_text("x")
    assert without_files(str(tmp_path)) == ""


@pytest.mark.parametrize(
    ("protocol", "said"), [("udp", "over udp, which carries"), ("ssl", "over TLS, where")]
)
def test_files_are_sent_over_streams_that_the_kernel_sees(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: str, said: str
) -> None:
    file = tmp_path / "p.xml"
    file.write_text(
        '<profile name="p"><group nthreads="1"><transaction iterations="1">\n'
        f'<flowop type="connect" options="remotehost=h protocol={protocol}"/>\n'
        '<flowop type="sendfile" options="dir=/tmp"/>\n'
        "</transaction></group></profile>"
    )
    assert iodyno(["check", str(file)]) == 2
    assert f"p.xml:3: invalid value for group 1: sendfile {said}" in capsys.readouterr().err
