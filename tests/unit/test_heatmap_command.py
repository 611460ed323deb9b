"""`iodyno heatmap` with the real reducer: what it prints and writes, and each error."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.histogram import bounds_of
from iodyno.cli.heatmap import FORMS
from iodyno.cli.main import run
from iodyno.core.grid import Grid
from iodyno.report.heat_map.axis import whole

EVENTS = 4000


@pytest.fixture(scope="module")
def events() -> list[tuple[float, float]]:
    """Seconds and microseconds with three digits: two modes; a burst at 20 s; out of order."""
    chance = random.Random(7)
    found = []
    for _ in range(EVENTS):
        at = chance.uniform(0, 40)
        value = chance.gauss(350, 20) if chance.random() < 0.7 else chance.gauss(650, 25)
        if 20 <= at < 22 and chance.random() < 0.12:
            value = chance.uniform(1500, 2500)
        found.append((round(at, 6), round(value, 3)))
    return found


@pytest.fixture(scope="module")
def trace(events: list[tuple[float, float]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "trace.txt"
    path.write_text("".join(f"{at} {value}\n" for at, value in events))
    return path


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heat") / "c"
    points = [({"connections": count, "size": 65536}, Truth()) for count in (1, 4)]
    factors = [{"name": "connections", "levels": [1, 4], "together": {}}]
    return make_campaign(folder, points, factors=factors, layout=Layout(replicates=2, intervals=12))


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["heatmap", *words]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["heatmap", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("iodyno: error: ") and "Traceback" not in said.err
    return said.err


def test_json_accounts_for_every_event(
    trace: Path, events: list[tuple[float, float]], capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--value-unit", "us", "--max", "2000", "--column", "1", "--rows", "40")
    found = json.loads(printed(capsys, str(trace), *options, "--json"))
    assert found["events"] == EVENTS
    parts = ("in_cells", "under", "over", "outside", "unreadable")
    assert found["events"] == sum(found[part] for part in parts)
    assert found["over"] == sum(value > 2000 for _, value in events)
    assert sum(count for _, _, count in found["cells"]) == found["in_cells"]
    # Row by row as a person would count them.
    rows = [0] * 40
    for _, value in events:
        if value <= 2000:
            rows[min(39, int(value / 50))] += 1
    for row, count in enumerate(rows):
        assert sum(c for _, r, c in found["cells"] if r == row) == count
    assert [mode["value"] for mode in found["modes"]] == pytest.approx([350e3, 650e3], rel=0.06)
    assert any(abs(burst["begin_s"] - 20) < 1.1 for burst in found["bursts"])
    assert found["seconds"] > 0 and found["column_s"] == 1


def test_each_file_is_written_and_what_was_found_is_said(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, begin in (("a.svg", b"<svg"), ("a.html", b"<!doctype html>"), ("a.png", b"\x89PNG")):
        said = printed(capsys, str(trace), "--value-unit", "us", "-o", str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(begin)
        assert f"{whole(EVENTS)} events" in said and "Two modes: 3" in said and "A burst from" in said
    ET.parse(tmp_path / "a.svg")


def test_the_terminal_is_the_default_and_has_no_colours_in_a_pipe(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(capsys, str(trace), "--value-unit", "us", "--title", "Disk", "--cumulative")
    assert shown.startswith("Disk\n") and "\x1b" not in shown and "█" in shown
    assert "99.9999 %" in shown


def test_quantiles_are_known_whatever_the_rows_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values of 100 to 199 us in rows of 400 us: of all events within 0.8 %, of a column no better than its row."""
    trace = tmp_path / "narrow.txt"
    trace.write_text("".join(f"{number * 100} {100 + number % 100}\n" for number in range(10_000)))
    asked = ("--time-unit", "us", "--value-unit", "us", "--max", "20000", "--cumulative")
    shown = printed(capsys, str(trace), *asked)
    assert re.search(r"p50 1(49|50|51) us  p99 19[789] us", shown) and "max 199 us" in shown
    assert "<=" not in shown and "396 us" not in shown
    found = json.loads(printed(capsys, str(trace), *asked, "--json"))
    assert found["quantiles"]["max"] == 199e3
    assert found["quantiles"]["p50"] == pytest.approx(149e3, rel=0.008)
    assert (found["by_value"][0][0], found["by_value"][-1][1]) == (100e3, 199e3)
    assert sum(count for _, _, count in found["by_value"]) == 10_000
    page = tmp_path / "narrow.html"
    printed(capsys, str(trace), *asked, "-o", str(page))
    table = page.read_text().partition("<table>")[2]
    assert "<td>≤ 0.4</td>" in table


def test_a_mode_in_a_stretched_row_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "halves.txt"
    trace.write_text("".join(f"{number} {200 if number % 2 else 8000}\n" for number in range(4000)))
    shown = printed(
        capsys, str(trace), "--time-unit", "ms", "--value-unit", "us", "--max", "20ms", "--scale", "linear"
    )
    assert "Two modes: 200 us (50% of events) and 8 ms (50% of events)" in shown


def test_standard_input(trace: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "from iodyno.cli.main import main; main()",
        "heatmap",
        "-",
        "--value-unit",
        "us",
        "--json",
    ]
    with trace.open() as file:
        ran = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout)["events"] == EVENTS


def test_the_plain_path_imports_nothing_heavy(trace: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from iodyno.cli.main import run; "
        f"code = run(['heatmap', {str(trace)!r}, '--value-unit', 'us', '-o', {str(tmp_path / 'a.svg')!r}]); "
        "print(' '.join(sorted(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {
        "numpy",
        "scipy",
        "duckdb",
        "jinja2",
        "rich",
        "asyncio",
        "PIL",
        "pydantic",
        "statistics",
    }
    assert not heavy & {name.split(".")[0] for name in ran.stderr.split()}


def test_a_difference(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    later = tmp_path / "later.txt"
    lines = trace.read_text().splitlines()
    pairs = (line.split() for line in lines)
    later.write_text("".join(f"{float(at) + 100} {value}\n" for at, value in pairs))
    options = (str(trace), "--value-unit", "us", "--minus", str(later))
    found = json.loads(printed(capsys, *options, "--json"))
    assert found["cells"] == [] and found["events"] == [EVENTS, EVENTS]
    later.write_text("\n".join(lines[: EVENTS // 2]))
    found = json.loads(printed(capsys, *options, "-o", str(tmp_path / "d.svg"), "--json"))
    assert sum(count for _, _, count in found["cells"]) + found["over"] == EVENTS // 2
    ET.parse(tmp_path / "d.svg")


def test_a_campaign_is_binned_exactly(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--point", "connections=4", "--operation", "write", "--from", "0", "--json")
    found = json.loads(printed(capsys, str(campaign), *options))
    rows = [0] * found["rows"]
    for trial in read_dataset(campaign).trials:
        if trial.levels["connections"] != 4:
            continue
        sender = next(host for host in trial.hosts.values() if host.role == "send")
        for histogram in sender.histograms.values():
            for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
                low, high = bounds_of(bucket)
                (row,) = (
                    r
                    for r in range(found["rows"])
                    if found["edges"][r] <= low and high <= found["edges"][r + 1]
                )
                rows[row] += count
    assert sum(rows) > 1000
    assert rows == [sum(c for _, r, c in found["cells"] if r == row) for row in range(found["rows"])]
    grid = json.loads(printed(capsys, str(campaign), *options, "--max", "300us", "--scale", "linear"))
    assert grid["in_cells"] + grid["over"] + grid["under"] == sum(rows) and grid["edges"][0] == 0


def test_a_campaign_shows_its_measured_window(campaign: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--point", "connections=4", "--operation", "write", "--json")
    found = json.loads(printed(capsys, str(campaign), *options))
    counts = {"measured": 0, "beside": 0}
    for trial in read_dataset(campaign).trials:
        if trial.levels["connections"] == 4:
            sender = next(host for host in trial.hosts.values() if host.role == "send")
            for record in sender.records:
                in_record = sender.histograms.get(record.index)
                name = "measured" if record.window == "measured" else "beside"
                counts[name] += in_record.count if in_record else 0
    assert counts["beside"] > 0
    assert (found["in_cells"], found["outside"]) == (counts["measured"], counts["beside"])
    assert any("warm-up and drain are outside of the time" in note for note in found["notes"])
    whole = json.loads(printed(capsys, str(campaign), *options, "--from", "0"))
    assert whole["outside"] == 0 and whole["in_cells"] == counts["measured"] + counts["beside"]
    assert any(note.startswith("not only the measured window is shown") for note in whole["notes"])


def test_small_multiples_share_rows_and_colours(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = (str(campaign), "--by", "connections", "--operation", "write")
    maps = json.loads(printed(capsys, *options, "--json"))["maps"]
    assert [each["title"].partition(":")[0] for each in maps] == ["connections=1", "connections=4"]
    assert maps[0]["edges"] == maps[1]["edges"]
    for name in ("m.svg", "m.png", "m.html"):
        printed(capsys, *options, "-o", str(tmp_path / name))
        assert (tmp_path / name).stat().st_size > 1000
    drawn = ET.parse(tmp_path / "m.svg").getroot().findall("{http://www.w3.org/2000/svg}svg")
    lefts, tops = ([float(each.attrib[name]) for each in drawn] for name in "xy")
    assert lefts[0] == 0 < lefts[1] and tops == [0, 0], "beside each other"


def test_a_png_without_pillow_is_one_error_and_costs_nothing(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.cli.heatmap_output.find_spec", lambda name: None)
    said = refused(capsys, str(trace), "--value-unit", "us", "-o", str(tmp_path / "a.png"))
    assert "Pillow, which is not installed" in said and "pip install 'iodyno[png]'" in said
    assert not (tmp_path / "a.png").exists()
    printed(capsys, str(trace), "--value-unit", "us", "-o", str(tmp_path / "a.svg"))


def test_a_png_that_no_memory_would_hold_is_one_error(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    large = ("--column", "0.01", "--box-size", "64", "-o", str(tmp_path / "large.png"))
    assert "--box-size" in refused(capsys, str(trace), "--value-unit", "us", *large)
    assert not (tmp_path / "large.png").exists()


def test_two_campaigns_are_subtracted(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--point", "connections=1", "--operation", "write", "--minus", str(campaign))
    found = json.loads(printed(capsys, str(campaign), *options, "-o", str(tmp_path / "d.png"), "--json"))
    assert found["cells"] == [] and (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "heat.gif"), "expected names that end in .svg, .html, .png"),
        (("-o", "/nowhere/at/all/heat.svg"), "cannot be written"),
        (("--lines", "p17"), "invalid value 'p17' for --lines: expected p50, p99, p99.9, max, none"),
        (("--column", "wide"), "for --column: expected"),
        (("--limit", "3"), "belongs to --outliers"),
        (("--by", "size"), "is an option of a campaign"),
        (("--syscall", "read"), "is an option of a campaign"),
        (("--minus", "/nowhere.txt"), "/nowhere.txt"),
        (("--max", "much"), "much"),
        (("--time-unit", "weeks"), "invalid value 'weeks' for --time-unit: expected one of s, ms, us, ns"),
        (("--from", "100"), "no event"),
    ],
)
def test_each_wrong_option_is_one_error(
    words: tuple[str, ...], says: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["heatmap", str(trace), "--value-unit", "us", *words])
    said = capsys.readouterr()
    assert code == (6 if "/nowhere/at/all" in words[1] else 2)
    assert says in said.err and "Traceback" not in said.err and "try: " in said.err


def test_the_points_of_a_small_campaign_stand_side_by_side(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "points.svg"
    said = printed(capsys, str(campaign), "--operation", "write", "-o", str(out))
    titles = [line.partition(":")[0] for line in said.splitlines() if "none unreadable" in line]
    assert len(titles) == 2
    assert titles == sorted(titles, key=lambda title: int(title.partition("=")[2])), "in the design's order"
    assert out.read_text().count('class="hm-plot"') == 2
    monkeypatch.setattr("iodyno.cli.heatmap_campaign.MAPS_MOST", 1)
    assert "the campaign has 2 points: which one?" in refused(capsys, str(campaign))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--minus", "."), "the campaign has 2 points: which one?"),
        (
            ("--point", "connections=4", "--operation", "erase"),
            "invalid value 'erase' for --operation: expected read, write",
        ),
        (("--point", "connections=4", "--clock", "response"), "belongs to an open loop"),
        (("--by", "colour"), "unknown factor 'colour' of this campaign: expected connections"),
        (("--trial", "t99"), "unknown trial 't99': finished trials are"),
        (("--sub-second",), "is an option of a trace"),
        (("--syscall", "read"), "is an option of a recording"),
        (("--column", "1"), "columns are its record intervals"),
        (("--point", "p01", "--min", "2ms", "--max", "1ms"), "is not above --min"),
        (("--point", "p01", "--from", "soon"), "expected seconds after the begin"),
        (("--point", "p01", "--from", "1000"), "there is no event to draw"),
    ],
)
def test_each_wrong_option_of_a_campaign_is_one_error(
    words: tuple[str, ...], says: str, campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(capsys, str(campaign), *words)


def test_odd_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.txt"
    path.write_text("")
    assert "odd.txt" in refused(capsys, str(path))
    assert "nowhere" in refused(capsys, str(tmp_path / "nowhere"))
    path.write_bytes(os.urandom(4096))
    assert "odd.txt" in refused(capsys, str(path))
    path.write_text("1.5 300\n")
    assert "1 event: 1 in cells" in printed(capsys, str(path), "--value-unit", "us")
    path.write_text("1.5 300\n" * 1000)
    assert "1\u202f000 in cells" in printed(capsys, str(path), "--value-unit", "us")
    path.write_text("9 300\n1 400\nnot a line\n5 -3\n6 nan\n")
    shown = printed(capsys, str(path), "--value-unit", "us")
    assert "5 events: 2 in cells, 3 unreadable" in shown and "unreadable, line 3" in shown
    folder = tmp_path / "empty"
    folder.mkdir()
    assert run(["heatmap", str(folder)]) == 6
    assert "is not the folder of a campaign" in capsys.readouterr().err


def test_a_grid_survives_its_json(trace: Path) -> None:
    from iodyno.session.reduce import reduce

    grid = reduce([trace], value_unit="us")
    assert Grid.from_json(json.loads(json.dumps(grid.to_json()))) == grid


def test_outliers_are_the_lines_of_the_trace(trace: Path, events: list[tuple[float, float]]) -> None:
    command = [sys.executable, "-c", "from iodyno.cli.main import main; main()", "heatmap", str(trace)]
    ran = subprocess.run(
        [*command, "--value-unit", "us", "--outliers", "1500:2000"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [f"{at} {value}" for at, value in events if 1500 <= value <= 2000]
    ran = subprocess.run(
        [*command, "--value-unit", "us", "--outliers", "1.5ms", "--limit", "2"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(ran.stdout.splitlines()) == 2


def test_the_forms_that_help_names_are_those_that_the_reducer_reads() -> None:
    formats = Path(__file__).parents[2] / "tools" / "heat" / "src" / "formats"
    read = {
        name
        for file in formats.glob("*.rs")
        for name in re.findall(r' name: "([^"]+)"', file.read_text(encoding="utf-8"))
    }
    assert set(FORMS) == read
    page = (formats.parents[3] / "docs" / "guides" / "heat-maps.md").read_text(encoding="utf-8")
    assert all(f"| `{form}` |" in page for form in FORMS)
