"""Feed of a campaign while it runs, for other processes to follow: lines of JSON in its folder.

`feed/events.jsonl` has a line for everything that happens (`KINDS`); `feed/TRIAL.PART.jsonl` one for each record of the
running trial, and is removed when the trial is stored, or when it is full and the next part begins. `feed/lock` is locked
as long as the lab lives. When the campaign ends, a last line says how, and the folder is removed: whoever follows has the
file open and still reads it.

A feed never costs a trial: a thread of its own writes, what it has no room for is dropped and counted, and no error
leaves it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from iodyno.campaign.strategy import Answer
from iodyno.campaign.time_of_day import TimeOfDay
from iodyno.campaign.watcher import Watcher
from iodyno.core.decision import Standing
from iodyno.core.design import PlannedTrial
from iodyno.core.warnings import Warning

FEED = "feed"
EVENTS = "events.jsonl"
LOCK = "lock"
KINDS = ("begin", "stage", "time_left", "trial", "more", "done", "warning", "look", "metric", "end")
"""Kinds of events."""
SENSORS = frozenset(
    {
        *(
            "cpu_exact",
            "cpu_times",
            "disks",
            "net_devices",
            "tcp_info",
            "softnet",
            "context_switches",
            "qdisc",
        ),
        *("nfs_operations", "nfsd_operations", "zfs_cache", "ceph_requests"),
    }
)
"""Sensors whose readings are looked at while a trial runs; everything is in the store after it."""
MOST_PART_BYTES = 256 << 20
"""Most bytes of one part (chosen: ten minutes of two hosts). Who comes later sees the beginning when the trial is stored."""
_MOST_WAITING = 4096
"""Most lines that may wait for the disk (chosen: a minute of 30 hosts with two records a second)."""
_CLOSING_S = 2.0
_LOCK_TRIES = 50


class Feed:
    """The feed of one campaign; its methods return at once and raise nothing."""

    def __init__(self, folder: Path, clock: TimeOfDay | None = None) -> None:
        self._folder = folder / FEED
        self._clock = clock or TimeOfDay()
        self._lines: queue.Queue[tuple[str, str, Mapping[str, Any], bytes] | None] = queue.Queue(
            _MOST_WAITING
        )
        self._files: dict[str, BinaryIO] = {}
        self._trial, self._part, self._part_bytes = "", 0, 0
        self._lock: BinaryIO | None = None
        self._locked = False
        self.lost = 0
        self.trouble = ""
        self._thread = threading.Thread(target=self._write_all, name="feed", daemon=True)
        self._thread.start()

    def event(self, kind: str, **content: Any) -> None:
        """Tells that something has happened."""
        self._put("event", "", {"kind": kind, "at_ns": self._clock.now_ns(), **content})

    def begin_trial(self, name: str, **content: Any) -> None:
        """A trial begins; its records follow."""
        self._put("open", name, {"kind": "trial", "at_ns": self._clock.now_ns(), "trial": name, **content})

    def record(self, trial: str, host: str, place: Mapping[str, Any], record: bytes) -> None:
        """A record of the trial, as it came from the host; `place`: the host's `role`, `operation` and `cpus`.

        It is not looked into: that is for those who follow, who may have a machine of their own.
        """
        self._put("record", trial, {"at_ns": self._clock.now_ns(), "host": host, **place}, record)

    def end_trial(self, name: str, **content: Any) -> None:
        """The trial is stored: its lines are not needed any more."""
        self._put("close", name, {"kind": "done", "at_ns": self._clock.now_ns(), "trial": name, **content})

    def close(self, how: str) -> None:
        """Says how the campaign ended and removes the feed; gives up after a while when the disk hangs."""
        self.event("end", how=how, lost=self.lost)
        with contextlib.suppress(queue.Full):
            self._lines.put(None, timeout=_CLOSING_S)
        self._thread.join(_CLOSING_S)

    def _put(self, what: str, name: str, line: Mapping[str, Any], record: bytes = b"") -> None:
        try:
            self._lines.put_nowait((what, name, line, record))
        except queue.Full:
            self._lose("the disk is slower than the records come")

    def _lose(self, why: str) -> None:
        self.lost += 1
        self.trouble = self.trouble or why

    def _write_all(self) -> None:
        try:
            self._open()
        except OSError as error:
            self._lose(f"cannot be written: {error.strerror or error}")
        while (item := self._lines.get()) is not None:
            try:
                self._write(*item)
            except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
                self._lose(f"cannot be written: {error}")
        for file in (*self._files.values(), *([self._lock] if self._lock else [])):
            with contextlib.suppress(OSError):
                file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _open(self) -> None:
        # What a killed lab left is of no use: its finished trials are stored.
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        self._lock = (self._folder / LOCK).open("wb")
        for _ in range(_LOCK_TRIES):
            if self._take_lock():
                break
            time.sleep(0.002)
        self._file(EVENTS)

    def _take_lock(self) -> bool:
        """A follower may ask just now whether somebody holds it; then it is tried again with the next line."""
        if self._lock and not self._locked:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._locked = True
            except BlockingIOError:
                return False
        return True

    def _file(self, name: str) -> BinaryIO:
        if name not in self._files:
            self._files[name] = (self._folder / name).open("ab", buffering=0)
        return self._files[name]

    def _write(self, what: str, name: str, line: Mapping[str, Any], record: bytes) -> None:
        self._take_lock()
        if what == "record":
            self._append_record(name, line, record)
            return
        if what == "open":
            self._begin_part(name, 0)  # before the event, so that a follower finds it
        self._file(EVENTS).write(_encoded(line))
        if what == "close":
            self._remove_part()

    def _append_record(self, name: str, line: Mapping[str, Any], record: bytes) -> None:
        # JSON of the wire has no line breaks.
        data = b'%b,"record":%b}\n' % (_encoded(line).removesuffix(b"}\n"), record)
        if name != self._trial:
            raise ValueError(f"a record of {name}, which has not begun")
        if self._part_bytes + len(data) > MOST_PART_BYTES and self._part_bytes:
            self._begin_part(name, self._part + 1)
            self._file(EVENTS).write(_encoded({"kind": "more", "trial": name, "part": self._part}))
        self._file(trial_file(name, self._part)).write(data)
        self._part_bytes += len(data)

    def _begin_part(self, name: str, part: int) -> None:
        self._remove_part()
        self._trial, self._part, self._part_bytes = name, part, 0
        self._file(trial_file(name, part))

    def _remove_part(self) -> None:
        name = trial_file(self._trial, self._part)
        file = self._files.pop(name, None)
        if file is not None:
            file.close()
            (self._folder / name).unlink(missing_ok=True)


class FedWatcher:
    """A watcher whose campaign has a feed: hands everything on, and tells the feed too."""

    def __init__(self, watcher: Watcher, feed: Feed) -> None:
        self._watcher = watcher
        self._feed = feed

    def on_stage(self, text: str) -> None:
        """A stage begins."""
        self._feed.event("stage", text=text)
        self._watcher.on_stage(text)

    def on_trial_start(self, planned: PlannedTrial, attempt: int) -> None:
        """A trial begins."""
        self._feed.begin_trial(
            trial_name(planned, attempt),
            order=planned.order,
            attempt=attempt,
            point=planned.point.id,
            levels=dict(planned.point.levels),
            proof=planned.perturbation is not None,
        )
        self._watcher.on_trial_start(planned, attempt)

    def on_progress(self, host: str, progress: Mapping[str, Any]) -> None:
        """An interval; the feed has its record from the runner, with those of a bystander."""
        self._watcher.on_progress(host, progress)

    def on_trial_end(self, planned: PlannedTrial, manifest: Mapping[str, Any]) -> None:
        """A trial is stored."""
        self._feed.end_trial(manifest["trial"], status=manifest["status"], reason=manifest["reason"])
        self._watcher.on_trial_end(planned, manifest)

    def on_warning(self, warning: Warning) -> None:
        """A warning about the campaign."""
        self._feed.event("warning", code=str(warning.code), text=warning.text, where=warning.where)
        self._watcher.on_warning(warning)

    def on_time_left(self, time_left_ns: int) -> None:
        """Report the time left."""
        self._feed.event("time_left", left_ns=time_left_ns)
        self._watcher.on_time_left(time_left_ns)

    def on_answer(self, answer: Answer, time_left_ns: int) -> None:
        """Report what a strategy knows by now."""
        if isinstance(standing := answer.shown, Standing):
            self._feed.event("look", rule=standing.rule, answer=standing.answer, trials=standing.trials)
        self._watcher.on_answer(answer, time_left_ns)


@contextlib.contextmanager
def fed(folder: Path, name: str, trials: int, clock: TimeOfDay) -> Iterator[Feed]:
    """The feed of the campaign in `folder` while it runs."""
    feed = Feed(folder, clock)
    feed.event("begin", name=name, trials=trials, pid=os.getpid())
    how = "stopped"
    try:
        yield feed
        how = "finished"
    except Exception as error:
        how = f"failed: {error}".splitlines()[0]
        raise
    finally:
        feed.close(how)


def trial_name(planned: PlannedTrial, attempt: int) -> str:
    """Name of an attempt at a trial, as its folder is called."""
    return f"{planned.order:05d}-{attempt}"


def trial_file(name: str, part: int = 0) -> str:
    """Name of the file with a part of the records of a trial."""
    return f"{name}.{part}.jsonl"


def _encoded(line: Mapping[str, Any]) -> bytes:
    return (json.dumps(line, separators=(",", ":")) + "\n").encode()


def shortened(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the readings of `SENSORS` only, without what a wire needs: what those who follow look at."""
    kept = [reading for reading in record["sensors"] if reading["sensor"] in SENSORS]
    whole = {key: record[key] for key in ("index", "window", "begin_ns", "end_ns", "load")}
    return {**whole, **({"classes": record["classes"]} if record.get("classes") else {}), "sensors": kept}


def is_alive(folder: Path) -> bool:
    """Tell whether a lab runs the campaign in `folder` now: it holds the lock of its feed."""
    try:
        with (folder / FEED / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
