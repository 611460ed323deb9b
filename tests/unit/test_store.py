"""What is stored comes back, and what is damaged is noticed."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from made_campaign import Layout, Truth, make_campaign, write_trial

from iodyno import load
from iodyno.core.errors import StoreError
from iodyno.store.manifest import check_parts, read_json, read_manifest
from iodyno.store.reader import read_campaign
from iodyno.store.tape import Tape
from iodyno.store.writer import TrialWriter, remove_partials, write_json_atomically


def record(index: int = 0, values: list[list[Any]] | None = None) -> dict[str, Any]:
    reading = {
        "sensor": "cpu_times", "read_ns": 30, "span_ns": 20, "cost_ns": 5, "missing": None,
        "values": values or [["cpu.idle_ns", "cpu=0", 7]],
    }  # fmt: skip
    times = {"count": 3, "sum_ns": 600, "buckets": [100, 200], "counts": [1, 2]}
    load = {
        "bytes": 9,
        "operations": 3,
        "service_time": times,
        "connections_active": 2,
        "connections_lost": 1,
    }
    return {
        "index": index, "window": "measured", "begin_ns": 10, "end_ns": 30, "load": load, "sensors": [reading],
    }  # fmt: skip


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    return make_campaign(tmp_path / "campaign", [({"connections": 4, "size": 1024}, Truth())])


def test_a_record_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 1}, Truth())], layout=Layout(replicates=1))
    writer = TrialWriter(folder / "trials", "00001-1")
    writer.add_record("client", "write", record())
    writer.seal(read_manifest(folder / "trials" / "00000-1") | {"trial": "00001-1", "order": 1})
    with read_campaign(folder).connect() as connection:

        def row(view: str) -> tuple[Any, ...]:
            return connection.execute(f"SELECT * FROM {view} WHERE trial = '00001-1'").fetchall()

        assert row("records") == [("00001-1", "client", 0, "measured", 10, 30, 9, 3, 2, 1)]
        place = ("00001-1", "client", 0, "measured")
        assert row("histograms") == [(*place, "write", "ll7", 3, 600, [100, 200], [1, 2])]
        assert row("series") == [(*place, "cpu_times", "cpu.idle_ns", "cpu=0", 30, 20, 7)]
        assert row("sensors") == [(*place, "cpu_times", 30, 20, 5, None)]


@pytest.mark.parametrize("memory_bytes", [1 << 20, 3000, 0])
def test_records_held_until_the_end_are_stored_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr("iodyno.store.writer.Tape", lambda folder: Tape(folder, memory_bytes))
    held, added = TrialWriter(tmp_path, "held"), TrialWriter(tmp_path, "added")
    for index in range(20):
        host = ("client", "bystander.server")[index % 2]
        held.hold(host, "write", json.dumps(record(index)).encode())
        added.add_record(host, "write", record(index))
    for writer in (held, added):
        writer.seal({"status": "finished"})
    for part in ("records", "series", "histograms", "sensors"):
        tables = [pq.read_table(tmp_path / name / f"{part}.parquet") for name in ("held", "added")]
        assert tables[0].equals(tables[1]) and tables[0].num_rows == 20
    assert sorted(path.name for path in tmp_path.iterdir()) == ["added", "held"]


def test_a_disk_that_has_no_room_for_held_records_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.store.writer.Tape", lambda folder: Tape(folder, 0))
    writer = TrialWriter(tmp_path, "00000-1")
    payload = json.dumps(record()).encode()
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What a write beyond it gives is an error here, as of a disk that is full: Python ignores the signal.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * len(payload), most[1]))
    try:
        with pytest.raises(StoreError, match="cannot be written") as raised:
            for _ in range(5):
                writer.hold("client", "write", payload)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert "free space" in raised.value.advice and not list(tmp_path.iterdir())


def test_long_trials_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iodyno.store.writer._ROWS_HELD", 10)
    writer = TrialWriter(tmp_path, "00000-1")
    for index in range(95):
        writer.add_record("client", "write", record(index))
    manifest = read_json(writer.seal({"status": "finished"}) / "manifest.json")
    rows = {name: part["rows"] for name, part in manifest["parts"].items()}
    assert rows.pop("stacks.parquet") == rows.pop("classes.parquet") == 0
    assert set(rows.values()) == {95}


def test_wide_histograms_are_not_held_and_a_slow_disk_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, waited_in_vain = threading.Event(), []
    whole_write = pq.ParquetWriter.write_table

    def slow(*args: Any, **settings: Any) -> None:
        waited_in_vain.append(not ready.wait(10))
        whole_write(*args, **settings)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", slow)
    writer = TrialWriter(tmp_path, "00000-1")
    buckets = list(range(1500, 2350))
    for index in range(2000):
        wide = record(index)
        times = {
            "count": 850,
            "sum_ns": 1,
            "buckets": buckets,
            "counts": [index + bucket for bucket in buckets],
        }
        wide["load"]["service_time"] = times
        writer.add_record("client", "write", wide)
    # The lab went on while the disk took its time: agents that do not hear of it for ten seconds end.
    ready.set()
    path = writer.seal({"status": "finished"}) / "histograms.parquet"
    assert not any(waited_in_vain)
    # 2000 rows are 130 MB as lists; none waited for the 16 384 that a piece of narrow rows has.
    assert pq.read_metadata(path).num_row_groups >= 6
    back = pq.read_table(path)
    assert back["index"].to_pylist() == list(range(2000))
    assert back["buckets"][1999].as_py() == buckets
    assert back["counts"][1999].as_py() == [1999 + bucket for bucket in buckets]


def test_values_that_do_not_fit_are_named_and_not_changed(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path, "00000-1")
    writer.add_record("client", "write", record(values=[["tcp.pacing", "", 2**64 - 1], ["tcp.flows", "", 1]]))
    parts = read_json(writer.seal({}) / "manifest.json")["parts"]
    assert parts["series.parquet"]["rows"] == 1


def test_nothing_is_seen_of_a_trial_that_is_not_sealed(campaign: Path) -> None:
    writer = TrialWriter(campaign / "trials", "00003-1")
    writer.add_record("client", "write", record())
    assert len(read_campaign(campaign).trials) == 3
    assert remove_partials(campaign / "trials") == ["00003-1"]
    assert remove_partials(campaign / "trials") == []
    writer = TrialWriter(campaign / "trials", "00003-1")
    writer.discard()
    writer.discard()
    assert len(list((campaign / "trials").iterdir())) == 3


def test_a_full_disk_costs_no_finished_trial(campaign: Path) -> None:
    before = sorted(str(path) for path in campaign.rglob("*"))
    writer = TrialWriter(campaign / "trials", "00003-1")
    writer.add_record("client", "write", record())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond this: the kernel then refuses writes as on a full disk (Python ignores SIGXFSZ).
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError) as caught:
            writer.seal({"status": "finished"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "00003-1" in caught.value.where
    assert "--resume" in caught.value.advice
    assert sorted(str(path) for path in campaign.rglob("*")) == before
    assert all(trial.counts for trial in read_campaign(campaign).trials)


def test_json_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "campaign.json"
    write_json_atomically(path, {"a": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        with pytest.raises(StoreError):
            write_json_atomically(path, {"a": "x" * 1000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["campaign.json"]


def test_a_folder_that_is_no_campaign_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError) as caught:
            read_campaign(folder)
        assert caught.value.where == str(folder)
    (tmp_path / "campaign.json").write_text("{")
    with pytest.raises(StoreError, match="is not JSON"):
        read_campaign(tmp_path)


def test_a_newer_campaign_is_refused(campaign: Path) -> None:
    header = json.loads((campaign / "campaign.json").read_text())
    write_json_atomically(campaign / "campaign.json", header | {"schema_version": 99})
    with pytest.raises(StoreError, match="newer iodyno") as caught:
        read_campaign(campaign)
    assert "campaign.json" in caught.value.where


def test_a_damaged_part_is_named_and_its_trial_left_out(campaign: Path) -> None:
    part = campaign / "trials" / "00001-1" / "series.parquet"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    manifest = read_manifest(part.parent)
    with pytest.raises(StoreError, match="SHA-256") as caught:
        check_parts(part.parent, manifest)
    assert caught.value.where == str(part)
    trials = {trial.name: trial.counts for trial in read_campaign(campaign).trials}
    assert trials == {"00000-1": True, "00001-1": False, "00002-1": True}
    frames = load(campaign)
    assert set(frames.records["trial"]) == {"00000-1", "00002-1"}
    assert dict(frames.trials.select("trial", "status").iter_rows())["00001-1"] == "damaged"


def test_frames_hold_what_was_stored(campaign: Path) -> None:
    frames = load(str(campaign))
    assert len(frames.trials) == 3
    assert len(frames.records) == 3 * 2 * 11
    assert frames.histograms["buckets"].dtype == "list" or len(frames.histograms) == len(frames.records)
    assert set(frames.series.columns) >= {"trial", "host", "metric", "label", "value"}
    outcomes = frames.outcomes.filter(outcome="goodput_bits_per_s")
    assert outcomes["value"].mean() == pytest.approx(8e9, rel=0.05)
    point = frames.points.filter(outcome="client.cpu_ns_per_kib").row(0, named=True)
    assert point["connections"] == 4
    assert point["low"] < point["estimate"] < point["high"]
    assert point["n"] == 3


def test_failed_trials_are_listed_and_do_not_count(campaign: Path) -> None:
    import random

    planned = {"order": 3, "block": 1, "replicate": 3, "point": "p01"}
    write_trial(
        campaign / "trials", "00003-1", planned, {"connections": 4, "size": 1024}, Truth(), Layout(),
        random.Random(5), status="failed",
    )  # fmt: skip
    frames = load(campaign)
    failed = frames.trials.filter(trial="00003-1").row(0, named=True)
    assert (failed["status"], failed["reason"]) == ("failed", "the agent ended (host server)")
    assert "00003-1" not in set(frames.records["trial"])


def test_an_empty_campaign_has_empty_frames(tmp_path: Path) -> None:
    folder = make_campaign(
        tmp_path / "c", [({"connections": 1}, Truth())], layout=Layout(replicates=0, idle=())
    )
    frames = load(folder)
    assert len(frames.records) == len(frames.series) == 0
    missing = frames.points.filter(outcome="goodput_bits_per_s").row(0, named=True)
    assert (missing["estimate"], missing["n"]) == (None, 0)
    assert missing["missing"] == "the point has no finished trial"


def test_importing_iodyno_is_light() -> None:
    program = "import sys, iodyno; print(sorted({'polars', 'duckdb', 'pyarrow', 'numpy'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
