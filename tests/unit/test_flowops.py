"""A personality over a simulated host: what is stored of each flowop comes up in the report with its known truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iodyno.analysis.dataset import read_dataset
from iodyno.cli.main import run as iodyno
from iodyno.formats.experiment_file import read_experiment
from iodyno.loads.files.analysis.flowops import programs_of

PROGRAM = """set $files=10
set $threads=2
define fileset name=tree,path=/srv,size=4k,entries=$files,dirwidth=20,prealloc
define flowop name=twice, $set { flowop readwholefile name=take,filesetname=$set,fd=1,iosize=8k,iters=2 }
define process name=p { thread name=t,instances=$threads {
  flowop openfile name=open,filesetname=tree,fd=1
  flowop twice name=both,iters=3,$set=tree
  flowop closefile name=shut,fd=1
  flowop statfile name=shut,filesetname=tree
} }
"""
EXPERIMENT = """name: files
hosts: {{client: {{access: simulated{count}}}}}
workload: {{kind: files, hosts: client, target: /srv/t, program: p.f, files: 20}}
factors: {{threads: [1, 4]}}
design: {{replicates: 2}}
windows: {{warm_up: 0s, measured: 1s, drain: 0s, interval: 100ms}}
"""


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and all output of a command."""
    capsys.readouterr()
    code = iodyno([*words])
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def run(tmp_path: Path, count: str = "") -> Path:
    (tmp_path / "p.f").write_text(PROGRAM)
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(count=count))
    assert iodyno(["run", str(tmp_path / "e.yaml"), "--into", str(tmp_path / "out"), "--json"]) == 0
    return next((tmp_path / "out").iterdir())


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("flowops"), ", count: 2")


def test_every_flowop_has_its_rate_times_and_bytes(campaign: Path) -> None:
    first, second = programs_of(read_dataset(campaign))
    assert [dict(p.labels) for p in (first, second)] in (
        [{"threads": "1"}, {"threads": "4"}],
        [{"threads": "4"}, {"threads": "1"}],
    )
    assert first.trials == 2
    assert [(f.name, f.call) for f in first.flowops] == [
        ("open", "openfile"), ("take", "readwholefile"), ("shut", "closefile"), ("shut", "statfile"),
    ]  # fmt: skip
    opened, taken, *_ = first.flowops
    # The composite flowop is done three times, and reads twice each time.
    assert taken.rate_per_s.estimate == pytest.approx(6 * (opened.rate_per_s.estimate or 0), rel=0.01)
    assert taken.bytes_per_s.estimate == pytest.approx(8192 * (taken.rate_per_s.estimate or 0))
    assert taken.bytes == 8192 * taken.operations
    assert first.together.operations == sum(f.operations for f in first.flowops)
    one_thread = min((first, second), key=lambda p: p.labels["threads"]).flowops[0]
    assert one_thread.mean_ns.estimate == pytest.approx(80_000, rel=0.01)


def test_the_campaign_is_complete_in_its_folder(campaign: Path) -> None:
    (campaign.parents[1] / "p.f").unlink()
    again = read_experiment(campaign / "experiment.yaml")
    assert again.workload.program is not None
    assert again.workload.settings["files"] == 20
    header = json.loads((campaign / "campaign.json").read_text())
    assert header["experiment"]["workload"]["variables"]["threads"] == "count"


def test_the_report_has_a_row_for_each_flowop_and_the_summary_line(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = command(capsys, "report", str(campaign))
    assert code == 0
    for words in ("Flowops, threads 1", "readwholefile", "IO Summary, threads 4:", "reads"):
        assert words in shown
    capsys.readouterr()
    assert iodyno(["report", str(campaign), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"][0]["flowops"][1]["name"] == "take"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("files: 20", "fils: 20"), "fils"),
        (("program: p.f", "program: q.f"), "q.f"),
        (("p.f, files: 20", "p.f"), None),
        (("threads: [1, 4]", "threads: [1, -4]"), "invalid value -4"),
        (("program: p.f, ", ""), "the file of a personality, or its text"),
        (("hosts: client", "hosts: server"), "invalid value 'server' for workload.hosts: expected client"),
    ],
)
def test_a_mistake_in_the_experiment_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], said: str | None
) -> None:
    (tmp_path / "p.f").write_text(PROGRAM)
    (tmp_path / "e.yaml").write_text(EXPERIMENT.format(count="").replace(*change))
    code, shown = command(capsys, "check", str(tmp_path / "e.yaml"))
    assert code == (0 if said is None else 2), shown
    assert said is None or said in shown


def test_the_commands_take_a_personality_and_refuse_what_is_not_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.f").write_text(PROGRAM)
    (tmp_path / "j.fio").write_text("[j]\nfilename=x\nsize=1m\n")
    file, job = str(tmp_path / "p.f"), str(tmp_path / "j.fio")
    code, shown = command(capsys, "check", file, "--target", str(tmp_path), "--set", "threads=3")
    assert code == 0, shown
    assert "it runs for 60 s" in shown
    code, shown = command(capsys, "convert", file, "--target", "/t")
    assert code == 0, shown
    assert "threads: [2]" in shown
    for words, needed in (
        (("run", file, "--resume", str(tmp_path)), "--resume and a design cannot be used with"),
        (("check", file, "--section", "x"), "can only be used with a job file of fio"),
        (("check", job, "--set", "a=1"), "can only be used with a personality of Filebench"),
        (("check", job, "--section", "k"), "unknown job k: expected j"),
        (
            ("check", file, "--set", "thread=3"),
            "expected files, threads; did you mean 'threads'?",
        ),
    ):
        code, shown = command(capsys, *words)
        assert code == 2, shown
        assert needed in shown
