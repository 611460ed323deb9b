"""Designs as files: what is written is read back, what other programs write is understood, the campaign keeps the design."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import click
import hypothesis.strategies as st
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from iodyno.cli.design_options import planned
from iodyno.cli.main import iodyno as command
from iodyno.core.errors import ExperimentError, StoreError
from iodyno.formats.experiment_file import parse_experiment, with_design
from iodyno.report.form import csv_text
from iodyno.report.planned import trial_rows

HEAD = """name: made
hosts: {a: {access: simulated}, b: {access: simulated}}
workload: {kind: stream, sender: a, receiver: b}
windows: {warm_up: 0s, measured: 200ms, drain: 0s, interval: 100ms}
"""
FACTORS = """factors:
  size: [1KiB, 8KiB, 64KiB]
  nagle: [on, off]
  connections: {levels: [1, 8], together: {window: [256k, 32k]}}
  congestion_control: [cubic, reno]
  think: [0s, 5ms]
"""
FIVE = HEAD + FACTORS
STUDIES = Path(__file__).parents[2] / "studies"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    file = tmp_path / "made.yaml"
    file.write_text(FIVE)
    return file


def said(*arguments: str) -> str:
    """What the command prints. Errors of users are raised."""
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.stdout


KINDS = st.sampled_from(
    [
        {"kind": "full_factorial"},
        {"kind": "full_factorial", "slow": ["nagle"], "replicates": 2},
        {"kind": "fractional", "resolution": 5},
        {"kind": "fractional", "resolution": 3, "split": 2},
        {"kind": "plackett_burman"},
        {"kind": "one_factor"},
        {"kind": "d_optimal", "runs": 20},
        {"kind": "ladder", "along": "size", "direction": "up_down"},
    ]
)


@given(design=KINDS, replicates=st.integers(1, 3), seed=st.integers(0, 2**40))
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_plan_that_was_written_is_read_back_trial_by_trial(
    made: Path, design: dict[str, object], replicates: int, seed: int
) -> None:
    _, one = planned(str(made), design={"replicates": replicates, "seed": seed, **design})
    (made.parent / "design.csv").write_text(csv_text(trial_rows(one)))
    _, other = planned(str(made), design={"kind": "csv", "file": "design.csv"})
    assert {p.id: p.levels for p in other.points} == {p.id: p.levels for p in one.points}
    assert [(t.order, t.point.id, t.replicate) for t in other.trials] == [
        (t.order, t.point.id, t.replicate) for t in one.trials
    ]
    assert [t.block for t in other.trials] == [t.block for t in one.trials]


@given(data=st.data())
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_coded_and_natural_levels_are_the_same_design(made: Path, data: st.DataObject) -> None:
    ends = {
        "size": ("1KiB", "64KiB"), "nagle": ("on", "off"), "connections": ("1", "8"),
        "congestion_control": ("cubic", "reno"), "think": ("0", "5000000"),
    }  # fmt: skip
    names = data.draw(st.permutations(list(ends)))
    codes = data.draw(st.lists(st.tuples(*[st.sampled_from((-1, 1))] * 5), min_size=1, max_size=12))
    codes.append((-1, -1, -1, -1, -1))
    separator = data.draw(st.sampled_from([",", ";", "\t"]))

    def text(rows: list[list[str]]) -> str:
        # As R's write.csv has it: quoted, with names of rows first.
        lines = [["", *names], *([str(n), *row] for n, row in enumerate(rows, 1))]
        return "".join(separator.join(f'"{cell}"' for cell in line) + "\n" for line in lines)

    coded = text([[str(code) for code in row] for row in codes])
    natural = text([[ends[name][code > 0] for name, code in zip(names, row, strict=True)] for row in codes])
    designs = []
    for written in (coded, natural):
        (made.parent / "design.csv").write_text(written)
        designs.append(planned(str(made), design={"kind": "csv", "file": "design.csv"})[1])
    assert designs[0].points == designs[1].points
    assert designs[0].trials == designs[1].trials
    assert len(designs[0].trials) == len(codes)


def test_a_design_with_letters_run_numbers_and_blocks(made: Path) -> None:
    """As FrF2 exports it when the factors have no names."""
    text = (
        '"name","run.no.in.std.order","run.no","run.no.std.rp","A","B","C","D","E","Blocks"\n'
        '"1",3,1,"3.1",-1,1,-1,1,0,"1"\n"2",1,2,"1.1",1,-1,1,1,-1,"1"\n"3",1,3,"1.2",1,-1,1,1,-1,"2"\n'
    )
    (made.parent / "r.csv").write_text(text)
    _, design = planned(str(made), design={"kind": "csv", "file": "r.csv"})
    assert [dict(p.levels) for p in design.points] == [
        {"size": 1024, "nagle": False, "connections": 1, "window": 262144, "congestion_control": "reno", "think": 2500000},
        {"size": 65536, "nagle": True, "connections": 8, "window": 32768, "congestion_control": "reno", "think": 0},
    ]  # fmt: skip
    assert [(t.block, t.replicate, t.point.id) for t in design.trials] == [
        (0, 0, "p01"),
        (0, 0, "p02"),
        (1, 1, "p02"),
    ]


@pytest.mark.parametrize(
    ("text", "skipped"),
    [
        # As Minitab and JMP export a design of two factors, and write.csv of R with a response.
        (
            "StdOrder,RunOrder,CenterPt,Blocks,connections,size\n"
            "3,1,1,1,1,65536\n1,2,1,1,1,1024\n2,3,1,1,4,1024\n4,4,1,1,4,65536\n",
            (),
        ),
        (
            "Pattern,connections,size,Y\n-+,1,65536,.\n--,1,1024,.\n+-,4,1024,.\n++,4,65536,.\n",
            ("Pattern", "Y"),
        ),
        (
            '"","connections","size","y1"\n"1",1,65536,NA\n"2",1,1024,NA\n"3",4,1024,NA\n"4",4,65536,NA\n',
            ("y1",),
        ),
    ],
)
def test_columns_of_other_programs_are_skipped_with_a_note(
    tmp_path: Path, text: str, skipped: tuple[str, ...]
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(HEAD + "factors: {connections: [1, 4], size: [1KiB, 64KiB]}\n")
    (tmp_path / "design.csv").write_text(text)
    asked, design = planned(str(file), design={"kind": "csv", "file": "design.csv"})
    levels = [(t.point.levels["connections"], t.point.levels["size"]) for t in design.trials]
    assert levels == [(1, 65536), (1, 1024), (4, 1024), (4, 65536)]
    notes = [note for note in asked.notes if "skipped" in note]
    assert [note.rpartition(": ")[2] for note in notes] == ([", ".join(skipped)] if skipped else [])
    printed = said("plan", str(file), "--design-file", str(tmp_path / "design.csv"))
    assert "4 trials" in printed


def test_a_column_that_is_nearly_the_name_of_a_missing_factor_is_a_mistake(made: Path) -> None:
    (made.parent / "design.csv").write_text(
        "sise,nagle,connections,congestion_control,think\n1KiB,on,1,reno,0s\n"
    )
    with pytest.raises(ExperimentError, match="did you mean 'size'"):
        planned(str(made), design={"kind": "csv", "file": "design.csv"})


@pytest.mark.parametrize("study", sorted(path.name for path in STUDIES.glob("*.yaml")))
def test_the_plan_of_every_study_is_read_back(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("IODYNO_CLIENT", "IODYNO_SERVER"):
        monkeypatch.setenv(host, "root@localhost")
    file = str(STUDIES / study)
    experiment, one = planned(file)
    if experiment.search is not None:
        return  # Its points are found as it goes: it has no design.
    written = tmp_path / "design.csv"
    written.write_text(csv_text(trial_rows(one)))
    _, other = planned(file, design={"kind": "csv", "file": str(written)})
    assert [(t.block, dict(t.point.levels)) for t in other.trials] == [
        (t.block, dict(t.point.levels)) for t in one.trials
    ]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "size\n", '"size\n1', "\x00", "size,nagle,,\n,,,\n", "a;b,c\n1\n"]
)
def test_what_is_no_design_is_refused(made: Path, text: str) -> None:
    (made.parent / "design.csv").write_text(text)
    with pytest.raises(ExperimentError, match=r"design\.csv"):
        planned(str(made), design={"kind": "csv", "file": "design.csv"})


@given(st.text(alphabet='size,nagle\n";1-+.0eonf\t', max_size=60))
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_any_text_is_a_design_or_one_error(made: Path, text: str) -> None:
    (made.parent / "design.csv").write_text(text)
    try:
        _, design = planned(str(made), design={"kind": "csv", "file": "design.csv"})
    except ExperimentError as error:
        assert error.where
        assert error.advice
    else:
        assert design.trials


def test_the_text_of_the_experiment_has_the_design_in_it(made: Path) -> None:
    (made.parent / "design.csv").write_text(
        "size,nagle,connections,congestion_control,think\n8KiB,on,8,reno,5ms\n"
    )
    experiment, design = planned(str(made), design={"kind": "csv", "file": "design.csv"})
    (made.parent / "design.csv").unlink()
    again = parse_experiment(experiment.text, file="elsewhere.yaml")
    assert again.text == experiment.text
    assert again.design.rows == experiment.design.rows
    assert experiment.text.startswith(FIVE)
    assert design.trials[0].point.levels["size"] == 8192


@pytest.mark.parametrize(
    "text",
    [
        FIVE,
        FIVE + "design: {kind: one_factor, base: {size: 8KiB}, seed: 7}\n",
        HEAD + "design:\n  seed: 7\n  # odd\n  replicates: 2\n\n# what is varied\n" + FACTORS,
        'design: {seed: 7} # this\n"name": made\n' + HEAD.split("\n", 1)[1] + FACTORS,
    ],
)
def test_another_design_leaves_the_rest_of_the_file_alone(text: str) -> None:
    told = with_design(text, {"kind": "fractional", "resolution": 5}, file="FILE")
    before, after = parse_experiment(text), parse_experiment(told)
    assert (after.design.kind, after.design.resolution) == ("fractional", 5)
    assert (after.design.seed, after.design.replicates) == (before.design.seed, before.design.replicates)
    assert after.factors == before.factors
    if "design" in text:
        assert len(told.splitlines()) == len(text.splitlines())
    kept = [
        line
        for line in text.splitlines()
        if line and not line.startswith(("design", "  seed", "  # odd", "  repl"))
    ]
    assert [line for line in told.splitlines() if line and not line.startswith("design")] == kept


def test_a_file_of_one_line_is_written_anew() -> None:
    text = json.dumps({"name": "made", "hosts": {"a": {"access": "local"}, "b": {"access": "local"}},
                       "workload": {"kind": "stream", "sender": "a", "receiver": "b"},
                       "factors": {"size": ["1KiB", "2KiB"]}, "design": {"seed": 3}})  # fmt: skip
    told = parse_experiment(with_design(text, {"kind": "plackett_burman"}, file="FILE"))
    assert (told.design.kind, told.design.seed, told.name) == ("plackett_burman", 3, "made")


def test_options_of_the_command_are_keys_of_the_file(made: Path) -> None:
    options = [
        "--design",
        "fractional",
        "--resolution",
        "V",
        "--replicates",
        "2",
        "--split",
        "2",
        "--seed",
        "9",
    ]
    plan = json.loads(said("plan", str(made), *options, "--noise", "5%", "--effect", ".1", "--json"))
    made.write_text(FIVE + "design: {kind: fractional, resolution: 5, replicates: 2, split: 2, seed: 9}\n")
    same = json.loads(said("plan", str(made), "--noise", "0.05", "--effect", "10%", "--json"))
    assert plan == same
    assert plan["structure"]["resolution"] == 5
    assert plan["structure"]["generators"] == ["think = size:nagle:connections:congestion_control"]
    assert len(plan["trials"]) == 32
    assert plan["evaluation"]["noise_ratio"] == 0.05
    assert len(plan["evaluation"]["terms"]) + len(plan["structure"]["confounded"]) == 15
    assert plan["coding"]["size"] == {
        "kind": "number", "low": 1024, "high": 65536, "centre": 8192, "levels": [], "scale": "linear"
    }  # fmt: skip


@pytest.mark.parametrize("study", sorted(path.name for path in STUDIES.glob("*.yaml")))
def test_a_plan_says_trials_and_time_first_and_each_point_with_v(
    study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("IODYNO_CLIENT", "IODYNO_SERVER"):
        monkeypatch.setenv(name, "a")
    brief = said("plan", str(STUDIES / study)).splitlines()
    assert len(brief) <= 15
    assert " trials, about " in brief[1] or brief[1].startswith("a search for the largest ")
    assert not any(line.startswith("p01 ") for line in brief)
    told = said("plan", str(STUDIES / study), "-v").splitlines()
    assert told[:2] == brief[:2] and any(line.startswith("p01 ") for line in told)


def test_the_plan_says_what_is_aliased(made: Path) -> None:
    text = said(
        "plan",
        str(made),
        "--design",
        "fractional",
        "--generator",
        "D=AB",
        "--generator",
        "E=AC",
        "--noise",
        "5%",
        "--effect",
        "10%",
    )
    assert "fractional, resolution III: 8 of 32 combinations" in text
    assert "generators: congestion_control = size:nagle; think = size:connections" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("  size  "))
    assert row[:3] == ["size", "nagle:congestion_control,", "connections:think"]
    assert "word-length pattern: 2 of length 3, 1 of length 4" in text
    assert "clear: none" in text
    assert "99 for ±1 %" in text


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--noise", "five"], "a share above 0"),
        (["--noise", "0"], "a share above 0"),
        (["--noise", "5%", "--noise-from", "x"], "--noise cannot be used with --noise-from"),
        (["--outcome", "x"], "--noise-from"),
        (["--design", "factorial"], "factorial"),
        (["--resolution", "5"], "can only be used with fractional, not with full_factorial"),
        (["--noise-from", "nowhere"], "nowhere"),
        (["--augment", "nowhere"], "nowhere"),
        (["--design-file", "nowhere.csv"], "nowhere.csv"),
        (["--model", "rate"], "'rate'"),
    ],
)
def test_wrong_options_are_refused(made: Path, options: list[str], what: str) -> None:
    with pytest.raises((ExperimentError, StoreError, click.ClickException)) as raised:
        said("plan", str(made), *options)
    assert what in str(getattr(raised.value, "message", raised.value))


def test_a_run_has_no_use_for_a_model_of_another_design(made: Path) -> None:
    with pytest.raises(click.UsageError, match="--design d_optimal"):
        said("run", str(made), "--model", "main")


def test_a_rule_on_a_wrong_design_is_told_with_file_and_line(made: Path) -> None:
    with pytest.raises(
        ExperimentError, match=r"made\.yaml:\d+: invalid value for design\.runs: 12 runs"
    ) as raised:
        said("run", str(made), "--design", "fractional", "--runs", "12", "--until", "ratio(nagle) > 1.5")
    assert raised.value.advice


def test_a_campaign_keeps_its_design_and_goes_on_with_it(made: Path, tmp_path: Path) -> None:
    options = ["--design", "fractional", "--resolution", "3", "--replicates", "1", "--slow", "nagle"]
    done = json.loads(said("run", str(made), *options, "--into", str(tmp_path / "c"), "--json"))
    folder = Path(done["campaign"])
    assert done["finished_trials"] == 8
    header = json.loads((folder / "campaign.json").read_text())
    design = header["design"]
    assert design["kind"] == "fractional"
    assert design["resolution"] == 3
    assert len(design["generators"]) == 2
    assert len(design["defining_words"]) == 3
    assert ["size", "nagle:think"] in design["aliases"] or design["aliases"]
    assert design["coding"]["nagle"]["levels"] == [True, False]
    assert {trial["plot"] for trial in design["trials"]} == {0, 1}
    assert header["experiment"]["design"]["resolution"] == 3
    # The campaign's own file has the design; the file that was named has not.
    again = json.loads(said("run", str(folder / "experiment.yaml"), "--resume", str(folder), "--json"))
    assert (again["campaign"], again["finished_trials"]) == (str(folder), 8)
    rows = list(csv.DictReader(io.StringIO(said("plan", str(folder / "experiment.yaml"), "--format", "csv"))))
    assert [row["point"] for row in rows] == [trial["point"] for trial in design["trials"]]
    with pytest.raises(Exception, match="own file"):
        said("run", str(made), "--resume", str(folder), "--json")
    # What it measured plans the next one.
    more = json.loads(said("plan", str(made), "--augment", str(folder), "--runs", "10", "--json"))
    assert more["evaluation"]["runs_before"] == 8
    assert more["design"] == "d_optimal"
