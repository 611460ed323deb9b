"""State of a campaign at this moment, from its feed and its store; whoever shows it asks here.

One thread calls `refresh`; any number of others read, and wait for what is new. Messages are numbered, so that a
page that lost its connection goes on where it was.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from iodyno.campaign.feed import is_alive
from iodyno.core.errors import StoreError
from iodyno.core.factor import parameter_of
from iodyno.core.metric_source import names_of
from iodyno.loads.base.workloads import workload_of_stored
from iodyno.watch import stored
from iodyno.watch.facts import STATISTICS, Cutter, Sample
from iodyno.watch.follow import Follower
from iodyno.watch.totals import Totals

POLL_S = 0.1
"""Time between two looks at the feed (chosen: a tenth of the lag that is allowed)."""
_KEPT_MESSAGES = 10_000
"""Messages kept for pages that come back (chosen: five minutes of 30 hosts, some 40 MB)."""
_KEPT_SAMPLES = 10_000
"""Samples kept of the trial under way (chosen: five minutes of 30 hosts, an hour of two, some 100 MB); a page keeps more."""
_KEPT_TRIALS = 8
_ASK_STORE_S = 1.0

Phase = Literal["waiting", "running", "ended", "over"]
"""waiting: begun, and no lab is seen; running; ended: while it was watched; over: before."""


@dataclass(frozen=True)
class Message:
    """Something that a page is told: `kind` is `state`, `trials` (those that are new or changed) or `sample`."""

    number: int
    kind: str
    text: str


@dataclass
class Progress:
    """Progress of a campaign. `left_ns` was said at `left_at_s`, by the clock of its feed."""

    phase: Phase = "waiting"
    stage: str = ""
    how: str = ""
    left_ns: int | None = None
    left_at_s: float = 0.0
    warnings: list[str] = field(default_factory=list)
    look: str = ""
    lost: int = 0


class Board:
    """The state of the campaign in `folder`. Raises StoreError when it is not the folder of a campaign."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.header = stored.header(folder)
        self.progress = Progress()
        self.trials: dict[str, dict[str, Any]] = {}
        self.current: str | None = None
        self.samples: deque[Sample] = deque(maxlen=_KEPT_SAMPLES)
        self.totals = Totals()
        self.lag_s: float | None = None
        self._metrics: dict[str, list[tuple[int, float]]] = {}
        self._feed_behind_s: float | None = None
        self._cutter = Cutter()
        self._follower = Follower(folder)
        self._changed = threading.Condition(threading.RLock())
        self._messages: deque[Message] = deque(maxlen=_KEPT_MESSAGES)
        self._number = 0
        self._asked_store_s = 0.0
        self._kept: dict[str, list[Sample]] = {}
        self._read_store()
        self.refresh()

    # Who looks.

    @property
    def lock(self) -> threading.Condition:
        """Held while several things are read that must fit together."""
        return self._changed

    def after(self, number: int, timeout_s: float) -> list[Message]:
        """Messages with a greater number; waits for the first of them, at most so long."""
        with self._changed:
            if self._number <= number:
                self._changed.wait(timeout_s)
            return [message for message in self._messages if message.number > number]

    def greeting(self) -> list[Message]:
        """Return what a page needs at first: state, trials, and the samples of the trial under way."""
        with self._changed:
            now = self._number
            return [
                Message(now, "state", _text(self.state())),
                Message(now, "trials", _text(self.trial_list())),
                *(Message(now, "sample", _text(sample.as_json())) for sample in self.samples),
            ]

    def has_all_after(self, number: int) -> bool:
        """Tell whether no message after that number has been dropped."""
        with self._changed:
            return number <= self._number and (not self._messages or self._messages[0].number <= number + 1)

    def state(self) -> dict[str, Any]:
        """Progress, as a page shows it."""
        with self._changed:
            design, experiment = self.header.get("design", {}), self.header.get("experiment") or {}
            done = [trial["status"] for trial in self._last_attempts().values()]
            left_ns = self.left_ns()
            return {
                "name": self.header.get("name", ""),
                "question": experiment.get("question", ""),
                "hosts": list(self.header.get("hosts") or experiment.get("hosts") or ()),
                "folder": str(self.folder),
                "phase": self.progress.phase,
                "stage": self.progress.stage,
                "how": self.progress.how,
                "planned": len(design.get("trials", ())),
                "finished": done.count("finished"),
                "failed": done.count("failed"),
                "left_s": None if left_ns is None else left_ns / 1e9,
                "current": self.current,
                "warnings": self.progress.warnings[-20:],
                "look": self.progress.look,
                "metrics": self.metrics(),
                "lost": self.progress.lost,
                "now_s": self.now_s(),
                "statistics": [statistic.as_json() for statistic in STATISTICS],
            }

    def metrics(self) -> list[dict[str, Any]]:
        """Values of metrics of other programs when they were last read in the trial under way; of a counter, its rate."""
        found = []
        for name, about, value in names_of(self.header.get("experiment") or {}):
            last = self._metrics.get(name, [])
            shown = last[-1][1] if last else None
            if value["kind"] == "counter":
                shown = (
                    (last[1][1] - last[0][1]) / (last[1][0] - last[0][0]) * 1e9 if len(last) == 2 else None
                )
            if shown is not None:
                found.append({"name": name, "source": about["source"], "unit": value["unit"], "value": shown})
        return found

    def trial_list(self) -> list[dict[str, Any]]:
        """Every trial that has begun, by its beginning."""
        with self._changed:
            return sorted(self.trials.values(), key=lambda trial: (trial["start_s"], trial["order"]))

    def label(self, trial: Mapping[str, Any]) -> str:
        """The levels of a trial, such as `connections 4, size 64KiB`."""
        workload = workload_of_stored((self.header.get("experiment") or {}).get("workload") or {})
        shown = []
        for name, level in trial["levels"].items():
            parameter = parameter_of(workload, name)
            shown.append(f"{name} {parameter.show(level) if parameter else level}")
        return ", ".join(shown) or str(trial["point"])

    def now_s(self) -> float:
        """Return the time of day by the clock of the feed, as far as it is known: of the line that came soonest."""
        return time.time() if self._feed_behind_s is None else time.monotonic() - self._feed_behind_s

    def left_ns(self) -> int | None:
        """Time left of the campaign; None when nobody said."""
        progress = self.progress
        if progress.phase != "running" or progress.left_ns is None:
            return None
        return max(0, progress.left_ns - round((self.now_s() - progress.left_at_s) * 1e9))

    def samples_of(self, name: str) -> Sequence[Sample]:
        """Samples of a trial, under way or stored. Raises StoreError when there is no such trial."""
        with self._changed:
            if name == self.current:
                return list(self.samples)
            if name in self._kept:
                return self._kept[name]
            if name not in self.trials:
                raise StoreError("there is no such trial", where=name)
        found = stored.read_samples(self.folder, name, self._cutter.seconds)
        with self._changed:
            self._kept[name] = found
            while len(self._kept) > _KEPT_TRIALS:
                del self._kept[next(iter(self._kept))]
        return found

    # Who keeps it up to date.

    def run(self, stop: threading.Event) -> None:
        """Refreshes until `stop`, or until the campaign's folder cannot be read any more."""
        while not stop.wait(POLL_S):
            try:
                self.refresh()
            except StoreError as error:
                with self._changed:
                    self.progress.phase, self.progress.how = "ended", f"removed: {error.what}"
                    self._say("state", self.state())
                    self._changed.notify_all()
                return

    def refresh(self) -> None:
        """Takes in what is new."""
        with self._changed:
            events = list(self._follower.poll())
            for what, line in events:
                try:
                    if what == "event":
                        self._take_event(line)
                    else:
                        self._take_record(line)
                except (KeyError, TypeError, ValueError, IndexError, AttributeError):
                    self.progress.lost += 1  # of another version of the lab
            now_s = time.monotonic()
            if not self._follower.following and now_s - self._asked_store_s >= _ASK_STORE_S:
                self._asked_store_s = now_s
                self._look_at_store()
            if any(what == "event" for what, _ in events):
                self._say("state", self.state())
            if events:
                self._changed.notify_all()

    def close(self) -> None:
        """Closes the files."""
        self._follower.close()

    def _take_event(self, line: Mapping[str, Any]) -> None:
        progress, at_s = self.progress, line["at_ns"] / 1e9
        if line.get("kind") == "begin":
            self._feed_behind_s = None
        self._hear(at_s)
        match line.get("kind"):
            case "begin":
                self.progress = Progress("running")
                self._read_store()
            case "stage":
                progress.stage = str(line["text"])
            case "time_left":
                progress.left_ns, progress.left_at_s = line["left_ns"], at_s
            case "trial":
                self._begin_trial(line, at_s)
            case "done":
                self._end_trial(line)
            case "warning":
                progress.warnings.append(f"{line['where'] + ': ' if line['where'] else ''}{line['text']}")
            case "look":
                progress.look = f"{line['rule']}: {line['answer']} after {line['trials']} trials"
            case "metric":
                self._take_metric(line)
            case "end":
                progress.phase, progress.how, progress.lost = "ended", str(line["how"]), int(line["lost"])
                progress.stage = ""
                self._drop_current()
                self._read_store()

    def _hear(self, at_s: float) -> float:
        """Take in when a line was written; returns for how long it was on its way, beside the one that was so least."""
        behind_s = time.monotonic() - at_s
        self._feed_behind_s = min(behind_s, behind_s if self._feed_behind_s is None else self._feed_behind_s)
        return behind_s - self._feed_behind_s

    def _begin_trial(self, line: Mapping[str, Any], at_s: float) -> None:
        self._drop_current()
        self._read_header()
        self.progress.stage = ""
        name = str(line["trial"])
        kept = ("trial", "order", "attempt", "point", "levels", "proof")
        self.trials[name] = {key: line[key] for key in kept} | {
            "status": "running", "reason": None, "start_s": at_s, "length_s": 0.0, "warnings": [], "label": self.label(line),
        }  # fmt: skip
        self.current, self.samples = name, deque(maxlen=_KEPT_SAMPLES)
        self._metrics = {}
        self._say("trials", [self.trials[name]])

    def _take_metric(self, line: Mapping[str, Any]) -> None:
        if line["value"] is None:
            return
        last = self._metrics.setdefault(f"{line['source']}.{line['metric']}", [])
        at_ns = (line["before_ns"] + line["after_ns"]) // 2
        if not last or at_ns > last[-1][0]:
            last[:] = [*last[-1:], (at_ns, float(line["value"]))]

    def _end_trial(self, line: Mapping[str, Any]) -> None:
        name = str(line["trial"])
        trial = self.trials.get(name)
        if trial is not None:
            trial["status"] = line["status"]
            trial["reason"] = (line["reason"] or {}).get("what")
        if name == self.current:
            if self._all_followed():
                self._kept[name] = list(self.samples)  # else it is read from the store
            elif trial is not None and not self.samples:
                # Who came when it was over knows neither when its first interval began nor how long it took.
                self._describe(trial)
            self.current = None
        self._cutter.forget(name)
        if trial is not None:
            self._say("trials", [trial])

    def _all_followed(self) -> bool:
        """Tell whether every interval of the trial under way was seen, from the first on, and is still kept."""
        seen: dict[str, int] = {}
        for sample in self.samples:
            if sample.index != seen.get(sample.host, 0):
                return False
            seen[sample.host] = sample.index + 1
        return bool(seen)

    def _describe(self, trial: dict[str, Any]) -> None:
        """Add the store's description of a trial; nothing changes where it has none."""
        with contextlib.suppress(StoreError):
            found = stored.read_description(self.folder, trial["trial"])
            trial |= {key: found[key] for key in ("start_s", "length_s", "warnings")}

    def _drop_current(self) -> None:
        """A trial that was neither finished nor failed was stopped, and is not stored."""
        if self.current and self.trials[self.current]["status"] == "running":
            self.trials[self.current]["status"] = "stopped"
            self._say("trials", [self.trials[self.current]])
        self.current = None

    def _take_record(self, line: Mapping[str, Any]) -> None:
        name = str(line["trial"])
        trial = self.trials.get(name)
        if trial is None:
            return
        sample = self._cutter.cut(name, line)
        at_s = line["at_ns"] / 1e9
        self.lag_s = self._hear(at_s)
        if not self.samples:
            trial["start_s"] = at_s - sample.end_s
            self._say("trials", [trial])
        trial["length_s"] = max(trial["length_s"], sample.end_s)
        self.samples.append(sample)
        self.totals.add(sample)
        self._say("sample", sample.as_json())

    def _look_at_store(self) -> None:
        """Without a feed the store tells; another lab may have begun or ended the campaign meanwhile."""
        if self.progress.phase in ("waiting", "over"):
            known = set(self.trials)
            self._read_store()
            if known != set(self.trials):
                self._say("trials", [self.trials[name] for name in sorted(set(self.trials) - known)])
                self._say("state", self.state())
                self._changed.notify_all()

    def _read_header(self) -> None:
        self.header = stored.header(self.folder)
        self._cutter.seconds = stored.sharing(self.header)

    def _read_store(self) -> None:
        self._read_header()
        for name in stored.trial_names(self.folder):
            if self.trials.get(name, {}).get("status") in ("finished", "failed"):
                continue
            try:
                trial = stored.read_description(self.folder, name)
            except StoreError:
                continue  # broken, which `iodyno report` says
            self.trials[name] = trial | {"label": self.label(trial)}
        if self.progress.phase in ("waiting", "over") and not is_alive(self.folder):
            self.progress.phase = "over" if self.header.get("finished") else "waiting"

    def _last_attempts(self) -> dict[int, dict[str, Any]]:
        last: dict[int, dict[str, Any]] = {}
        for trial in self.trials.values():
            if trial["order"] not in last or last[trial["order"]]["attempt"] < trial["attempt"]:
                last[trial["order"]] = trial
        return last

    def _say(self, kind: str, content: Any) -> None:
        self._number += 1
        self._messages.append(Message(self._number, kind, _text(content)))


def _text(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"))
