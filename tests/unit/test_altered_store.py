"""Files of a campaign that somebody altered by hand: the file and the key are named, and nothing is worse than that."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_calls import receiver, sender
from made_campaign import Layout, Truth, changed, make_campaign

from iodyno.analysis.histogram import BUCKETS
from iodyno.cli.main import run
from iodyno.core.errors import StoreError
from iodyno.store import row_checks
from iodyno.store.manifest import read_json
from iodyno.store.schema import SCHEMA_VERSION
from iodyno.store.writer import write_document
from iodyno.watch.stored import read_samples

Place = tuple[str | int, ...]
FACTORS = [{"name": "size", "levels": [65536, 1024], "together": {}}]
OTHERS: tuple[Any, ...] = (None, "x", 7, -1.5, True, [], {}, [None], ["x"], {"x": 1}, {"x": None})


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truth = changed(Truth(samples=200), calls={"client": sender(), "server": receiver()})
    points = [({"connections": 4, "size": size}, truth) for size in (65536, 1024)]
    layout = Layout(intervals=2, replicates=2, idle=("before",))
    return make_campaign(tmp_path_factory.mktemp("altered") / "c", points, factors=FACTORS, layout=layout)


def places(value: Any, within: Place = ()) -> Iterator[Place]:
    """Where each value of a JSON file is, those that hold others too."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*within, key)
        yield from places(item, (*within, key))


def alter(file: Path, place: Place, other: Any) -> None:
    """Puts another value into the file, which looks as if that had been written."""
    top = at = json.loads(file.read_text())
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = other
    write_document(file, top)


@settings(
    max_examples=25 if os.environ.get("IODYNO_FUZZ") else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_a_value_of_another_type_is_a_clean_error_or_none(
    campaign: Path, data: st.DataObject, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data.draw(
        st.sampled_from([campaign / "campaign.json", campaign / "trials" / "00001-1" / "manifest.json"])
    )
    text = file.read_text()
    place = data.draw(st.sampled_from(list(places(json.loads(text)))))
    alter(file, place, data.draw(st.sampled_from(OTHERS)))
    page = str(campaign / "report.html")
    try:
        for words in (
            ["report", str(campaign), "--html", page],
            ["report", str(campaign), "--json"],
            ["compare", str(campaign), "--points", "p01", "p02"],
            ["profile", str(campaign), "--point", "p01", "--host", "client"],
        ):
            code = run(words)
            said = capsys.readouterr().err
            # 2: points, hosts and levels may be gone that the words name. 6: the store cannot be read.
            assert code in (0, 2, 6), (words, said)
            assert not code or "error" in said, said
    finally:
        file.write_text(text)


@pytest.mark.parametrize(
    ("place", "other", "said"),
    [
        (("hosts", "client", "hello", "capabilities"), "x", "invalid value 'x' for hosts.client.hello.capabilities: expected a valid list"),  # noqa: E501
        (("design", "points", 1, "levels"), None, "missing value for design.points[1].levels: expected a valid dictionary"),
        (("seed",), True, "invalid value true for seed: expected a valid integer"),
    ],
)  # fmt: skip
def test_the_file_and_the_key_are_named(
    campaign: Path, place: Place, other: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = campaign / "campaign.json"
    text = file.read_text()
    alter(file, place, other)
    try:
        assert run(["report", str(campaign), "--json"]) == 6
    finally:
        file.write_text(text)
    error = capsys.readouterr().err
    assert said in error and str(file) in error


def test_a_manifest_that_was_altered_costs_its_trial_only(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = campaign / "trials" / "00001-1" / "manifest.json"
    text = file.read_text()
    alter(file, ("hosts", "client", "cpus"), "0")
    try:
        assert run(["report", str(campaign), "--json"]) == 0
    finally:
        file.write_text(text)
    trials = {trial["trial"]: trial for trial in json.loads(capsys.readouterr().out)["trials"]}
    assert trials["00001-1"]["status"] == "damaged"
    assert "invalid value '0' for hosts.client.cpus: expected a valid list" in trials["00001-1"]["reason"]
    assert trials["00000-1"]["status"] == "finished"


@pytest.mark.parametrize("name", ["campaign.json", "trials/00001-1/manifest.json"])
def test_a_file_that_was_altered_is_refused_for_its_checksum(tmp_path: Path, name: str) -> None:
    calls = {"client": sender(), "server": receiver()}
    made = make_campaign(tmp_path / "c", [({"connections": 1}, Truth(calls=calls))])
    file = made / name
    write_document(file, json.loads(file.read_text()) | {"schema_version": SCHEMA_VERSION})
    written = json.loads(file.read_text())
    assert list(written)[-1] == "sha256"
    # As another program lays it out.
    file.write_text(json.dumps(written, indent=7))
    assert read_json(file) == {key: value for key, value in written.items() if key != "sha256"}
    damaged = (
        written | {"warnings": [1]},
        written | {"sha256": 0},
        read_json(file),
        written | {"x": float("inf")},
    )
    for each in damaged:
        file.write_text(json.dumps(each))
        with pytest.raises(StoreError, match=r"does not hold what was written \(SHA-256 differs\)"):
            read_json(file)
    # Earlier versions have none; one that is there counts.
    file.write_text(
        json.dumps({key: written[key] for key in written if key != "sha256"} | {"schema_version": 6})
    )
    assert read_json(file)["schema_version"] == 6
    file.write_text(json.dumps(written | {"schema_version": 6}))
    with pytest.raises(StoreError, match="SHA-256 differs"):
        read_json(file)


def test_a_manifest_whose_bytes_changed_costs_its_trial_only(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = campaign / "trials" / "00001-1" / "manifest.json"
    text = file.read_text()
    file.write_text(text.replace('"begin_ns": ', '"begin_ns": 1', 1))
    try:
        assert run(["report", str(campaign), "--json"]) == 0
    finally:
        file.write_text(text)
    trials = {trial["trial"]: trial for trial in json.loads(capsys.readouterr().out)["trials"]}
    assert trials["00001-1"]["status"] == "damaged"
    assert "does not hold what was written (SHA-256 differs)" in trials["00001-1"]["reason"]
    assert trials["00000-1"]["status"] == "finished"


@pytest.mark.parametrize("part", ["records", "histograms", "stacks"])
@pytest.mark.parametrize("kind", ["empty", "text", "middle", "columns", "wide"])
def test_rows_that_are_none_are_one_error_that_names_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, part: str
) -> None:
    """The manifest has the hash of what is there: whoever altered the file altered that, too."""
    calls = {"client": sender(), "server": receiver()}
    made = make_campaign(tmp_path / "c", [({"connections": 1}, Truth(calls=calls))])
    trial = made / "trials" / "00001-1"
    file = trial / f"{part}.parquet"
    whole = file.read_bytes()
    third = len(whole) // 3
    if kind == "columns":
        with duckdb.connect() as engine:
            engine.execute(f"COPY (SELECT 'x' AS host, 1 AS other) TO '{file}' (FORMAT parquet)")
    elif kind == "wide":
        column = "operations" if part == "records" else "count"
        with duckdb.connect() as engine:
            engine.execute(
                f"CREATE TABLE wide AS SELECT * REPLACE (1::HUGEINT << 70 AS {column}) FROM '{file}'"
            )
            engine.execute(f"COPY wide TO '{file}' (FORMAT parquet)")
    else:
        altered = {
            "empty": b"",
            "text": b"no rows at all",
            "middle": whole[:third] + bytes(third) + whole[2 * third :],
        }
        file.write_bytes(altered[kind])
    restate(file)
    assert run(["report", str(made)]) == 6
    assert f"{file}: holds no rows that can be read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("part", "column", "value"),
    [
        ("records", "host", "NULL"),
        ("records", "operations", "-1"),
        ("records", "end_ns", "begin_ns"),
        ("histograms", "buckets", f"[{BUCKETS} FOR b IN buckets]"),
        ("histograms", "buckets", "[-1 FOR b IN buckets]"),
        ("histograms", "counts", "list_append(counts, 0)"),
        ("histograms", "counts", "[c + 1 FOR c IN counts]"),
        ("histograms", "counts", "[NULL FOR c IN counts]"),
        ("sensors", "span_ns", "NULL"),
        ("series", "value", "-1"),
        ("series", "label", "CASE WHEN label LIKE 'cpu=%' THEN 'cpu=x' ELSE label END"),
        ("stacks", "functions", "[NULL]"),
    ],
)
def test_a_row_that_cannot_be_is_one_error_that_names_file_and_column(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str, column: str, value: str
) -> None:
    """Real values but for one column; the manifest has the hash of what is there."""
    assert row_checks.BUCKETS == BUCKETS
    made = shutil.copytree(campaign, tmp_path / "c")
    file = made / "trials" / "00001-1" / f"{part}.parquet"
    other = file.with_suffix(".other")
    with duckdb.connect() as engine:
        engine.execute(
            f"COPY (SELECT * REPLACE ({value} AS {column}) FROM '{file}') TO '{other}' (FORMAT parquet)"
        )
    restate(other.rename(file))
    assert run(["report", str(made)]) == 6
    said = capsys.readouterr().err
    assert f"{file}: holds no rows that can be read" in said
    assert f"a row that cannot be: {column}" in said


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("operations", "-1", "a row that cannot be"),
        ("host", "'other'", "lacks other, of which the trial has records"),
    ],
)
def test_watching_a_stored_trial_reads_no_row_that_cannot_be(
    campaign: Path, tmp_path: Path, column: str, value: str, said: str
) -> None:
    made = shutil.copytree(campaign, tmp_path / "c")
    file = made / "trials" / "00001-1" / "records.parquet"
    with duckdb.connect() as engine:
        engine.execute(f"CREATE TABLE rows AS SELECT * REPLACE ({value} AS {column}) FROM '{file}'")
        engine.execute(f"COPY rows TO '{file}' (FORMAT parquet)")
    with pytest.raises(StoreError, match=said):
        read_samples(made, "00001-1")


def test_values_of_a_sensor_without_readings_are_one_error(
    campaign: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = shutil.copytree(campaign, tmp_path / "c")
    file = made / "trials" / "00001-1" / "sensors.parquet"
    other = file.with_suffix(".other")
    with duckdb.connect() as engine:
        engine.execute(
            f"COPY (SELECT * FROM '{file}' WHERE sensor <> 'tcp_info') TO '{other}' (FORMAT parquet)"
        )
    restate(other.rename(file))
    for trial in made.glob("trials/0000[023]-1"):
        shutil.rmtree(trial)
    assert run(["report", str(made)]) == 6
    assert "has a value of the sensor tcp_info of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("within", "key", "other", "said"),
    [
        (("windows",), "warm_up_ns", None, "missing value for windows.warm_up_ns"),
        (("parts", "series.parquet"), "rows", None, "missing value for parts.series.parquet.rows"),
        (("hosts",), "client", "other", "invalid value for hosts.other: no host of the campaign"),
    ],
)
def test_a_trial_that_lacks_what_it_needs_is_damaged_and_the_others_count(
    campaign: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    within: Place,
    key: str,
    other: str,
    said: str,
) -> None:
    made = shutil.copytree(campaign, tmp_path / "c")
    file = made / "trials" / "00001-1" / "manifest.json"
    manifest = at = json.loads(file.read_text())
    for step in within:
        at = at[step]
    at |= {other: at.pop(key)} if other else {}
    at.pop(key, None)
    write_document(file, manifest)
    assert run(["report", str(made), "--json"]) == 0
    trials = {trial["trial"]: trial for trial in json.loads(capsys.readouterr().out)["trials"]}
    assert said in trials["00001-1"]["reason"]
    assert trials["00000-1"]["status"] == "finished"


def restate(file: Path) -> None:
    """Has the manifest say what is in the file now."""
    manifest = json.loads((file.parent / "manifest.json").read_text())
    manifest["parts"][file.name] |= {
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "bytes": file.stat().st_size,
    }
    write_document(file.parent / "manifest.json", manifest)
