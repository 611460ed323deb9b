"""Messages and pages say what was written and what is meant, in people's words."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.cli import disk, heatmap, record, report, rr, tcp
from iodyno.cli.complaint import OF_OTHER_TOOLS
from iodyno.cli.lazy import CommandEntry
from iodyno.cli.main import COMMANDS, run
from iodyno.cli.model import MODELS
from iodyno.core.outcome import Estimate
from iodyno.report.form import FORMS
from iodyno.report.headline import headline, shortened
from iodyno.report.limiter import name_of
from iodyno.report.method import method_rows
from iodyno.report.path_facts import path_rows

HEAD = """
name: plain
question: {question}
hosts: {{client: {{access: simulated}}, server: {{access: simulated}}}}
workload: {{kind: stream, sender: client, receiver: server{more}}}
"""


def written(folder: Path, text: str) -> str:
    path = folder / "plain.yaml"
    path.write_text(text)
    return str(path)


def test_a_file_in_the_place_of_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [({"connections": 1, "size": 65536}, Truth())]
    folder = make_campaign(tmp_path / "c", points, layout=Layout(intervals=2, replicates=1))
    assert run(["report", str(folder / "experiment.yaml")]) == 6
    error = capsys.readouterr().err
    assert "is a file, where the folder of a campaign is needed" in error
    assert f"name the folder that it lies in: {folder}" in error
    assert run(["watch", str(folder / "experiment.yaml"), "--terminal"]) in (2, 6)


def test_a_campaign_with_a_typo_is_answered_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    points = [({"connections": 1, "size": 65536}, Truth())]
    make_campaign(Path("campaigns", "tcp-transmit-1"), points, layout=Layout(intervals=2, replicates=1))
    for typed in ("campaigns/tcp-transmti-1", "campagins/tcp-transmit-1"):
        assert run(["report", typed]) == 6
        assert "there is no such folder; did you mean campaigns/tcp-transmit-1?" in capsys.readouterr().err
    assert run(["report", "elsewhere"]) == 6
    assert "did you mean" not in capsys.readouterr().err


def test_init_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", ""]) == 2
    assert "invalid value for FILE: an empty name" in capsys.readouterr().err


def test_a_folder_with_a_typo_is_not_its_own_correction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "plain.yaml").write_text("")
    assert run(["check", "studeis/plain.yaml"]) == 2
    assert "did you mean studies/plain.yaml?" in capsys.readouterr().err
    (tmp_path / "folder.yaml").mkdir()
    assert run(["check", "folder.yaml"]) == 2
    assert "did you mean folder.yaml" not in capsys.readouterr().err


def test_a_question_has_no_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, HEAD.format(question='"what\\0 is \\e[31m it?"', more=""))
    assert run(["check", file]) == 2
    error = capsys.readouterr().err
    assert "without control characters" in error and "\0" not in error and "\x1b[31m" not in error


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", transport: udp, size: 128KiB", "'128KiB' for workload.size: expected 24 to 65507: a datagram"),
        ("\nfactors: {size: [1KiB, 64KiB]}\ndesign: {kind: one_factor, base: {size: 8KiB}}", "'8KiB' for design.base.size: expected a level"),  # noqa: E501
    ],
)  # fmt: skip
def test_mistakes_show_levels_as_they_were_written(
    tmp_path: Path, more: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    head, _, tail = more.partition("\n")
    text = HEAD.format(question="What?", more=head) + tail + "\n"
    assert run(["plan", written(tmp_path, text)]) == 2
    assert said in capsys.readouterr().err


def test_one_is_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points = [({"connections": 1, "size": 65536}, Truth())]
    folder = make_campaign(tmp_path / "c", points, layout=Layout(intervals=2, replicates=1))
    assert run(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert "1 of 1 trial finished" in page and "1 point, 1 trial planned" in page


def test_facts_of_a_path_have_titles_and_words() -> None:
    path = {
        "kind": "volume",
        "address": "198.18.0.1",
        "addresses": [],
        "device": False,
        "ready_s": 0.156,
        "server_namespace": "iodyno-nbd",
        "settings": {"net.core.wmem_max": {"asked": "67108864", "obtained": "4194304"}},
        "unheard_of": 3,
    }
    assert path_rows(path, "198.18.0.1") == [
        ("Path", "a volume that iodyno made"),
        ("A block device", "no"),
        ("Time to make it", "0.156 s"),
        ("Network namespace of the server", "iodyno-nbd"),
        ("Kernel settings", "net.core.wmem_max = 4194304 (asked 67108864)"),
        ("Path: unheard of", "3"),
    ]


def test_the_method_and_the_evidence_are_in_peoples_words(tmp_path: Path) -> None:
    points = [({"connections": n, "size": 65536, "nagle": False}, Truth()) for n in (1, 4)]
    folder = make_campaign(tmp_path / "c", points, layout=Layout(intervals=6, replicates=1))
    assert run(["report", str(folder)]) == 0
    summary = analyse(read_dataset(folder))
    load = dict(
        method_rows(
            replace(summary, workload={**summary.workload, "settings": {"nagle": True, "size": 65536}})
        )
    )
    assert "nagle on, size 64KiB" in load["Load"]
    assert "lag-1" not in load["Intervals (95 %)"]
    assert load["Intervals (95 %)"].count("batch means over 6 intervals of one trial") == 1
    assert name_of("client.idle_ratio_of_cpus") == "client: idle ratio of CPUs"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("rr --flows 4", "unknown option '--flows': expected --connections\n"),
        ("tcp -P 4", "unknown option '-P': expected --connections\n"),
        ("tcp -c 10.0.0.2", "unknown option '-c': expected HOST\n"),
        ("disk -c 10.0.0.2", "unknown option '-c': expected --on\n"),
        ("rr -t 5", "unknown option '-t': expected --seconds\n"),
        ("tcp -u", "unknown option '-u': expected --transport udp\n"),
        ("tcp --bs 4k", "unknown option '--bs': expected --size\n"),
        ("disk --bs 4k", "unknown option '--bs': expected --block\n"),
        ("disk --engine libaio", "unknown option '--engine': expected --syscalls\n"),
        ("disk 10.0.0.2", "a target is named by --target, a host by --on\n"),
        ("disk --iodepth 4", "unknown option '--iodepth': expected --queue-depth\n"),
        ("record --seconds 2", "unknown option '--seconds': expected --for\n"),
        ("report -o page.html", "unknown option '-o': expected --html\n"),
        ("heatmap --unitstime us", "unknown option '--unitstime': expected --time-unit\n"),
        ("tcp --filename x", "unknown option '--filename'\n"),
        ("tcp --conections 4", "unknown option '--conections'; did you mean '--connections'?\n"),
    ],
)
def test_an_option_of_another_tool_is_answered_with_ours(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    assert said in capsys.readouterr().err


def test_options_of_other_tools_stand_for_some_of_ours() -> None:
    commands = (tcp.command, rr.command, disk.command, record.command, report.command, heatmap.command)
    ours = [
        {o for each in command.params for o in (*each.opts, *each.secondary_opts)} for command in commands
    ]
    named = {text.split()[0].rstrip(":,") for texts in OF_OTHER_TOOLS.values() for text in texts}
    assert named - {"HOST"} <= set().union(*ours)
    assert not {*OF_OTHER_TOOLS} & set.intersection(*ours)


STREAMS = {"heatmap", "watch", "trace", "convert", "schema", "completion", "init", "model", "pdq"}
"""Commands that draw, follow, write a file or run a script: they answer with no table."""


@pytest.mark.parametrize(
    "entry", [each for each in (*COMMANDS, *MODELS) if each.name not in STREAMS], ids=lambda each: each.name
)
def test_every_command_that_answers_has_the_four_forms_in_one_option(entry: CommandEntry) -> None:
    module, _, attribute = entry.place.partition(":")
    command = getattr(import_module(module), attribute)
    forms = {option: each for each in command.params if each.name == "form" for option in each.opts}
    assert {*forms} == {"--format", "--json"}
    assert [*FORMS] == [*forms["--format"].type.choices][: len(FORMS)]
    assert not {"--csv", "--markdown"} & {o for each in command.params for o in each.opts} or entry.name in (
        "fit",
        "cost",
    )


@pytest.mark.parametrize(
    ("low", "shown"), [(None, "of 1 of 3 trials"), (350.0, "[350, 450] of 2 of 3 trials")]
)
def test_an_estimate_of_some_trials_says_of_how_many(low: float | None, shown: str, tmp_path: Path) -> None:
    truth = Truth(background=0.0)
    made = analyse(read_dataset(make_campaign(tmp_path / "c", [({"connections": 1, "size": 65536}, truth)])))
    (point,), made = made.points, replace(made, windows={"measured_ns": 10**9})
    cost = Estimate(400.0, low, low and 450.0, 2 if low else 1, "ns/KiB", "t")
    of_some = replace(point, outcomes={**point.outcomes, "client.cpu_ns_per_kib": cost})
    for each, said in ((of_some, shown), (point, "")):
        rows = dict(headline(replace(made, points=(each,)), "c").rows)
        assert (" of 3 trials" in rows["Sender"][1]) == bool(said) and said in rows["Sender"][1]
        assert "trials" not in rows["Throughput"][1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short enough, as it is", "short enough, as it is"),
        (
            "no value in any trial: " + "w " * 60,
            "no value in any trial: " + "w " * 60,
        ),  # no end is far enough
        ("the window is too short for it. " + "A longer one has more. " * 4, ("A longer one has more ...")),
        (
            "the load fell behind, as one of its threads (of 4, on two CPUs) waited " + "x" * 60 + ", so",
            "x ...",
        ),
        (
            "it waited for (all of them, " + "y" * 90 + ") and then it went on, which is the end",
            "went on ...",
        ),
    ],
)
def test_a_long_reason_ends_where_a_part_of_its_sentence_does(text: str, shown: str) -> None:
    said = shortened(text)
    assert said.endswith(shown) and said.count("(") == said.count(")")
    assert said == text or text.removeprefix(said.removesuffix(" ..."))[:2] in (". ", "; ", ": ", ", ")
