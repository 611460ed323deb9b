"""The command line up to the point where load would start: words, errors, exit codes, and what it imports."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import click
import command_server
import pytest

from iodyno import quick
from iodyno.campaign.ledger import Entry
from iodyno.campaign.runner import CampaignOutcome
from iodyno.cli import disk, rr, search, tcp
from iodyno.cli import main as front
from iodyno.cli.execute import failed
from iodyno.cli.lazy import CommandEntry
from iodyno.core.errors import Interrupted, PreflightError
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.formats.mistakes import unknown_key
from iodyno.loads.base.workloads import WORKLOADS
from iodyno.report.headline import _methods

ROOT = Path(__file__).parents[2]
STUDY = str(ROOT / "studies" / "tcp-transmit.yaml")
HEAVY = ("pydantic", "ruamel", "numpy", "scipy", "duckdb", "jinja2", "rich", "asyncio")


def iodyno(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [*command_server.iodyno(), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, **options)  # type: ignore[call-overload, no-any-return]


def test_help_imports_nothing_heavy_and_lists_commands_in_the_order_of_work() -> None:
    script = (
        "import sys; from iodyno.cli.main import run; code = run(['--help'])\n"
        "sys.stderr.write(' '.join(sorted(sys.modules))); sys.exit(code)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(shown.stderr.split())
    assert not {name for name in imported if name.split(".")[0] in HEAVY}
    assert {name for name in imported if name.startswith("iodyno")} == {
        "iodyno", "iodyno.cli", "iodyno.cli.stderr", "iodyno.cli.encoding", "iodyno.cli.lazy", "iodyno.cli.main", "iodyno.core",
        "iodyno.core.errors", "iodyno.core.invalid", "iodyno.core.visible",
    }  # fmt: skip
    places = [shown.stdout.index(f"\n  {entry.name} ") for entry in front.COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize("entry", front.COMMANDS, ids=lambda entry: entry.name)
def test_every_command_is_there_with_an_example(entry: CommandEntry) -> None:
    module, _, attribute = entry.place.partition(":")
    assert isinstance(getattr(import_module(module), attribute), click.Command)
    shown = iodyno(entry.name, "--help")
    assert shown.returncode == 0
    assert "Examples:" in shown.stdout
    assert f"iodyno {entry.name}" in shown.stdout


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[click.Command, tuple[str, ...]]]:
    yield command, words
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from _commands(found, (*words, name))


def test_help_fits_a_terminal_of_80_columns_and_its_examples_can_be_pasted() -> None:
    for command, words in _commands(front.iodyno, ("iodyno",)):
        ctx = click.Context(command, info_name=" ".join(words), terminal_width=80, max_content_width=80)
        lines = command.get_help(ctx).splitlines()
        assert [line for line in lines if len(line) > 80] == []
        # A shell goes on with the next line, which is set in further.
        for line, after in pairwise(lines):
            assert not line.endswith(("\\", "&&")) or after.startswith("      "), (words, line)


def test_help_names_no_file_that_only_a_checkout_has() -> None:
    for command, words in _commands(front.iodyno, ("iodyno",)):
        shown = command.get_help(click.Context(command, info_name=" ".join(words)))
        assert not re.search(r"\b(studies|docs/examples)/", shown), words


def test_the_version_names_the_build_of_the_agent() -> None:
    shown = iodyno("--version")
    as_module = subprocess.run([sys.executable, "-m", "iodyno", "--version"], capture_output=True, text=True)
    assert as_module.stdout == shown.stdout
    assert shown.returncode == 0
    assert shown.stdout.startswith("iodyno ")
    assert "agent build " in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plam"], "try: iodyno plan"),
        (["plan"], "Missing argument 'FILE'"),
        (["plan", STUDY, "--jsn"], "unknown option '--jsn'; did you mean '--json'?"),
        (["plan", STUDY, "--format", "cvs"], "text, json, csv, markdown; did you mean 'csv'?"),
        (["plan", "no-such.yaml"], "no-such.yaml: cannot be read: No such file"),
        (["check", "/"], "cannot be read: it is a folder"),
        (["completion", "tcsh"], "bash"),
    ],
)
def test_a_wrong_word_is_one_error_on_stderr_and_exit_code_2(words: list[str], said: str) -> None:
    shown = iodyno(*words)
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("iodyno: error: ")
    assert said in shown.stderr
    assert "try: " in shown.stderr
    assert "Traceback" not in shown.stderr


def test_an_error_leaves_with_the_code_of_its_class(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command(name="check")
    @click.argument("way")
    def failing(way: str) -> None:
        if way == "stopped":
            raise KeyboardInterrupt
        raise PreflightError("too few descriptors", where="client", advice="ulimit -n 8192")

    monkeypatch.setattr("iodyno.cli.check.command", failing)
    assert front.run(["check", "refused"]) == 4
    captured = capsys.readouterr()
    assert captured.err == "iodyno: error: client: too few descriptors\n  try: ulimit -n 8192\n"
    assert captured.out == ""
    assert front.run(["check", "stopped"]) == 130
    assert "stopped" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()", "schema"]
    shown = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=600)
    os.close(write)
    assert shown.stderr == ""
    assert shown.returncode == front.PIPE_CLOSED


def test_init_writes_a_file_that_check_accepts_and_never_overwrites(tmp_path: Path) -> None:
    assert iodyno("init", cwd=tmp_path).returncode == 0
    written = (tmp_path / "experiment.yaml").read_text()
    checked = iodyno("check", "experiment.yaml", cwd=tmp_path)
    assert checked.returncode == 0
    assert checked.stdout.startswith("OK: experiment.yaml")
    again = iodyno("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert (tmp_path / "experiment.yaml").read_text() == written
    assert iodyno("init", "no/such/folder.yaml", cwd=tmp_path).returncode == 2


def test_check_knows_profiles_of_uperf(tmp_path: Path) -> None:
    profile = Path(__file__).parents[1] / "fixtures" / "uperf" / "connect.xml"
    values = ["--set", "nthr=2", "--set", "iter=5", "--set", "proto=tcp"]
    checked = iodyno("check", str(profile), *values, "--json", cwd=tmp_path)
    assert (checked.returncode, json.loads(checked.stdout or "{}").get("ok")) == (0, True), checked.stderr
    lacking = iodyno("check", str(profile), *values[2:], cwd=tmp_path)
    assert lacking.returncode == 2
    assert "connect.xml:3: the variable $nthr has no value" in lacking.stderr
    refused = iodyno("check", STUDY, "--set", "h=x")
    assert refused.returncode == 2
    assert "--set can only be used with a profile of uperf" in refused.stderr


def test_check_as_json_and_with_mistakes(tmp_path: Path) -> None:
    summary = json.loads(iodyno("check", STUDY, "--quick", "--json").stdout)
    assert summary["ok"] is True
    assert (summary["points"], summary["trials"], summary["quick"]) == (30, 90, True)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(
        Path(STUDY).read_text().replace("size:", "sise:").replace("replicates: 3", "replicates: 0")
    )
    shown = iodyno("check", str(wrong))
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert f"{wrong}: 2 mistakes" in shown.stderr
    assert "did you mean 'size'?" in shown.stderr
    told = iodyno("check", str(wrong), "--json")
    assert told.returncode == 2 and told.stderr == shown.stderr
    found = json.loads(told.stdout)
    assert found["ok"] is False and found["file"] == str(wrong)
    lines = wrong.read_text().splitlines()
    assert [one["key"] for one in found["mistakes"]] == ["factors.sise", "design.replicates"]
    assert [lines[one["line"] - 1].split()[0] for one in found["mistakes"]] == ["sise:", "design:"]
    none = iodyno("check", str(tmp_path / "none.yaml"), "--json")
    assert none.returncode == 2 and json.loads(none.stdout)["mistakes"][0]["line"] is None


def test_an_experiment_is_read_from_stdin(tmp_path: Path) -> None:
    text = Path(STUDY).read_text()
    for command in ("check", "plan"):
        shown = iodyno(command, "-", "--quick", "--json", input=text, cwd=tmp_path)
        named = iodyno(command, STUDY, "--quick", "--json")
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout) | {"file": ""} == json.loads(named.stdout) | {"file": ""}
    done = iodyno("run", "-", "--json", input=SIMULATED, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / json.loads(done.stdout)["campaign"]
    assert (folder / "experiment.yaml").read_text() == SIMULATED
    wrong = iodyno("check", "-", input=text.replace("size:", "sise:"))
    assert wrong.returncode == 2 and "error: -:" in wrong.stderr and "did you mean 'size'?" in wrong.stderr


def test_plan_says_the_same_as_text_json_and_csv() -> None:
    text = iodyno("plan", STUDY, "--quick").stdout
    plan = json.loads(iodyno("plan", STUDY, "--quick", "--json").stdout)
    rows = list(csv.DictReader(io.StringIO(iodyno("plan", STUDY, "--quick", "--format", "csv").stdout)))
    assert "30 points x 3 replicates = 90 trials" in text
    assert len(plan["points"]) == 30
    assert [row["point"] for row in rows] == [trial["point"] for trial in plan["trials"]]
    levels = {point["id"]: point["levels"] for point in plan["points"]}
    assert all(int(row["size"]) == levels[row["point"]]["size"] for row in rows)
    assert plan["points"][0]["labels"] == {"size": "64KiB", "connections": "1", "window": "256KiB"}
    assert plan["duration"]["load_ns"] == 90 * 1_050_000_000 < 180 * 10**9
    assert "1 min 34 s under load" in text


def test_plan_says_when_the_quick_form_was_made_up(tmp_path: Path) -> None:
    file = tmp_path / "plain.yaml"
    file.write_text(Path(STUDY).read_text().split("\nquick:")[0])
    shown = iodyno("plan", str(file), "--quick")
    assert "note: the file has no quick section" in shown.stderr
    assert "note" not in shown.stdout


def test_the_schema_is_json() -> None:
    assert json.loads(iodyno("schema").stdout)["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    assert "_IODYNO_COMPLETE" in iodyno("completion", shell).stdout


def test_completion_finds_commands_and_options() -> None:
    asked = {**os.environ, "_IODYNO_COMPLETE": "bash_complete"}
    first = iodyno(env={**asked, "COMP_WORDS": "iodyno re", "COMP_CWORD": "1"})
    assert first.stdout.split() == ["plain,record", "plain,report", "plain,restore"]
    option = iodyno(env={**asked, "COMP_WORDS": "iodyno plan --q", "COMP_CWORD": "2"})
    assert option.stdout.split() == ["plain,--quick"]
    level = iodyno(env={**asked, "COMP_WORDS": "iodyno rr --server-engine recvm", "COMP_CWORD": "3"})
    assert level.stdout.split() == ["plain,recvmsg", "plain,recvmmsg"]


def test_completion_finds_campaigns(tmp_path: Path) -> None:
    for name in ("campaigns/a-1", "campaigns/a-2", "b-1", "other/deep/c-1"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "campaign.json").touch()
    asked = {**os.environ, "_IODYNO_COMPLETE": "bash_complete"}

    def found(*words: str) -> list[str]:
        typed = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return iodyno(env={**asked, **typed}, cwd=tmp_path).stdout.split()

    assert found("iodyno", "report", "camp") == ["plain,campaigns/a-1", "plain,campaigns/a-2"]
    assert found("iodyno", "run", "x.yaml", "--resume", "campaigns/a-2") == ["plain,campaigns/a-2"]
    assert found("iodyno", "watch", "b") == ["plain,b-1"]
    assert found("iodyno", "report", "oth") == ["dir,oth"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--connections", "0"], "invalid value '0' for --connections: expected 1 to 1000000"),
        (["--connections", "1000000001"], "expected 1 to 1000000"),
        (["--size", "64Kib"], "invalid value '64Kib' for --size: unknown unit 'Kib'; expected one of "),
        (["--engine", "thread"], "invalid value 'thread' for --engine: expected threads, epoll"),
        (["--window", "64k", "--send-buffer", "32k"], "expected --window alone, or the two buffers"),
        (["--seconds", "0"], "invalid value '0.0' for --seconds: expected a number"),
        (["--repeat", "0"], "invalid value '0' for --repeat: expected a whole number"),
        (["--to", "me@there:port"], "invalid value 'me@there:port' for --to: expected [USER@]HOST[:PORT]"),
        (["there", "--to", "elsewhere"], "--to cannot be used with HOST"),
    ],
)
def test_tcp_refuses_a_wrong_option_by_its_name(words: list[str], said: str, tmp_path: Path) -> None:
    shown = iodyno("tcp", *words, cwd=tmp_path)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert shown.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rr --connect --queue-depth 4", "--queue-depth: cannot be used with connect request response"),
        ("rr --transport udp --size 10B", "invalid value '10B' for --size: expected 24 to 65507: a datagram"),
        ("rr --sizes uniform(64,900) --size 100", "--sizes cannot be used with --size"),
        ("rr --batch 8", "--batch can only be used with calls that take several messages"),
        ("rr --transport udp --block-packets 16", "--block-packets can only be used with"),
        ("tcp --transport unix --link-delay 20ms", "--link-delay: data by unix does not go by the path"),
        ("search --goal loss=0", "--goal: nothing is lost over tcp"),
        (
            "search --goal p99<=1ms --arrivals closed",
            "--arrivals: with arrivals: closed nothing comes at a rate",
        ),
        ("search --goal p99<=0ms", "invalid value 'p99<=0ms' for --goal: expected a time above 0"),
    ],
)
def test_what_could_never_be_measured_is_refused_by_the_option_that_asks_for_it(
    words: str, said: str, tmp_path: Path
) -> None:
    shown = iodyno(*words.split(), cwd=tmp_path)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert "iodyno rr:" not in shown.stderr, "nobody wrote a file with lines"
    assert not list(tmp_path.iterdir())


def test_tcp_asks_for_what_its_options_say() -> None:
    levels = {"connections": "4", "size": "64KiB", "engine": "epoll", "nagle": False, "window": "256k"}
    mapping = quick.tcp(levels, seconds=5, to="ssh:me@there:2222", repeat=3, profile=False)
    experiment = parse_experiment(experiment_text(mapping), environment={})
    assert [(factor.name, factor.levels) for factor in experiment.factors] == [
        ("connections", (4,)),
        ("size", (65536,)),
    ]
    assert experiment.workload.settings == {"engine": "epoll", "nagle": False, "window": 262144}
    assert experiment.windows.measured_ns == 5 * 10**9
    assert experiment.windows.measured_ns // experiment.windows.interval_ns == 10
    assert experiment.design.replicates == 3
    assert experiment.hosts["client"].access == "local"
    assert experiment.hosts["server"].options == {"to": "me@there", "port": 2222}
    local = quick.tcp({"connections": "1", "size": "1k"}, seconds=0.1, to=None, repeat=1, profile=True)
    assert {host["access"] for host in local["hosts"].values()} == {"netns"}
    assert parse_experiment(experiment_text(local), environment={}).windows.interval_ns == 10_000_000
    datagrams = quick.tcp({"connections": "1", "transport": "udp"}, seconds=1, to=None, repeat=1)
    assert {"datagrams_per_s", "loss_ratio"} <= set(datagrams["outcomes"])
    assert "loss_ratio" not in local["outcomes"]
    parse_experiment(experiment_text(datagrams), environment={})


def test_rr_asks_for_what_its_options_say() -> None:
    levels = {"transport": "tcp", "connections": "64", "size": "512B", "engine": "epoll"} | {
        "response_size": "1024"
    }
    open_loop = quick.rr({**levels, "rate": "20000/s", "arrivals": "poisson"}, seconds=5, to=None, repeat=1)
    asked = parse_experiment(experiment_text(open_loop), environment={})
    assert asked.workload.kind == "request_response"
    assert asked.workload.settings["rate"] == 20_000 and asked.workload.settings["response_size"] == 1024
    connecting = quick.rr(levels, seconds=5, to=None, repeat=1, connect=True)
    assert parse_experiment(experiment_text(connecting), environment={}).workload.kind == (
        "connect_request_response"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rr", "--rate", "fast"], "invalid value 'fast' for --rate: expected a rate per second"),
        (
            ["rr", "--server-engine", "recvmsgs"],
            "'recvmsgs' for --server-engine: expected recvfrom, recvmsg",
        ),
        (["search"], "--goal"),
        (["search", "--goal", "p98 <= 1ms"], "invalid value 'p98 <= 1ms' for --goal: expected loss = 0"),
        (["search", "--goal", "loss = 0", "--goal", "p99 <= 1ms"], "for --goal"),
        (
            ["search", "--goal", "loss = 0", "--min-load", "9", "--max-load", "8"],
            "expected a min-load below the max-load",
        ),
    ],
)
def test_rr_and_search_refuse_a_wrong_option_by_its_name(words: list[str], said: str, tmp_path: Path) -> None:
    shown = iodyno(*words, cwd=tmp_path)
    assert shown.returncode == 2
    assert said in shown.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("tcp", "--seconds", "soon"),
            "invalid value 'soon' for --seconds: expected a number from 0.1 to 86400\n  try: iodyno tcp --help",
        ),
        (("tcp", "--seconds", "50ms"), "'0.05' for --seconds: expected a number from 0.1 to 86400"),
        (("tcp", "--repeat", "0"), "'0' for --repeat: expected a whole number from 1 to 1000"),
        (("trace", "block", "--seconds", "0"), "'0.0' for --seconds: expected a number above 0"),
        (("completion", "zs"), "'zs' for SHELL: expected one of bash, zsh, fish; did you mean 'zsh'?"),
        (("tcp", "--connections", "four"), "invalid value 'four' for --connections: expected a whole number"),
        (("tcp", "--size", "64KB"), "G, g, GiB, GB, T, t, TiB, TB; did you mean 64KiB, or 64kB?"),
        (
            ("rr", "--rate", "1000/s", "--arrivals", "poison"),
            "poisson, bursty, trace(file); did you mean 'poisson'?",
        ),
        (("run", "studies/tcp-trasmit.yaml"), "did you mean studies/tcp-transmit.yaml?"),
        (("plan", "tcp-transmit"), "did you mean studies/tcp-transmit.yaml?"),
        (("run", "profile.xml", "--set", "n=1"), "profile.xml: cannot be read: No such file or directory"),
    ],
)
def test_what_is_typed_wrong_is_said_with_what_is_right(words: tuple[str, ...], said: str) -> None:
    shown = iodyno(*words, cwd=ROOT)
    assert shown.returncode == 2
    assert f"{said}\n" in shown.stderr
    assert shown.stderr.startswith("iodyno: error: ") and "Traceback" not in shown.stderr


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (tcp.command, "stream"),
        (rr.command, "request_response"),
        (search.command, "request_response"),
        (disk.command, "disk"),
    ],
)
def test_the_word_of_an_option_leads_to_the_key_of_a_file(command: click.Command, kind: str) -> None:
    keys = [parameter.name for parameter in WORKLOADS[kind].parameters]
    for option in command.params:
        word = option.opts[0].removeprefix("--").replace("-", "_")
        if option.name in keys and word not in keys:
            assert f"expected {option.name}, which is the option {option.opts[0]}" in unknown_key(word, keys)


def test_what_is_near_to_nothing_is_not_proposed() -> None:
    goal = iodyno("search", "--goal", "p98 <= 1ms")
    assert goal.returncode == 2 and "p99 <= 1ms" in goal.stderr and "did you mean" not in goal.stderr
    unit = iodyno("tcp", "--size", "64XB")
    assert unit.returncode == 2 and "unknown unit 'XB'" in unit.stderr and "did you mean" not in unit.stderr
    assert "did you mean 64KiB?" in iodyno("tcp", "--size", "64kib").stderr


def test_a_share_above_all_of_it_needs_its_sign(tmp_path: Path) -> None:
    for written in ("5", "1", "99"):
        refused = iodyno("plan", STUDY, "--noise", written)
        assert refused.returncode == 2
        assert f"did you mean {written}%?" in refused.stderr
    assert iodyno("plan", STUDY, "--noise", "120%").returncode == 0
    wide = iodyno("search", "--goal", "loss = 0", "--width", "60%", cwd=tmp_path)
    assert (wide.returncode, "expected a share from 0.001 to 0.5" in wide.stderr) == (2, True)


def test_convert_says_what_it_takes_of_a_file_that_is_none_of_it() -> None:
    refused = iodyno("convert", STUDY)
    assert refused.returncode == 2
    assert "a job file of fio (.fio, .job, .ini)" in refused.stderr
    assert "iodyno check" in refused.stderr


def test_help_of_run_sets_apart_what_holds_for_designs_and_for_files_of_other_tools() -> None:
    shown = iodyno("run", "--help").stdout
    general, _, rest = shown.partition("\nOptions of the design:\n")
    design, _, foreign = rest.partition("\nOptions of files of other tools")
    assert "--resume" in general.partition("\nOptions:\n")[2]
    assert max(map(len, shown.splitlines())) <= 80
    assert "--resolution" in design
    for option in ("--repeat", "--limit", "--to", "--set", "--section", "--seconds", "--target"):
        assert f"\n  {option} " in foreign, option
        assert f"\n  {option} " not in general


@pytest.mark.parametrize(
    ("command", "older"),
    [("run", "--remove-targets"), ("run", "--remove-files"), ("disk", "--remove-target")],
)
def test_an_older_word_of_an_option_is_taken_and_not_shown(command: str, older: str, tmp_path: Path) -> None:
    assert older not in iodyno(command, "--help").stdout
    rest = ["no-such.yaml"] if command == "run" else ["--target", "null"]
    for word in (older, "--remove"):
        said = iodyno(command, *rest, word, cwd=tmp_path).stderr
        assert "unknown option" not in said
        assert ("cannot be read" if command == "run" else "--remove removes a file") in said


SIMULATED = """\
name: sim
hosts:
  client: {access: simulated}
  server: {access: simulated}
workload: {kind: stream, sender: client, receiver: server}
factors: {size: [1KiB, 64KiB]}
design: {replicates: 1}
windows: {warm_up: 100ms, measured: 300ms, drain: 50ms, interval: 100ms}
limits: {background_window: 100ms}
"""


def test_a_log_that_is_full_stops_no_campaign(tmp_path: Path) -> None:
    (tmp_path / "sim.yaml").write_text(SIMULATED)
    command = [*command_server.iodyno(), "run", "sim.yaml", "--json"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=full, timeout=600)
    assert done.returncode == 0
    told = json.loads(done.stdout)
    assert told["finished"] is True and told["finished_trials"] == 2


def test_an_output_that_cannot_be_written_is_an_error_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()", "check", STUDY]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 6
    assert "No space left on device" in done.stderr and "Traceback" not in done.stderr
    # A shell's `>&-` leaves no stdout at all.
    closed = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], capture_output=True, text=True)
    assert closed.returncode == 0 and not closed.stderr


def test_the_command_that_goes_on_has_all_options_and_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my sim.yaml"
    file.write_text(SIMULATED)

    def stopped(*_: object, again: str, **__: object) -> None:
        raise Interrupted("stopped", advice=again)

    monkeypatch.setattr("iodyno.cli.execute.execute", stopped)
    into = ("--into", str(tmp_path / "sp ace"))
    asked = ("--prove", "--destroy", "/dev/a b", "--destroy", "/dev/c", "--remove")
    assert front.run(["run", str(file), *asked, *into]) == 130
    words = shlex.split(capsys.readouterr().err.partition("try: ")[2])
    assert words[:3] == ["iodyno", "run", str(file)]
    assert words[3:-2] == list(asked) and Path(words[-1]).parent == tmp_path / "sp ace"
    ladder = (
        "--quick",
        "--point",
        "size=1KiB",
        "--blocks",
        "2",
        "--restarts",
        "1",
        "--trials",
        "2",
        "--pause",
        "0.5",
    )
    assert front.run(["noise", str(file), *ladder, *into]) == 130
    words = shlex.split(capsys.readouterr().err.partition("try: ")[2])
    assert words[3:-2] == list(ladder)


def test_a_ladder_of_which_trials_failed_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sim.yaml").write_text(SIMULATED)

    def one_failed(experiment: object, design: object, folder: Path, **_: object) -> CampaignOutcome:
        return CampaignOutcome(folder, 3, (Entry(3, "failed", 2, "transport: cut", "trials/00003-2"),))

    monkeypatch.setattr("iodyno.cli.execute.execute", one_failed)
    monkeypatch.setattr("iodyno.cli.noise._show", lambda *_, **__: print("the ladder"))
    words = ("--blocks", "2", "--restarts", "1", "--trials", "2", "--into", str(tmp_path))
    assert front.run(["noise", str(tmp_path / "sim.yaml"), *words]) == 5
    shown = capsys.readouterr()
    assert shown.out == "the ladder\n"
    assert "1 of 4 trials failed" in shown.err and "--resume" in shown.err


def test_the_first_attempts_reason_stands_beside_that_of_the_last(tmp_path: Path) -> None:
    entry = Entry(3, "failed", 2, "target: it is 0 bytes long", "trials/00003-2")
    outcome = CampaignOutcome(tmp_path, 3, (entry,))
    for attempt, what in ((1, "a read at 4096 failed"), (2, "it is 0 bytes long")):
        place = tmp_path / "trials" / f"00003-{attempt}"
        place.mkdir(parents=True)
        reason = {"code": "target", "what": what, "where": "x", "advice": "y"}
        (place / "manifest.json").write_text(json.dumps({"reason": reason}))
    told = str(failed(outcome, 4, tmp_path, "again"))
    assert (
        "first of them: target: it is 0 bytes long; its first attempt: target: a read at 4096 failed" in told
    )
    (tmp_path / "trials" / "00003-1" / "manifest.json").write_text(json.dumps({"reason": reason}))
    assert "its first attempt" not in str(failed(outcome, 4, tmp_path, "again")), (
        "the same reason is said once"
    )


def test_how_intervals_were_made_is_said_with_the_outcomes_where_there_are_several_ways() -> None:
    way = "t interval over 3 trials"
    alike = {"goodput_bits_per_s": way, "client.cpu_ns_per_kib": f"{way}; tier bpf"}
    assert _methods(alike) == [f"intervals: 95 %, {way}", "client: tier bpf"]
    apart = {**alike, "p99_ns": "order statistics", "server.cpu_ns_per_kib": "no interval: one trial"}
    assert _methods(apart) == [
        f"intervals of goodput_bits_per_s, client.cpu_ns_per_kib: 95 %, {way}",
        "intervals of p99_ns: 95 %, order statistics",
        "no interval: one trial (server.cpu_ns_per_kib)",
        "client: tier bpf",
    ]
