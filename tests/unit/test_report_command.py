"""`iodyno report`, as it is typed."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import command_server
import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.cli.main import run
from iodyno.core.decision import Standing
from iodyno.core.outcome import Estimate
from iodyno.report.decision import decision_sentence
from iodyno.report.numbers import between, digits, quantity, with_interval

FACTORS = [{"name": "connections", "levels": [1, 4], "together": {}}]


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    points = [({"connections": number, "size": 65536}, Truth()) for number in (1, 4)]
    return make_campaign(tmp_path / "c", points, factors=FACTORS)


def test_tables_on_stdout_and_the_page_named_on_stderr(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", str(campaign)]) == 0
    out, err = capsys.readouterr()
    assert "#conn  (usr/sys/intr/idle)  cycles/Kbyte  (usr/sys/intr/idle)  cycles/Kbyte  Throughput" in out
    assert "Gbit/s" in out
    assert str(campaign / "report.html") in err
    assert (campaign / "report.html").is_file()


def test_what_the_experiment_asks_for_is_in_the_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [({"connections": number, "size": 65536}, Truth()) for number in (1, 4)]
    asked = ("connection_fairness", "write_service_time_p99_ns", "cpu_ns_per_kib", "goodput_bits_per_s")
    folder = make_campaign(tmp_path / "c", points, factors=FACTORS, layout=Layout(outcomes=asked))
    assert run(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text(encoding="utf-8")
    shown = capsys.readouterr().out
    table = shown[shown.index("Asked for too") :].split("\n\n")[0].splitlines()
    # What stands in another table already is not told again.
    columns = ["connection fairness", "write service time p99", "CPU per KiB", "CPU per KiB"]
    assert re.split("  +", table[2].strip()) == ["#conn", *columns]
    assert [len(re.split("  +", line.strip())) for line in table[3:5]] == [5, 5]
    assert all(" us" in line and "ns/KiB" in line for line in table[3:5])
    part = page[page.index("Asked for too") :]
    assert all(f">{name}" in part.partition("</table>")[0] for name in columns)


@pytest.mark.parametrize(
    ("replicates", "said"),
    [(1, "over batches within the one trial of a point."), (2, "over trials.")],
)
def test_what_intervals_are_over_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], replicates: int, said: str
) -> None:
    points = [({"connections": number}, Truth()) for number in (1, 4)]
    made = make_campaign(tmp_path / "c", points, factors=FACTORS, layout=Layout(replicates=replicates))
    assert run(["report", str(made)]) == 0
    assert f"± is half the 95 % interval {said}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "options", "code"),
    [
        (errno.EROFS, [], 0),
        (errno.EACCES, [], 0),
        (errno.ENOSPC, [], 6),
        (errno.EROFS, ["--html", "x.html"], 6),
    ],
)
def test_a_campaign_that_may_not_be_written_to_has_its_tables(
    campaign: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    reason: int,
    options: list[str],
    code: int,
) -> None:
    def refused(path: Path, *_: object, **__: object) -> int:
        raise OSError(reason, os.strerror(reason), str(path))

    monkeypatch.setattr("iodyno.report.html.write_file", refused)
    assert run(["report", str(campaign), *options]) == code
    out, err = capsys.readouterr()
    assert "Gbit/s" in out and "the report cannot be written" in err
    assert ("note:" in err) is (code == 0) and "--html" in err


def test_json_has_the_promised_keys(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(campaign), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert not (campaign / "report.html").exists()
    assert [point["levels"]["connections"] for point in found["points"]] == [1, 4]
    for point in found["points"]:
        assert {"levels", "labels", "outcomes", "warnings"} <= set(point)
        assert point["labels"]["size"] == "64KiB"
        for name in ("goodput_bits_per_s", "client.cpu_ns_per_kib", "server.cycles_per_kib"):
            outcome = point["outcomes"][name]
            assert {"estimate", "low", "high", "n", "unit", "method"} <= set(outcome)
            assert outcome["low"] <= outcome["estimate"] <= outcome["high"]


@pytest.mark.parametrize(
    ("command", "encoding"), [("report", "ascii"), ("report", "latin-1"), ("heatmap", "latin-1")]
)
def test_every_encoding_of_stdout_takes_what_is_shown(campaign: Path, command: str, encoding: str) -> None:
    said = _in_encoding(encoding, command, str(campaign))
    assert said.returncode == 0, said.stderr
    text = said.stdout.decode(encoding)
    assert not re.search(r"\\[ux]", text), text
    if command == "report":
        assert ("+/-" if encoding == "ascii" else "±") in text
        # Laid out as it is written: the last column begins below its head.
        lines = text.splitlines()
        head = next(number for number, line in enumerate(lines) if line.endswith("Limiter"))
        place = lines[head].index("Limiter")
        for row in lines[head + 1 : lines.index("", head)]:
            assert row[place - 2 : place] == "  " and row[place].strip(), text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_the_same_in_every_encoding_of_stdout(
    campaign: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    header = json.loads((campaign / "campaign.json").read_text())
    (campaign / "campaign.json").write_text(json.dumps(header | {"name": "ž ± \U0001f600"}))
    assert run(["report", str(campaign), "--json"]) == 0
    # JSON is UTF-8 by its own rules, of which ASCII is a part.
    shown = _in_encoding(encoding, "report", str(campaign), "--json")
    assert json.loads(shown.stdout.decode()) == json.loads(capsys.readouterr().out)


def test_a_character_without_another_is_an_escape_and_a_byte_that_is_no_text_stays(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/\xc3\xbc \xff"
    missing = _in_encoding("utf-8", "report", place)
    assert missing.returncode == 6 and place + b": there is no such folder" in missing.stderr
    said = _in_encoding("ascii", "report", str(tmp_path / "ž ±"))
    assert said.returncode == 6 and b"/\\u017e +/-: " in said.stderr


def _in_encoding(encoding: str, *words: str | bytes) -> subprocess.CompletedProcess[bytes]:
    command = [*command_server.iodyno(), *words]
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "1"}
    return subprocess.run(command, capture_output=True, env=environment, timeout=600)


def test_csv_has_a_row_per_point_and_outcome(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(campaign), "--format", "csv", "--html", str(campaign / "other.html")]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    costs = [row for row in rows if row["outcome"] == "client.cpu_ns_per_kib"]
    assert [row["connections"] for row in costs] == ["1", "4"]
    assert float(costs[0]["low"]) < 400 < float(costs[0]["high"])
    assert (campaign / "other.html").is_file()


@pytest.mark.parametrize(
    ("file", "harm", "said"),
    [
        ("records.parquet", "cut", "does not hold what its manifest says"),
        ("manifest.json", "cut", "is not JSON"),
        ("manifest.json", "gone", "is not there"),
        ("series.parquet", "gone", "No such file"),
    ],
)
def test_a_damaged_trial_is_named_with_its_file(
    campaign: Path, file: str, harm: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = campaign / "trials" / "00002-1" / file
    if harm == "cut":
        place.write_bytes(place.read_bytes()[:50])
    else:
        place.unlink()
    assert run(["report", str(campaign)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "is damaged" in line]
    assert line.startswith(f"warning: trial 00002-1 is damaged: {place}") and said in line
    assert run(["report", str(campaign), "--json"]) == 0
    (lost,) = [t for t in json.loads(capsys.readouterr().out)["trials"] if t["status"] == "damaged"]
    assert lost["trial"] == "00002-1" and str(place) in lost["reason"]
    assert str(place) in (campaign / "report.html").read_text()


@pytest.mark.parametrize(
    ("file", "harm"), [("series.parquet", "flip"), ("manifest.json", "cut"), ("manifest.json", "gone")]
)
def test_a_damaged_background_is_named_with_its_file(
    campaign: Path, file: str, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [campaign / "background" / when / file for when in ("before", "after")]
    for place in places:
        content = bytearray(place.read_bytes())
        content[len(content) // 2] ^= 1
        place.write_bytes(content if harm == "flip" else content[:50])
        if harm == "gone":
            place.unlink()
        assert run(["report", str(campaign)]) == 0
        (line,) = [
            line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: Background")
        ]
        assert f"the one {place.parent.name} the trials is damaged: {place}" in line
    assert all(str(place) in line for place in places)
    assert run(["report", str(campaign), "--json"]) == 0
    for known in json.loads(capsys.readouterr().out)["background"].values():
        assert known["missing"] == "what was stored of the idle machine is damaged; nothing is subtracted"
    assert str(places[1]) in (campaign / "report.html").read_text()


def test_many_damaged_trials_do_not_fill_the_screen(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for trial in (campaign / "trials").iterdir():
        (trial / "manifest.json").unlink()
    assert run(["report", str(campaign)]) == 0
    out = capsys.readouterr().out
    assert out.count("is damaged") == 5 and "warning: 1 more trial damaged or failed" in out


def test_intervals_that_are_not_there_do_not_overlap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = [({"connections": number, "size": 65536}, Truth()) for number in (1, 4)]
    folder = make_campaign(tmp_path / "c", points, factors=FACTORS, layout=Layout(intervals=2, replicates=1))
    assert run(["report", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "(no interval)" in out and "overlap" not in out
    assert "neither has an interval, so that they cannot be told apart" in out


def test_mistakes_have_a_place_and_an_exit_code(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(campaign / "trials")]) == 6
    assert "is not the folder of a campaign" in capsys.readouterr().err
    assert run(["report", str(campaign), "--html", str(campaign / "no" / "report.html")]) == 6
    assert "--html" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "unit", "name", "shown"),
    [
        (9.2234e9, "bit/s", "", "9.22 Gbit/s"),
        (0.0312, "1", "cpu_busy_ratio", "3.12 %"),
        (43_760, "ns", "", "43.8 us"),
        (0, "1", "", "0"),
        (None, "ns", "", "–"),
        (999.7e6, "bit/s", "", "1000 Mbit/s"),
    ],
)
def test_quantities(value: float | None, unit: str, name: str, shown: str) -> None:
    assert quantity(value, unit, name) == shown


@pytest.mark.parametrize("value", [0.31, 4.2, -0.31, 3e-7])
def test_nothing_but_nought_is_shown_as_nought(value: float) -> None:
    low, high = value - abs(value) / 2, 960.0
    assert (
        float(digits(value, 480)) == value
        and digits(0.0, 480) == "0"
        and digits(1e-17, 480) == "0" == digits(0.0, 0.05)
    )
    wide = Estimate(value, low, high, 2, "1", "over trials")
    shown = (
        with_interval(wide),
        between(wide),
        decision_sentence(Standing("ratio(size) > 2", estimate=value, low=low, high=high)),
    )
    for text in shown:
        numbers = [float(each) for each in re.findall(r"(\S+) \[(\S+), 960", text)[0]]
        assert numbers == pytest.approx([value, low], rel=0.06)


def test_a_value_has_the_digits_that_its_interval_leaves() -> None:
    assert digits(11792.4, 353) == "11790"
    assert digits(0.012346, 0.00021) == "0.01235"
    estimate = Estimate(11792.4, 11439.4, 12145.4, 3, "cycles/KiB", "t interval over 3 trials")
    assert with_interval(estimate) == "11790 ±350 cycles/KiB"
    skewed = Estimate(100.0, 95.0, 130.0, 1, "ns", "bootstrap")
    assert with_interval(skewed) == "100 [95, 130] ns"
    # Far to one side: what is sure is not rounded away.
    far = Estimate(235e3, 230e3, 24e6, 1, "ns", "bootstrap")
    assert with_interval(far) == "240 [230, 24000] us" and between(far) == "240 [230, 24000] us"
    assert with_interval(Estimate(1.0, None, None, 1, "ns", "one trial")) == "1.00 ns"


def test_a_section_has_the_name_that_the_contents_and_the_page_of_docs_call_it() -> None:
    root = Path(__file__).parents[2]
    templates = root / "src" / "iodyno" / "report" / "templates"
    page = "".join(path.read_text(encoding="utf-8") for path in sorted(templates.glob("*.html.j2")))
    named = dict(re.findall(r'<a href="#([\w-]+)">([\w ]+)(?: \(\{\{[^<]*)?</a>', page))
    headings = dict(re.findall(r'<details class="part" id="([\w-]+)">\s*<summary><h2>([^<{]+)</h2>', page))
    assert len(named) > 9
    assert headings | {"answer": "Answer"} == named
    docs = (root / "docs" / "guides" / "report.md").read_text(encoding="utf-8")
    assert not [name for name in named.values() if not re.search(rf"(?m)^- [\w, ]*{name}[\w, ]*:", docs)]


def test_of_an_exploration_its_last_stage_is_shown(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    explored = here / "campaigns" / "explored"
    for stage in ("1-resolve", "2-curve"):
        shutil.copytree(campaign, explored / stage)
    (explored / "exploration.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(here)
    for named in ([str(explored)], []):
        assert run(["report", *named]) == 0
        (explored / "2-curve" / "report.html").unlink()
    assert run(["model", "cost", str(explored)]) == 6
    assert f"name a campaign in it: {explored / '2-curve'}" in capsys.readouterr().err


def test_without_a_name_it_is_the_latest_campaign(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert run(["report", "--json"]) == 2
    assert "no campaign lies in campaigns/ or here" in capsys.readouterr().err
    for name in ("older", "newer"):
        shutil.copytree(campaign, here / "campaigns" / name)
    assert run(["report", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["points"] and "campaigns/newer" in err
