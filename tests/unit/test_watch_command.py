"""The board of a campaign, and what `iodyno watch` shows of it: frames, lines of JSON, errors."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign
from made_feed import followers_closed, line, tell_trial, unfinished, until

from iodyno.campaign.feed import Feed
from iodyno.cli import main as front
from iodyno.cli.watch_beside import page_beside
from iodyno.core.errors import StoreError
from iodyno.store.writer import write_document
from iodyno.watch.board import Board
from iodyno.watch.terminal import ending, frame


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    with followers_closed():
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [({"connections": n, "size": 65536}, Truth()) for n in (1, 4)]
    return make_campaign(tmp_path_factory.mktemp("watch") / "c", points, layout=Layout(replicates=2, idle=()))


def test_the_board_of_a_finished_campaign(finished: Path) -> None:
    board = Board(finished)
    state = board.state()
    assert (state["phase"], state["planned"], state["finished"], state["failed"]) == ("over", 4, 4, 0)
    assert state["left_s"] is None and state["current"] is None
    assert [trial["label"] for trial in board.trial_list()][:2] == [
        "connections 1, size 64KiB",
        "connections 4, size 64KiB",
    ]
    assert len(board.samples_of("00002-1")) == 22
    with pytest.raises(StoreError, match="no such trial"):
        board.samples_of("../../etc")
    assert ending(board) == "the campaign has ended: 4 of 4 trials finished"


def test_who_comes_late_has_the_trials_before_whole(tmp_path: Path) -> None:
    whole = make_campaign(
        tmp_path / "whole",
        [({"connections": 1, "size": 65536}, Truth())],
        layout=Layout(replicates=1, idle=()),
    )
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    try:
        feed.event("begin", name="made", trials=4, pid=1)
        tell_trial(feed, 0, intervals=4, pace=lambda _: None, end=False)
        # Its records go from the feed when it is stored.
        stored = folder / "trials" / "00000-1"
        shutil.copytree(whole / "trials" / "00000-1", stored)
        manifest = json.loads((stored / "manifest.json").read_text())
        manifest["windows"] |= {"warm_up_ns": 10**9, "measured_ns": 10 * 10**9}
        write_document(stored / "manifest.json", manifest)
        feed.end_trial("00000-1", status="finished", reason=None)
        tell_trial(feed, 1, intervals=2, pace=lambda _: None, end=False)
        until(lambda: not list(folder.glob("feed/*00000-1*")) and list(folder.glob("feed/*00001-1*")))
        board = Board(folder)
        until(lambda: (board.refresh(), len(board.samples) == 4)[1])
        first = board.trials["00000-1"]
        assert first["status"] == "finished"
        assert first["length_s"] == pytest.approx(11.0), "ten intervals and a warm-up, as the store has them"
        assert len(board.samples_of("00000-1")) == 22
        assert board.current == "00001-1"
    finally:
        feed.close("finished")
    board.close()


def test_a_live_board_tells_what_happens(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    feed.event("stage", text="opening the hosts")
    board = Board(folder)
    try:
        until(lambda: (board.refresh(), board.progress.stage == "opening the hosts")[1])
        assert "no trial yet" in shown(board) and "opening the hosts" in shown(board)
        tell_trial(feed, 0, intervals=4, pace=lambda _: None, end=False)
        feed.event("warning", code="host_busy", text="it is busy", where="host server")
        # The warning comes by another file than the samples.
        until(lambda: (board.refresh(), len(board.samples) == 8 and board.state()["warnings"])[1])
        state = board.state()
        assert state["phase"] == "running" and state["current"] == "00000-1" and 50 < state["left_s"] <= 60
        assert state["warnings"] == ["host server: it is busy"]
        assert "1 min left" in shown(board) or " s left" in shown(board)
        kinds = [message.kind for message in board.greeting()]
        assert kinds == ["state", "trials"] + ["sample"] * 8
        numbers = [message.number for message in board.after(0, 0)]
        assert numbers == sorted(set(numbers)) and board.has_all_after(0)
        assert not board.has_all_after(10**6), "a page of another watcher begins anew"
        feed.end_trial("00000-1", status="failed", reason={"what": "the agent is gone"})
        until(lambda: (board.refresh(), board.current is None)[1])
        assert board.state()["failed"] == 1 and board.trials["00000-1"]["reason"] == "the agent is gone"
        assert len(board.samples_of("00000-1")) == 8, "it can still be looked at"
    finally:
        feed.close("failed: no host")
    until(lambda: (board.refresh(), board.progress.phase == "ended")[1])
    assert "the campaign was failed: no host" in ending(board)


def test_totals_are_the_sums_of_all_samples(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    board = Board(folder)
    tell_trial(feed, 0, intervals=4, pace=lambda _: None, end=False)
    until(lambda: (board.refresh(), len(board.samples) == 8)[1])
    feed.close("finished")
    expected = sum(
        line("client", index, interval_ns=200_000_000)["record"]["load"]["bytes"] for index in range(4)
    )
    assert board.totals.amounts["payload", "client", "sent", ""] == expected
    assert board.totals.records == {"client": 4, "server": 4}


def shown(board: Board, width: int = 80) -> str:
    from rich.console import Console

    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with console.file:
        console.print(frame(board))
    return console.export_text()


@pytest.mark.parametrize("hosts", [1, 2, 30])
def test_a_frame_fits_an_old_terminal(tmp_path: Path, hosts: int) -> None:
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    feed.event("begin", name="made " * 30, trials=4, pid=1)
    names = [f"client{number:02d}" for number in range(hosts)]
    tell_trial(feed, 0, names, intervals=9, pace=lambda _: None, end=False)
    feed.event("warning", code="x", text="long " * 40, where="host y")
    board = Board(folder)
    until(lambda: (board.refresh(), len(board.samples) == 9 * hosts and board.progress.warnings)[1])
    feed.close("finished")
    lines = shown(board).splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 80, lines
    text = "\n".join(lines)
    assert "client00" in text and "GB/s" in text and "p99.9" in text and "█" in text
    assert ("and 24 more" in text) == (hosts == 30)


def test_once_prints_one_frame_and_json_ends_by_itself(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert front.run(["watch", str(finished), "--once"]) == 0
    printed = capsys.readouterr()
    assert "4 of 4 finished" in printed.out and printed.err == ""
    assert front.run(["watch", str(finished), "--json"]) == 0
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in lines] == ["state", "trials"]
    assert lines[0]["data"]["finished"] == 4


def test_until_end_leaves_when_there_is_nothing_to_wait_for(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert front.run(["watch", str(finished), "--until-end"]) == 0
    said = capsys.readouterr().err
    assert "page: http://127.0.0.1:" in said and "has ended: 4 of 4" in said


def test_a_feed_of_another_version_is_counted_and_followed(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    board = Board(folder)
    for kind in ("stage", "time_left", "done", "warning", "look", "from the future"):
        feed.event(kind)
    tell_trial(feed, 0, intervals=2, pace=lambda _: None, end=False)
    feed.record("00000-1", "client", {}, json.dumps(line("client", 2)["record"]).encode())
    feed.record("00000-1", "client", {"role": "send", "operation": "write", "cpus": [0]}, b'{"sensors":[]}')
    until(lambda: (board.refresh(), len(board.samples) == 4 and board.progress.lost >= 6)[1])
    feed.close("finished")


def test_a_campaign_that_is_removed_is_said(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    board = Board(folder)
    stop = threading.Event()
    thread = threading.Thread(target=board.run, args=(stop,))
    thread.start()
    shutil.rmtree(folder)
    thread.join(20)
    stop.set()
    assert not thread.is_alive() and board.progress.phase == "ended" and "removed" in ending(board)


@pytest.mark.parametrize("how", ["--until-end", "--json"])
def test_nobody_waits_for_a_lab_that_does_not_come(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("iodyno.cli.watch._GRACE_S", 0.1)
    assert front.run(["watch", str(unfinished(tmp_path / "c")), how]) == 0
    printed = capsys.readouterr()
    assert ("left unfinished: 0 of 4 trials" in printed.err) == (how == "--until-end")


def test_a_page_beside_a_run_comes_and_goes_with_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, said = tmp_path / "c", ""
    with page_beside(folder):
        unfinished(folder)
        feed = Feed(folder)
        feed.event("begin", name="made", trials=4, pid=1)
        end = time.monotonic() + 60
        while "page: http://127.0.0.1:" not in said:
            assert time.monotonic() < end
            time.sleep(0.02)
            said += capfd.readouterr().err
        feed.close("finished")
    assert "the campaign has ended: 0 of 4" in capfd.readouterr().err
    with page_beside(tmp_path / "never"):
        pass


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "missing argument CAMPAIGN"),
        (["nowhere"], 6, "there is no such folder"),
        (["."], 6, "is not the folder of a campaign"),
        (["--once", "--json", "."], 2, "--once cannot be used with --json"),
        (["--port", "70000", "."], 2, "70000"),
    ],
)
def test_a_wrong_word_is_one_error(
    words: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert front.run(["watch", *words]) == code
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and "Traceback" not in printed.err


@pytest.fixture
def broken(finished: Path, tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "c"
    shutil.copytree(finished, folder)
    (folder / "trials" / "00000-1" / "manifest.json").write_text("{}")
    (folder / "trials" / "00001-1" / "series.parquet").write_bytes(b"PAR1")
    yield folder


def test_broken_trials_are_left_out_and_said(broken: Path) -> None:
    board = Board(broken)
    assert [trial["trial"] for trial in board.trial_list()] == ["00001-1", "00002-1", "00003-1"]
    with pytest.raises(StoreError, match="cannot be read"):
        board.samples_of("00001-1")
    for name in ("00002-1", "00003-1"):
        (broken / "trials" / name / "records.parquet").write_bytes(b"")
    assert "last trial" in (said := shown(Board(broken)))
    assert "its files are damaged, and it does not count" in said
