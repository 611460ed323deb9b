"""What is stored comes back, and what is damaged is noticed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest
from made_campaign import Layout, Truth, make_campaign, write_trial

from iodyno import load
from iodyno.core.errors import StoreError
from iodyno.store.manifest import check_parts, read_json, read_manifest
from iodyno.store.reader import read_campaign, read_rows
from iodyno.store.schema import OPTIONAL
from iodyno.store.schema import PARTS as EVERY_PART
from iodyno.store.spool import Spool
from iodyno.store.writer import TrialWriter, remove_partials, write_json_atomically

PARTS = {part: columns for part, columns in EVERY_PART.items() if part not in OPTIONAL}


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
    writer.add_record("client", "write", line())
    writer.seal(read_manifest(folder / "trials" / "00000-1") | {"trial": "00001-1", "order": 1})
    with read_campaign(folder).connect() as connection:

        def row(view: str) -> tuple[Any, ...]:
            return connection.execute(f"SELECT * FROM {view} WHERE trial = '00001-1'").fetchall()

        assert row("records") == [("00001-1", "client", 0, "measured", 10, 30, 9, 3, 2, 1)]
        place = ("00001-1", "client", 0, "measured")
        assert row("histograms") == [(*place, "write", "ll7", 3, 600, [100, 200], [1, 2])]
        assert row("series") == [(*place, "cpu_times", "cpu.idle_ns", "cpu=0", 30, 20, 7)]
        assert row("sensors") == [(*place, "cpu_times", 30, 20, 5, None)]


def line(index: int = 0, **changes: Any) -> bytes:
    return json.dumps(record(index) | changes).encode()


def rows(folder: Path, part: str) -> list[dict[str, Any]]:
    return read_rows(folder, [part])[part]


def test_every_part_is_what_the_records_say(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path, "00000-1")
    times = {"count": 1, "sum_ns": 5, "buckets": [5], "counts": [1]}
    load = record()["load"]
    classed = [
        {
            "name": "read",
            "bytes": 4,
            "operations": 2,
            "errors": 1,
            "service_time": times,
            "response_time": None,
        },
        {
            "name": "fsync",
            "bytes": 0,
            "operations": 1,
            "errors": 0,
            "service_time": times,
            "response_time": times,
        },
    ]
    reading = record()["sensors"][0]
    sensed = reading | {
        "missing": "no more",
        "times": [{"metric": "block.time_ns", "label": "dev=sda", "times": times}],
    }
    # No values at all, and a number beyond 63 bits beside one that is not.
    silent = reading | {"sensor": "qdisc", "values": [], "missing": ""}
    huge = reading | {
        "sensor": "tcp_info",
        "values": [["tcp.pacing", "flow=1", 2**64 - 1], ["tcp.flows", "", 2**63 - 1], ["tcp.rtt", "", 2**63]],
    }
    writer.add_record(
        "a'host", "write", line(load=load | {"response_time": times, "lateness": times, "batch": None})
    )
    writer.add_record("b", "io", line(1, classes=classed, sensors=[sensed, silent, huge]))
    folder = writer.seal({})
    place = [
        {"host": host, "index": index, "window": "measured"} for index, host in enumerate(("a'host", "b"))
    ]
    counted = {
        "begin_ns": 10,
        "end_ns": 30,
        "bytes": 9,
        "operations": 3,
        "connections_active": 2,
        "connections_lost": 1,
    }
    assert rows(folder, "records") == [one | counted for one in place]
    assert rows(folder, "classes") == [
        place[1] | {"class": "read", "bytes": 4, "operations": 2, "errors": 1},
        place[1] | {"class": "fsync", "bytes": 0, "operations": 1, "errors": 0},
    ]
    assert [(row["host"], row["operation"], row["sum_ns"]) for row in rows(folder, "histograms")] == [
        *(
            ("a'host", name, sum_ns)
            for name, sum_ns in (("write", 600), ("response_time", 5), ("lateness", 5))
        ),
        *(("b", name, sum_ns) for name, sum_ns in (("io", 600), ("io.read", 5), ("io.fsync", 5))),
        *(("b", name, 5) for name in ("response.fsync", "block.time_ns[dev=sda]")),
    ]
    when = {"sensor": "cpu_times", "read_ns": 30, "span_ns": 20}
    of_info = when | {"sensor": "tcp_info"}
    idle = {"metric": "cpu.idle_ns", "label": "cpu=0", "value": 7}
    assert rows(folder, "series") == [
        place[0] | when | idle,
        place[1] | when | idle,
        place[1] | of_info | {"metric": "tcp.flows", "label": "", "value": 2**63 - 1},
    ]
    said = (
        "tcp.pacing[flow=1] = 18446744073709551615 does not fit into 63 bits; "
        "tcp.rtt[] = 9223372036854775808 does not fit into 63 bits"
    )
    assert rows(folder, "sensors") == [
        place[0] | when | {"cost_ns": 5, "missing": None},
        place[1] | when | {"cost_ns": 5, "missing": "no more"},
        place[1] | when | {"sensor": "qdisc", "cost_ns": 5, "missing": None},
        place[1] | of_info | {"cost_ns": 5, "missing": said},
    ]
    assert rows(folder, "stacks") == []
    assert {name: part["rows"] for name, part in read_json(folder / "manifest.json")["parts"].items()} == {
        f"{part}.parquet": len(rows(folder, part)) for part in PARTS
    }


def test_columns_have_the_types_of_the_store(tmp_path: Path) -> None:
    empty, full = TrialWriter(tmp_path, "00000-1"), TrialWriter(tmp_path, "00001-1")
    full.add_record("client", "write", line())
    for writer in (empty, full):
        folder = writer.seal({})
        for part, columns in PARTS.items():
            found = duckdb.sql(f"SELECT * FROM read_parquet('{folder}/{part}.parquet')")
            assert dict(zip(found.columns, map(str, found.types), strict=True)) == columns


@pytest.mark.parametrize("memory_bytes", [1 << 20, 3000, 0])
def test_records_held_in_memory_and_on_the_disk_are_stored_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    monkeypatch.setattr("iodyno.store.writer.Spool", lambda folder: Spool(folder, memory_bytes))
    writer = TrialWriter(tmp_path, "00000-1")
    for index in range(20):
        writer.add_record(("client", "bystander.server")[index % 2], "write", line(index))
    assert [path.name for path in tmp_path.iterdir()] == [".partial-00000-1"]
    folder = writer.seal({"status": "finished"})
    for part in ("records", "series", "histograms", "sensors"):
        found = [(row["index"], row["host"]) for row in rows(folder, part)]
        assert found == [(index, ("client", "bystander.server")[index % 2]) for index in range(20)]
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json",
        *(f"{part}.parquet" for part in PARTS),
    }


def test_a_disk_that_has_no_room_for_held_records_is_said_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iodyno.store.writer.Spool", lambda folder: Spool(folder, 0))
    writer = TrialWriter(tmp_path, "00000-1")
    most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What a write beyond it gives is an error here, as of a disk that is full: Python ignores the signal.
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 * len(line()), most[1]))
    try:
        with pytest.raises(StoreError, match="cannot be written") as raised:
            for _ in range(5):
                writer.add_record("client", "write", line())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, most)
    assert "free space" in raised.value.advice and not list(tmp_path.iterdir())


def test_wide_histograms_of_a_long_trial_are_written_in_pieces_and_come_back(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path, "00000-1")
    buckets = list(range(1500, 2350))
    for index in range(4000):
        times = {
            "count": 850 * index + sum(buckets),
            "sum_ns": 1,
            "buckets": buckets,
            "counts": [index + bucket for bucket in buckets],
        }
        writer.add_record("client", "write", line(index, load=record()["load"] | {"service_time": times}))
    folder = writer.seal({"status": "finished"})
    found = rows(folder, "histograms")
    assert [row["index"] for row in found] == list(range(4000))
    assert all(row["buckets"] == buckets for row in found)
    assert found[1999]["counts"] == [1999 + bucket for bucket in buckets]
    pieces = duckdb.sql(
        f"SELECT max(row_group_id) FROM parquet_metadata('{folder}/histograms.parquet')"
    ).fetchall()
    # 4000 rows take 41 MB as lists; they are not encoded all at once.
    assert pieces[0][0] >= 1


def test_call_stacks_come_back_with_the_names_of_their_frames(tmp_path: Path) -> None:
    writer = TrialWriter(tmp_path, "00000-1")
    functions = [{"name": "main", "module": "iodyno-agent"}, {"name": 'write"\\é', "module": "kernel"}]
    stacks = [
        {"owner": "app", "mode": "kernel", "frames": [0, 1, 1], "count": 3},
        {"owner": "idle", "mode": "user", "frames": [], "count": 2**40},
    ]
    writer.add_profile("client", {"functions": functions, "stacks": stacks})
    found = rows(writer.seal({}), "stacks")
    names = ["main", 'write"\\é', 'write"\\é']
    files = ["iodyno-agent", "kernel", "kernel"]
    assert found == [
        {
            "host": "client",
            "owner": "app",
            "mode": "kernel",
            "functions": names,
            "modules": files,
            "count": 3,
        },
        {"host": "client", "owner": "idle", "mode": "user", "functions": [], "modules": [], "count": 2**40},
    ]


@pytest.mark.parametrize("payload", [b"{", b"\xff", b'{"index": 2147483648}', b'{"index": "x"}', b"[1]"])
def test_a_record_that_is_none_is_an_error_of_the_store_and_nothing_is_left(
    tmp_path: Path, payload: bytes
) -> None:
    writer = TrialWriter(tmp_path, "00000-1")
    writer.add_record("client", "write", line())
    writer.add_record("client", "write", payload)
    with pytest.raises(StoreError, match=r"cannot be written: .*(JSON|json)"):
        writer.seal({})
    assert not list(tmp_path.iterdir())


def test_every_file_and_folder_is_on_the_disk_before_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of the folder after a loss of power sees whole files or no folder: each is put on the disk before it is seen."""
    done: list[tuple[str, Path]] = []
    sync, rename, replace = os.fsync, Path.rename, Path.replace

    def synced(descriptor: int) -> None:
        sync(descriptor)
        done.append(("on the disk", Path(f"/proc/self/fd/{descriptor}").readlink()))

    def renamed(path: Path, to: Path) -> Path:
        done.append(("renamed", path))
        return rename(path, to)

    def replaced(path: Path, to: Path) -> Path:
        done.append(("renamed", path))
        return replace(path, to)

    writer = TrialWriter(tmp_path / "trials", "00000-1")
    writer.add_record("client", "write", line())
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    monkeypatch.setattr(Path, "replace", replaced)
    folder = writer.seal({})
    partial = tmp_path / "trials" / ".partial-00000-1"
    parts, manifest = (
        {partial / f"{part}.parquet" for part in PARTS},
        partial / f".partial-manifest.json.{os.getpid()}",
    )
    assert {path for what, path in done[: len(parts)] if what == "on the disk"} == parts
    assert done[len(parts) :] == [
        ("on the disk", manifest),
        ("renamed", manifest),
        ("on the disk", partial),
        ("renamed", partial),
        ("on the disk", tmp_path / "trials"),
    ]
    assert folder == tmp_path / "trials" / "00000-1"


def test_the_engine_is_not_there_before_a_trial_is_over(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from iodyno.store.writer import TrialWriter\n"
        f"writer = TrialWriter(Path({str(tmp_path)!r}), '00000-1')\n"
        f"writer.add_record('client', 'write', {line()!r})\n"
        "heavy = {'duckdb', 'numpy', 'pandas', 'pyarrow', 'polars', 'pydantic'}\n"
        "assert not heavy & set(sys.modules)\n"
        "writer.seal({})\n"
        "assert heavy & set(sys.modules) == {'duckdb'}\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_is_seen_of_a_trial_that_is_not_sealed(campaign: Path) -> None:
    writer = TrialWriter(campaign / "trials", "00003-1")
    writer.add_record("client", "write", line())
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
    writer.add_record("client", "write", line())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond this: the kernel then refuses writes as on a full disk (Python ignores SIGXFSZ).
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StoreError, match="cannot be written: File too large") as caught:
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


def test_an_older_file_is_read_with_the_names_of_now(tmp_path: Path) -> None:
    written = {
        "hosts": {"server": {"knobs": {"mtu": 9000}, "version": "knobs and so on"}},
        "doubts": ["knob_left", "server.cycles_per_kbyte"],
    }
    now = {
        "hosts": {"server": {"tunables": {"mtu": 9000}, "version": "knobs and so on"}},
        "warnings": ["tunable_left", "server.cycles_per_kib"],
    }
    for version, meant in ((4, now), (6, written)):
        write_json_atomically(tmp_path / "manifest.json", {"schema_version": version} | written)
        assert read_json(tmp_path / "manifest.json") == {"schema_version": version} | meant


def test_settings_are_read_with_the_names_of_now_and_hosts_keep_theirs(tmp_path: Path) -> None:
    """`server` was a setting and is a host, `on` a setting and is a level, and times of requests had those of a stream."""

    def told(*names: str) -> dict[str, Any]:
        engine, ends, depth, burst, response, own, beside = names
        return {
            "schema_version": 5,
            "until": {"answer": "yes"},
            "hosts": {"server": {"name": "server", "job": {engine: "epoll"}}},
            "experiment": {
                "workload": {
                    "kind": "request_response",
                    "receiver": "server",
                    "settings": {ends: "xdp", burst: 5},
                },
                "factors": [{"name": depth, "levels": [1, 8], "together": {response: ["on", "off"]}}],
                "outcomes": [own, "server.cpu_ns_per_kib", beside],
                "bystanders": {"bystander": {"kind": "stream"}},
            },
            "design": {"aliases": [[f"{depth}:{response}", "size"]], "points": [{"levels": {depth: 8}}]},
        }

    stream = "bystander.write_service_time_p99_ns"
    old = told("driver", "server", "depth", "on", "answer", "write_service_time_p99_ns", stream)
    now = told(
        "engine", "server_engine", "queue_depth", "burst_on", "response_size", "latency_p99_ns", stream
    )
    write_json_atomically(tmp_path / "campaign.json", old)
    assert read_json(tmp_path / "campaign.json") == now


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
    assert set(frames.records["trial"].fetchall()) == {("00000-1",), ("00002-1",)}
    assert dict(frames.trials.select("trial", "status").fetchall())["00001-1"] == "damaged"


def test_frames_hold_what_was_stored(campaign: Path) -> None:
    frames = load(str(campaign))
    assert len(frames.trials) == 3
    assert len(frames.records) == 3 * 2 * 11
    assert len(frames.histograms) == len(frames.records)
    assert str(frames.histograms["buckets"].types[0]) == "INTEGER[]"
    assert set(frames.series.columns) >= {"trial", "host", "metric", "label", "value"}
    values = frames.outcomes.filter("outcome = 'goodput_bits_per_s'").fetchnumpy()["value"]
    assert values.mean() == pytest.approx(8e9, rel=0.05)
    ((connections, low, estimate, high, n),) = (
        frames.points.filter("outcome = 'client.cpu_ns_per_kib'")
        .select("connections", "low", "estimate", "high", "n")
        .fetchall()
    )
    assert (connections, n) == (4, 3)
    assert low < estimate < high
    # Frames of one campaign are of one database: they may be joined.
    joined = frames.series.query("series", 'SELECT * FROM series JOIN records USING (trial, host, "index")')
    assert joined is not None and len(joined) == len(frames.series)
    assert "goodput_bits_per_s" in str(frames.outcomes)


def test_levels_of_several_types_are_texts(tmp_path: Path) -> None:
    points = [({"buffer": "default", "batch": True}, Truth()), ({"buffer": 4096, "batch": False}, Truth())]
    factors = [{"name": "buffer", "levels": ["default", 4096]}, {"name": "batch", "levels": [True, False]}]
    frames = load(make_campaign(tmp_path / "c", points, factors=factors, layout=Layout(replicates=1)))
    found = frames.trials.select("buffer", "batch")
    assert found.order("buffer").fetchall() == [("4096", False), ("default", True)]


def test_failed_trials_are_listed_and_do_not_count(campaign: Path) -> None:
    import random

    planned = {"order": 3, "block": 1, "replicate": 3, "point": "p01"}
    write_trial(
        campaign / "trials", "00003-1", planned, {"connections": 4, "size": 1024}, Truth(), Layout(),
        random.Random(5), status="failed",
    )  # fmt: skip
    frames = load(campaign)
    failed = frames.trials.filter("trial = '00003-1'").select("status", "reason")
    assert failed.fetchall() == [("failed", "the agent ended (host server)")]
    assert ("00003-1",) not in frames.records["trial"].fetchall()


def test_an_empty_campaign_has_empty_frames(tmp_path: Path) -> None:
    folder = make_campaign(
        tmp_path / "c", [({"connections": 1}, Truth())], layout=Layout(replicates=0, idle=())
    )
    frames = load(folder)
    assert len(frames.records) == len(frames.series) == len(frames.trials) == len(frames.outcomes) == 0
    assert frames.trials.columns[-1] == "connections"
    missing = frames.points.filter("outcome = 'goodput_bits_per_s'").select("estimate", "n", "missing")
    assert missing.fetchall() == [(None, 0, "the point has no finished trial")]


def test_importing_iodyno_is_light() -> None:
    program = "import sys, iodyno; print(sorted({'duckdb', 'numpy', 'pydantic'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
