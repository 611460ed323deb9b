"""Watching: the feed costs no trial, live and stored numbers are the same, and every frame says what is there."""

from __future__ import annotations

import asyncio
import fcntl
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_feed import followers_closed, line, tell_trial, unfinished, until
from places import PROGRAM, Notes, Stopped, experiment, run

from iodyno.analysis.histogram import Histogram, bounds_of
from iodyno.campaign import feed as feed_module
from iodyno.campaign.feed import EVENTS, FEED, Feed, is_alive, trial_name
from iodyno.core.experiment import DesignSpec
from iodyno.core.factor import Factor
from iodyno.formats.experiment_file import parse_experiment
from iodyno.watch import stored
from iodyno.watch.board import Board
from iodyno.watch.facts import BANDS_PER_DECADE, Cutter, Sample, band_edge_ns, banded
from iodyno.watch.follow import Follower
from iodyno.watch.terminal import ending

ASKED = experiment(factors=(Factor("connections", (1, 8)),))
ASKED = replace(ASKED, design=DesignSpec(replicates=2, seed=7))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with followers_closed():
        yield


class Following(Notes):
    """A watcher that follows the feed as another process would; simulated trials are over in no time, so it waits for
    the beginning of each."""

    def __init__(self, folders: Path, followers: int = 2) -> None:
        super().__init__()
        self._folders = folders
        self.followers: list[Follower] = []
        self.told: list[list[tuple[str, dict[str, Any]]]] = [[] for _ in range(followers)]

    def poll(self) -> None:
        if not self.followers:
            (folder,) = self._folders.iterdir()
            self.followers = [Follower(folder) for _ in self.told]
        for follower, told in zip(self.followers, self.told, strict=True):
            told += [(what, dict(said)) for what, said in follower.poll()]

    def on_trial_start(self, planned: Any, attempt: int) -> None:
        def begun() -> bool:
            self.poll()
            name = trial_name(planned, attempt)
            return all(any(said.get("trial") == name for _, said in told) for told in self.told)

        until(begun)


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Following]]:
    into = tmp_path_factory.mktemp("campaigns")
    notes = Following(into)
    outcome = asyncio.run(run(ASKED, into, notes=notes, program=PROGRAM))
    notes.poll()
    assert outcome.finished == 4
    yield outcome.folder, notes
    for follower in notes.followers:
        follower.close()


def live_samples(told: list[tuple[str, dict[str, Any]]]) -> dict[str, list[Sample]]:
    cutter, live = Cutter(), {}
    for what, said in told:
        if what == "record":
            live.setdefault(said["trial"], []).append(cutter.cut(said["trial"], said))
    return {name: sorted(samples, key=lambda s: (s.index, s.host)) for name, samples in live.items()}


def assert_stored(folder: Path, live: dict[str, list[Sample]], statistics: set[str]) -> None:
    assert sorted(live) == stored.trial_names(folder)
    for name, samples in live.items():
        again = stored.read_samples(folder, name)
        assert samples == again
        for one, other in zip(samples, again, strict=True):
            assert sorted(one.facts) == sorted(other.facts) and dict(one.times) == dict(other.times)
        assert {fact[0] for sample in samples for fact in sample.facts} >= statistics


def test_what_is_seen_live_is_what_is_stored(followed: tuple[Path, Following]) -> None:
    folder, notes = followed
    assert_stored(folder, live_samples(notes.told[0]), {"operations", "payload", "cpu", "network"})


def test_so_it_is_with_a_load_of_several_classes(tmp_path: Path) -> None:
    text = (
        "name: disk\nquestion: What does it carry?\nhosts: {client: {access: simulated, count: 2}}\n"
        "workload: {kind: disk, hosts: client, target: /nowhere/target, working_set: 1MiB, read: 50%}\n"
        "factors: {block: [4KiB]}\ndesign: {replicates: 1}\n"
        "windows: {warm_up: 100ms, measured: 500ms, drain: 50ms, interval: 100ms}\n"
    )
    notes = Following(tmp_path, followers=1)
    outcome = asyncio.run(run(parse_experiment(text, environment={}), tmp_path, notes=notes, program=PROGRAM))
    notes.poll()
    live = live_samples(notes.told[0])
    assert_stored(outcome.folder, live, {"operations", "payload", "disk", "cpu"})
    (samples,) = live.values()
    assert {fact[1] for sample in samples for fact in sample.facts if fact[0] == "operations"} == {
        "read",
        "write",
    }
    assert {(sample.host, sample.group) for sample in samples} == {
        ("client-1", "client"),
        ("client-2", "client"),
    }
    for follower in notes.followers:
        follower.close()


def test_every_follower_hears_all_and_the_end(followed: tuple[Path, Following]) -> None:
    _, notes = followed
    first, second = notes.told
    # Each lies in a file of its own: which comes first between two looks is not told.
    for kind in ("event", "record"):
        assert [each for each in first if each[0] == kind] == [each for each in second if each[0] == kind]
    kinds = [said["kind"] for what, said in first if what == "event"]
    assert kinds[0] == "begin" and kinds[-1] == "end" and kinds.count("trial") == kinds.count("done") == 4
    assert first[-1][1]["how"] == "finished" and first[-1][1]["lost"] == 0
    assert "opening the hosts" in [said.get("text") for _, said in first]


def test_nothing_of_the_feed_is_left(followed: tuple[Path, Following]) -> None:
    folder, _ = followed
    assert not (folder / FEED).exists() and not is_alive(folder)


def test_a_stopped_campaign_says_so_and_a_resumed_one_is_followed(tmp_path: Path) -> None:
    class Both(Stopped):
        follower: Follower | None = None

        def on_stage(self, text: str) -> None:
            super().on_stage(text)
            (folder,) = tmp_path.iterdir()
            self.follower = self.follower or Follower(folder)
            until(lambda: list(self.follower.poll()) or self.follower.following)  # type: ignore[union-attr]

    notes = Both(12)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run(ASKED, tmp_path, notes=notes, program=PROGRAM))
    assert notes.follower is not None
    last = [said for what, said in notes.follower.poll() if what == "event"][-1]
    assert (last["kind"], last["how"]) == ("end", "stopped")
    assert not notes.follower.following
    (folder,) = tmp_path.iterdir()
    board = Board(folder)
    assert board.progress.phase == "waiting" and "--resume" in ending(board)
    with_feed = Feed(folder)
    with_feed.event("begin", name="test", trials=4, pid=1)
    until(lambda: any(said["kind"] == "begin" for _, said in notes.follower.poll()))  # type: ignore[union-attr]
    until(lambda: (board.refresh(), board.progress.phase == "running")[1])
    with_feed.close("finished")
    until(lambda: (board.refresh(), board.progress.phase == "ended")[1])


def test_a_lab_that_is_killed_is_noticed(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    script = (
        "import sys, time; from pathlib import Path; from iodyno.campaign.feed import Feed\n"
        "feed = Feed(Path(sys.argv[1])); feed.event('begin', name='x', trials=1, pid=1); print('on', flush=True)\n"
        "time.sleep(60)"
    )
    lab = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE)
    try:
        board = Board(folder)
        until(lambda: (board.refresh(), board.progress.phase == "running")[1])
        lab.send_signal(signal.SIGKILL)
        lab.wait()
        until(lambda: (board.refresh(), board.progress.phase == "ended")[1])
    finally:
        lab.kill()
        lab.wait()
        assert lab.stdout
        lab.stdout.close()
    assert board.progress.how == "killed" and "gone without a word" in ending(board)
    # What is left of the feed deceives nobody, and the next lab removes it.
    assert (folder / FEED / EVENTS).exists()
    assert Board(folder).progress.phase == "waiting"
    Feed(folder).close("finished")
    assert not (folder / FEED).exists()


def test_a_feed_that_cannot_be_written_costs_no_trial(tmp_path: Path) -> None:
    class Blocked(Notes):
        def on_stage(self, text: str) -> None:
            (folder,) = tmp_path.iterdir()
            blocked = folder / FEED
            if blocked.is_dir() and not (folder / "moved").exists():
                blocked.rename(folder / "moved")
                blocked.write_text("in the way")

    outcome = asyncio.run(run(ASKED, tmp_path, notes=Blocked(), program=PROGRAM))
    assert outcome.finished == 4 and not outcome.failed


def test_a_slow_disk_drops_lines_and_never_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_module, "_MOST_WAITING", 8)
    disk = threading.Event()
    monkeypatch.setattr(Feed, "_open", lambda self: disk.wait())
    feed = Feed(tmp_path)
    for number in range(1000):
        feed.event("stage", text=str(number))  # would hang here if it waited
    disk.set()
    assert feed.lost >= 991 and "slower" in feed.trouble
    feed.close("finished")


def test_the_records_of_a_trial_are_bounded_and_a_follower_has_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MOST_PART_BYTES", 20_000)
    feed, follower = Feed(tmp_path), Follower(tmp_path)
    feed.event("begin", name="x", trials=1, pid=1)
    until(lambda: list(follower.poll()))
    seen: list[int] = []

    def look(_: float) -> None:
        until(feed._lines.empty)
        seen.extend(said["record"]["index"] for what, said in follower.poll() if what == "record")

    name = tell_trial(feed, 0, ["client"], intervals=30, pace=look, end=False)
    until(lambda: (look(0), len(seen) == 30)[1])
    assert seen == list(range(30))
    (left,) = (tmp_path / FEED).glob(f"{name}.*.jsonl")
    assert left.stat().st_size <= 20_000 and not left.name.endswith(".0.jsonl")
    late = [said["record"]["index"] for what, said in Follower(tmp_path).poll() if what == "record"]
    assert late and late == list(range(late[0], 30)), "who comes late has the last part"
    assert feed.lost == 0
    feed.close("finished")


def test_a_stopped_follower_does_not_make_the_lab_look_dead(tmp_path: Path) -> None:
    (tmp_path / FEED).mkdir()
    feed = Feed(tmp_path)
    until((tmp_path / FEED / EVENTS).exists)
    with (tmp_path / FEED / "lock").open("rb") as held:
        # As if it was asked at the wrong moment, and the asker stopped there.
        feed._locked = False
        assert feed._lock is not None
        fcntl.flock(feed._lock, fcntl.LOCK_UN)
        fcntl.flock(held, fcntl.LOCK_SH)
        feed.event("stage", text="on")
        until(feed._lines.empty)
        fcntl.flock(held, fcntl.LOCK_UN)

    def alive_after_a_line() -> bool:
        feed.event("stage", text="and on")
        until(feed._lines.empty)
        return is_alive(tmp_path)

    # To ask takes the lock for a moment, too, and the lab tries once a line.
    until(alive_after_a_line)
    feed.close("finished")


@pytest.mark.parametrize("step_ns", [-3600 * 10**9, 3600 * 10**9])
def test_a_step_of_the_wall_clock_moves_no_time_that_is_shown(
    tmp_path: Path, step_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s, now_ns = time.time, time.time_ns
    feed = Feed(unfinished(tmp_path / "c"))
    feed.event("begin", name="x", trials=4, pid=1)
    tell_trial(feed, 0, intervals=2, pace=lambda _: None)
    monkeypatch.setattr(time, "time", lambda: now_s() + step_ns / 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns() + step_ns)
    tell_trial(feed, 1, intervals=2, pace=lambda _: None, end=False)
    board = Board(tmp_path / "c")
    until(lambda: (board.refresh(), (len(board.trials), len(board.samples)) == (2, 4))[1])
    first, second = board.trial_list()
    assert abs(second["start_s"] - first["start_s"]) < 60
    left_ns = board.left_ns()
    assert left_ns is not None and 0 < left_ns <= 60 * 10**9
    assert board.lag_s is not None and board.lag_s < 60 and abs(board.now_s() - second["start_s"]) < 60
    feed.close("finished")


def test_broken_lines_are_counted_and_half_ones_waited_for(tmp_path: Path) -> None:
    feed = Feed(tmp_path)
    feed.event("begin", name="x", trials=1, pid=1)
    follower = Follower(tmp_path)
    until(lambda: list(follower.poll()))
    path = tmp_path / FEED / EVENTS
    with path.open("ab") as file:
        file.write(b'no json\n[1]\n\xff\xfe\n{"kind":"stage",')
    assert list(follower.poll()) == []
    with path.open("ab") as file:
        file.write(b'"text":"on"}\n')
    assert [said["text"] for _, said in follower.poll()] == ["on"]
    assert follower._events is not None and follower._events.spoiled == 3
    feed.close("finished")


@given(st.dictionaries(st.integers(0, 4000), st.integers(1, 10**6), max_size=40))
def test_bands_lose_nothing(cells: dict[int, int]) -> None:
    buckets = tuple(sorted(cells))
    histogram = Histogram(sum(cells.values()), 0, buckets, tuple(cells[bucket] for bucket in buckets))
    bands = banded(histogram)
    assert sum(bands.values()) == histogram.count
    for bucket in buckets:
        low, high = bounds_of(bucket)
        assert any(band_edge_ns(band) < max(high, 2) and band_edge_ns(band + 1) >= low for band in bands), (
            "a time is in a band that overlaps its bucket"
        )


def test_a_record_is_cut_into_facts_that_add_up() -> None:
    told = line("client", 3)
    record = told["record"]
    sample = Cutter().cut("t", {"host": "client", **told["place"], "record": record})
    load = record["load"]
    assert sample.amount("operations") == load["operations"]
    assert sample.amount("payload", first="sent") == load["bytes"]
    assert sample.amount("connections") == 4 * sample.length_ns
    states = {
        metric: value for r in record["sensors"] for metric, label, value in r["values"] if label == "cpu=0"
    }
    assert sample.amount("cpu", first="sys", second="0") == states["cpu.system_ns"]
    # Steal and idle are no classes of busy time, and CPU 2 is another host's.
    assert {fact[2] for fact in sample.facts if fact[0] == "cpu"} == {"0", "1"}
    assert sample.as_json()["facts"] and sample.group == "workload"


def test_exact_classes_take_the_place_of_sampled_ones() -> None:
    values = [
        ["exact.app_ns", "cpu=0", 100], ["exact.app_user_ns", "cpu=0", 30], ["exact.app_ns", "cpu=1", 50],
        ["exact.hardirq_ns", "cpu=0", 7], ["exact.softirq_ns", "cpu=0,vector=NET_RX", 11],
        ["exact.softirq_ns", "cpu=0,vector=TIMER", 2], ["exact.other_ns", "cpu=0", 5], ["exact.idle_ns", "cpu=0", 900],
        ["exact.app_ns", "cpu=7", 999],
    ]  # fmt: skip
    told = line("client", 1)
    reading = {"sensor": "cpu_exact", "cost_ns": 3, "missing": "polls left out", "values": values}
    told["record"]["sensors"].append(reading)
    sample = Cutter().cut("t", {"host": "client", **told["place"], "record": told["record"]})
    classes = {(fact[1], fact[2]): fact[3] for fact in sample.facts if fact[0] == "cpu"}
    assert classes == {
        ("usr", "0"): 30, ("sys", "0"): 70, ("app", "1"): 50, ("irq", "0"): 7, ("softirq", "0"): 13, ("other", "0"): 5,
    }  # fmt: skip
    assert sample.amount("softirq", first="NET_RX") == 11


def test_a_load_of_several_classes_is_told_apart_by_them() -> None:
    told = line("client", 1)
    one = {"count": 2, "sum_ns": 300, "buckets": [100, 200], "counts": [1, 1]}
    told["record"]["load"] |= {
        "operations": 4,
        "bytes": 12288,
        "service_time": {**one, "count": 4, "counts": [2, 2]},
    }
    told["record"]["classes"] = [
        {
            "name": "read",
            "bytes": 8192,
            "operations": 2,
            "errors": 3,
            "service_time": one,
            "response_time": None,
        },
        {
            "name": "write",
            "bytes": 4096,
            "operations": 2,
            "errors": 0,
            "service_time": one,
            "response_time": None,
        },
    ]
    sample = Cutter().cut(
        "t", {"host": "client", **told["place"], "record": feed_module.shortened(told["record"])}
    )
    amounts = [
        sample.amount(name, first=kind)
        for name in ("operations", "payload", "errors")
        for kind in ("read", "write")
    ]
    assert amounts == [2, 2, 8192, 4096, 3, 0]
    assert sample.amount("operations") == 4 and set(sample.times) == {"read", "write"}


def test_hosts_on_one_machine_have_its_disks_once() -> None:
    told = line("client", 1)
    disk = {
        "sensor": "disks",
        "cost_ns": 1,
        "missing": None,
        "values": [["disk.read_bytes", "dev=vda", 4096]],
    }
    told["record"]["sensors"].append(disk)
    hosts = {
        name: {"hello": {"host": {"boot_id": boot}}}
        for name, boot in (("client", "a"), ("server", "a"), ("x", "b"))
    }
    seconds = stored.sharing({"hosts": hosts})
    assert seconds == {"server"}
    amounts = [
        Cutter(seconds).cut("t", {"host": host, **told["place"], "record": told["record"]}).amount("disk")
        for host in ("client", "server", "x")
    ]
    assert amounts == [4096, 0, 4096]


def test_bands_are_even_on_the_logarithm() -> None:
    assert band_edge_ns(3 * BANDS_PER_DECADE) == pytest.approx(1000)
    assert band_edge_ns(BANDS_PER_DECADE + 1) / band_edge_ns(BANDS_PER_DECADE) == pytest.approx(
        10 ** (1 / 32)
    )
