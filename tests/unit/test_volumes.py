"""Volumes whose server, device or user does not play along: nothing is forgotten, and no trial runs on what is not there."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from iodyno import run_folder
from iodyno.core.errors import AccessError
from iodyno.core.volume import CLIENT_DAEMON, SERVER
from iodyno.loads.disk.campaign import volume as of_campaign
from iodyno.loads.disk.core.parameters import checked_folder
from iodyno.paths import command, veth
from iodyno.paths.volumes import nbd, server, table, volume
from iodyno.paths.volumes.volume import Note, Place, Volume


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(run_folder, "RUN", tmp_path / "run")
    return tmp_path / "run" / volume.NOTES


def test_a_server_that_does_not_start_again_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts: list[int] = []

    async def start(made: Volume, place: Place, export: server.Export, delay_ns: int) -> None:
        starts.append(delay_ns)
        if delay_ns:
            raise AccessError("nbdkit ended (1): no such filter")
        server.add(made, await volume.start(made.note, ["sleep", "60"], log=tmp_path / "log"))

    monkeypatch.setattr(nbd, "_start", start)

    async def scenario() -> None:
        made = Volume("nbd", tmp_path, device=False, note=Note("nbd", "t"))
        export = server.Export(tmp_path, tmp_path / "image", "ns", "198.18.64.2", tmp_path / "log")
        await nbd._serve(made, Place(tmp_path, 4096, clients={}), export)
        assert made.gone() is None
        with pytest.raises(AccessError, match="no such filter"):
            await made.delay(5_000_000)
        # The testbed makes anew what is gone; and if it did not, a trial without a delay would start the server.
        assert "server of nbd" in str(made.gone())
        await made.delay(0)
        assert starts == [0, 5_000_000, 0] and len(made.processes[SERVER]) == 1
        await made.close()

    asyncio.run(scenario())


def test_what_does_not_go_stays_noted_for_the_next_lab(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "_backing", lambda device: "7:1 /image")  # busy
    monkeypatch.setattr(volume, "quietly", lambda *command: None)
    note = Note("loop", "t")
    folder = note.make_folder(tmp_path)
    note.add_loop("/dev/loop99")
    note.undo()
    (left,) = notes.iterdir()
    assert json.loads(left.read_text()) == {"loop": ["/dev/loop99 7:1 /image"]} and not folder.exists()
    # As the note of a lab that is gone; the device is not busy any more.
    left.rename(notes / "999999999-1-loop.json")
    monkeypatch.setattr(volume, "_backing", lambda device: "")
    assert volume.remove_leftovers() == ["999999999-1-loop"]
    assert not list(notes.iterdir())


def test_a_second_stop_leaves_nothing(tmp_path: Path, notes: Path) -> None:
    async def scenario() -> None:
        note = Note("file", "t")
        folder = note.make_folder(tmp_path)
        log = tmp_path / "log"
        busy = await volume.start(
            note, ["sh", "-c", 'trap "" TERM; echo up; while :; do sleep 1; done'], log=log
        )
        await volume.wait_until(log.read_text, busy, "sh", log)
        made = Volume("file", folder, device=False, note=note, processes={CLIENT_DAEMON: [busy]})
        closing = asyncio.create_task(made.close())
        await asyncio.sleep(0.2)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert not folder.exists() and not list(notes.iterdir())
        assert await asyncio.wait_for(busy.wait(), 10) == -9

    asyncio.run(scenario())


def test_a_fill_that_is_stopped_has_ended_when_the_volume_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, begun = tmp_path / "target", threading.Event()
    target.touch()
    drawn = os.urandom

    def slow(count: int) -> bytes:
        begun.set()
        time.sleep(0.01)
        return drawn(count)

    async def scenario() -> int:
        filling = asyncio.create_task(of_campaign._fill_all([target], 1 << 40))
        await asyncio.to_thread(begun.wait, 10)
        filling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await filling
        return target.stat().st_size

    monkeypatch.setattr(of_campaign.os, "urandom", slow)
    size = asyncio.run(scenario())
    assert 0 < size < 1 << 30
    # Nobody writes on.
    assert target.stat().st_size == size


def test_a_volume_that_a_user_cannot_make_is_an_error_with_advice(
    tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "below", tmp_path / "file"):
        with pytest.raises(AccessError, match="volume file") as caught:
            asyncio.run(table.make("file", Place(folder, 4096)))
        assert "volume_folder" in caught.value.advice
    assert not notes.is_dir() or not list(notes.iterdir())

    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", "/run/iodyno")

    monkeypatch.setattr(volume, "_write_note", refused)
    with pytest.raises(AccessError, match="Permission denied"):
        asyncio.run(table.make("file", Place(tmp_path, 4096)))


@pytest.mark.parametrize("path", ["/srv/it's; touch /tmp/x #", '/srv/a"b', "/srv/{a}", "/srv/a\\b", ""])
def test_a_folder_that_a_configuration_has_no_word_for_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="expected the path of a folder"):
        checked_folder(path)
    assert checked_folder("/srv/my disks; all") == "/srv/my disks; all"


def test_two_targets_of_one_lab_have_control_numbers_of_their_own() -> None:
    assert len({server.unique_number() for _ in range(10)}) == 10


def test_a_command_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match=r"`sleep 60`: no answer within 0\.1 s"):
        asyncio.run(volume.said_by("sleep", "60", deadline_s=0.1))
    hanging = tmp_path / "ip"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(command.answer_of, "__defaults__", (None, 0.2))
    with pytest.raises(AccessError, match=r"`ip link`: no answer"):
        asyncio.run(veth.ip("link"))
    # As when a file system over a server that is gone is left.
    assert not command.quietly("sleep", "60", deadline_s=0.1)
    assert command.quietly("false") and command.quietly("there-is-no-such-program")
